#!/bin/bash

# example, written by modak; deploying again overwrites it.

set -u

cd "$(dirname "$0")" || exit 1
deployment=$PWD
workspace=$(cd ../.. && pwd)
job_id="$$.$(cut -d ' ' -f 22 /proc/$$/stat)"

# Only one job of a deployment trains, even if it was submitted twice.
mkdir -p state
if ! (set -o noclobber && echo "$job_id" > state/claim) 2> /dev/null; then
    owner=$(cat state/claim)
    if [ -n "$owner" ] && [ "$owner" != "$job_id" ]; then
        echo "job $owner already runs this deployment, so job $job_id does nothing" >&2
        exit 75
    fi
fi

# A scheduler may run a job again, for example after its node failed: what the earlier run noted no longer counts.
if [ "$(cat state/finished 2> /dev/null)" = 0 ]; then
    exit 0
fi
rm -f state/finished state/ended state/missed
# Takes the room for the exit code now, so that it can be noted even on a full disk.
echo > state/finishing

# It continues from where it was.
rm -f state/requeued state/stop state/late
checkpoints=$deployment/checkpoints
stop=$deployment/state/stop
mkdir -p "$checkpoints"
echo "$(date +%s) $job_id $(hostname)" >> state/runs
run=$(wc -l < state/runs)

# The end is written by the job itself: schedulers forget, and a node that died can look like success.
finish() {
    local code=$?
    trap - EXIT
    cd "$deployment" || exit "$code"
    [ -z "$local_copy" ] || rm -rf "$local_copy"
    [ -e state/requeued ] && exit "$code"
    # another attempt may have taken the place of one whose node had vanished for a while
    if ! [ -e state/claim ] || { [ -s state/claim ] && [ "$(cat state/claim)" != "$job_id" ]; }; then
        exit "$code"
    fi
    [ "$SECONDS" -ge 5400 ] && echo timeout > state/ended
    echo "$code" 1<> state/finishing && mv state/finishing state/finished
    exit "$code"
}
local_copy=
trap finish EXIT
trap 'exit 143' TERM
trap 'exit 130' INT
trap ': > "$stop"' USR1

exec >> output.log 2>> error.log
echo "$(date +%s) $job_id $(hostname)" > state/started

# Asks the training to save its state and end. If it does not end in time, it is ended, and continues from its last state.
ask() {
    : > "$stop"
    timeout 90 tail --pid="$training" -f /dev/null
    if [ $? -eq 124 ]; then
        : > "$deployment/state/late"
        kill -TERM "$training"
        timeout 15 tail --pid="$training" -f /dev/null
        [ $? -ne 124 ] || kill -KILL "$training"
    fi
} 2> /dev/null

# Has the job run again after a training that was asked to end, or whose exit code says that it is to continue.
queue_again() {
    cd "$deployment" || return
    if [ "$1" -eq 0 ] || { [ "$1" -ne 85 ] && ! [ -e state/late ]; }; then
        return
    fi
    [ ! -e "$stop" ] || echo timeout > state/ended
    if [ -z "$(ls checkpoints)" ]; then
        echo "the training was stopped, but has saved nothing to continue from" >&2
    elif [ "$run" -gt 3 ]; then
        echo "the training was stopped, and its job has been queued again as often as allowed: 3" >&2
    else
        echo "run $run was stopped; the job is queued again" >&2
        trap - TERM INT USR1
        exec bash "$deployment/${0##*/}"
        rm -f state/requeued
        echo "the job could not be queued again; what the training has saved stays in $deployment/checkpoints" >&2
    fi
}
dataset="$workspace/datasets/mnist-1"

# The node's own scratch is nearer than what all nodes share; if it has no room, the shared data is used.
# Others may write there too, so the folder is a new one that nobody else may enter.
rm -rf "${TMPDIR:-/dev/null}/modak/modak-$(id -u)-$job_id."*
if mkdir -p "${TMPDIR:-/dev/null}/modak" && local_copy=$(mktemp -d "${TMPDIR:-/dev/null}/modak/modak-$(id -u)-$job_id.XXXXXX") &&
    cp -R "$dataset/." "$local_copy/"; then
    dataset=$local_copy
else
    echo "the data could not be copied to ${TMPDIR:-/dev/null}/modak; it is read from $dataset"
    [ -z "$local_copy" ] || rm -rf "$local_copy"
fi

runtime=$(command -v podman) || {
    echo "podman is not on the PATH of $(hostname)" >&2
    exit 127
}
image="$workspace/images/abc.tar"
if ! [ -e "$image" ]; then
    echo "the image $image is not there" >&2
    exit 66
fi
# An image that was changed has another stamp; then all of it is compared with what was made.
digest=none stamp=
[ -e "$workspace/images/abc.seal" ] && read -r digest stamp < "$workspace/images/abc.seal"
if [ "$(stat -L -c '%s %i %.9Y %.9Z' "$image")" != "$stamp" ] &&
    [ "$(sha256sum < "$image" | cut -d ' ' -f 1)" != "$digest" ]; then
    echo "the image $image has changed since it was made (SHA-256 $digest), and is not run;" \
        "deploy again to make it again" >&2
    exit 65
fi

# What the container sees of the machine, where it sees it, and how.
folders=(
    "$workspace:$workspace"
    "$HOME:$HOME"
    /tmp:/tmp
    "$dataset:$dataset"
    /lustre/data:/data:ro
    /opt/licences:/opt/licences
)

# Loads the image from its file into the engine's own store, unless it is there: its name there is the digest of its
# configuration, which the file contains. Each node of a job may have a store of its own.
archive=$image
image=$(tar -x -O -f "$archive" manifest.json 2> /dev/null | grep -o '"Config": *"[^"]*' | grep -o -m 1 '[0-9a-f]\{64\}')
if [ -z "$image" ] || ! "$runtime" image exists "$image"; then
    loaded=$("$runtime" load --quiet --input "$archive") || exit 66
    image=${image:-${loaded##*: }}
fi
own=$("$runtime" image inspect --format '{{range .Config.Env}}{{println .}}{{end}}' "$image" | cut -d = -f 1)
own=$'HOSTNAME\nSHLVL\nPWD\nOLDPWD\n_\n'$own
mounts=("${folders[@]/#/--volume=}" --device=nvidia.com/gpu=all)

# A container is not a child of this job: one that a killed job left behind is ended before another runs, and whatever
# kills this job, a guard ends its container.
end_containers() {
    "$1" ps --all --quiet --filter "label=modak.deployment=$2" | xargs --no-run-if-empty "$1" rm --force
}
end_containers "$runtime" "$deployment" > /dev/null
# shellcheck disable=SC2016 # a dollar there is for the other shell
setsid bash -c "$(declare -f end_containers)"'; tail --pid="$1" -f /dev/null; end_containers "$2" "$3"' \
    guard "$$" "$runtime" "$deployment" > /dev/null 2>&1 < /dev/null 3>&- 4>&- &
{
    declare -p runtime archive image own mounts deployment
    # shellcheck disable=SC2016
    echo '"$runtime" image exists "$image" || "$runtime" load --quiet --input "$archive" > /dev/null || exit 66
mapfile -t names < <(compgen -e | grep -vxF "$own")
exec "$runtime" run --rm --init --pull=never --network=host --ipc=host --security-opt=label=disable --entrypoint= \
    --label "modak.deployment=$deployment" --workdir "$PWD" "${names[@]/#/--env=}" "${mounts[@]}" -- "$image" "$@"'
} > state/contain.sh

cd code || exit 1
unset PYTHONPATH PYTHONHOME
# shellcheck disable=SC2016 # a dollar in a user's own value is only a dollar
command=(
    bash "$deployment/state/contain.sh"
    env
    PYTHONNOUSERSITE=1
    PYTHONUNBUFFERED=1
    PYTHONHASHSEED="${PYTHONHASHSEED:-0}"
    MODAK_LAUNCHED="$(date +%s.%N)"
    MODAK_METRICS="$deployment/metrics.json"
    MODAK_CHECKPOINTS="$checkpoints"
    MODAK_CHECKPOINT_EVERY=600
    MODAK_STOP="$stop"
    MODAK_DATASET="$dataset"
    OMP_NUM_THREADS=4
    NOTE='a b; $(reboot) `id` "'"'"''
    /opt/venv/bin/python
    train.py
    --epochs 12
    -n 1
    --data "$dataset"/idx
    --verbose
    --name 'a '"'"'b'"'"' $HOME'
)
timeout --kill-after=30 5400 "${command[@]}" &
training=$!
trap 'kill -TERM "$training" 2> /dev/null; wait "$training"; exit 143' TERM
(
    timeout $((5280 > SECONDS ? 5280 - SECONDS : 1)) tail --pid="$training" -f /dev/null
    [ $? -ne 124 ] || ask
) &
# a trapped signal ends a wait
while kill -0 "$training" 2> /dev/null; do
    wait "$training"
done
wait "$training"
code=$?
queue_again "$code"
[ ! -e "$deployment/state/requeued" ] || exit "$code"
(exit "$code")
