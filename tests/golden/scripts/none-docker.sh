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

# The end is written by the job itself: schedulers forget, and a node that died can look like success.
finish() {
    local code=$?
    trap - EXIT
    cd "$deployment" || exit "$code"
    # another attempt may have taken the place of one whose node had vanished for a while
    if ! [ -e state/claim ] || { [ -s state/claim ] && [ "$(cat state/claim)" != "$job_id" ]; }; then
        exit "$code"
    fi
    [ "$SECONDS" -ge 5400 ] && echo timeout > state/ended
    echo "$code" 1<> state/finishing && mv state/finishing state/finished
    exit "$code"
}
trap finish EXIT
trap 'exit 143' TERM
trap 'exit 130' INT

exec >> output.log 2>> error.log
echo "$(date +%s) $job_id $(hostname)" > state/started
dataset="$workspace/datasets/mnist"

runtime=$(command -v docker) || {
    echo "docker is not on the PATH of $(hostname)" >&2
    exit 127
}
image="$workspace/images/abc.tar"
if ! [ -e "$image" ]; then
    echo "the image $image is not there" >&2
    exit 66
fi

# What the container sees of the machine, where it sees it, and how.
folders=(
    "$workspace:$workspace"
    "$HOME:$HOME"
    /tmp:/tmp
    "$dataset:$dataset:ro"
)

# Loads the image from its file into the engine's own store, unless it is there: its name there is the digest of its
# configuration, which the file contains. Each node of a job may have a store of its own.
archive=$image
image=$(tar -x -O -f "$archive" manifest.json 2> /dev/null | grep -o '"Config": *"[^"]*' | grep -o -m 1 '[0-9a-f]\{64\}')
if [ -z "$image" ] || ! "$runtime" image inspect "$image" > /dev/null 2>&1; then
    loaded=$("$runtime" load --quiet --input "$archive") || exit 66
    image=${loaded##*: }
fi
own=$("$runtime" image inspect --format '{{range .Config.Env}}{{println .}}{{end}}' "$image" | cut -d = -f 1)
own=$'HOSTNAME\nSHLVL\nPWD\nOLDPWD\n_\n'$own
# The daemon runs as root, unless it is the user's own, where root is the user: what is written must belong to the user.
user=(--user "$(id -u):$(id -g)")
for each in $(id -G); do
    user+=(--group-add "$each")
done
[[ $("$runtime" info --format '{{.SecurityOptions}}') != *name=rootless* ]] || user=()
mounts=("${folders[@]/#/--volume=}" "${user[@]}" --gpus=all)

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
    echo '"$runtime" image inspect "$image" > /dev/null 2>&1 || "$runtime" load --quiet --input "$archive" > /dev/null || exit 66
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
    MODAK_APPLIED="$deployment/applied.json"
    MODAK_DATASET="$dataset"
    sh -c 'export PYTHONPATH="$0${PYTHONPATH:+:$PYTHONPATH}"; exec "$@"' "$deployment/runtime"
    /opt/venv/bin/python
    train.py
)
timeout --kill-after=30 5400 "${command[@]}" &
training=$!
trap 'kill -TERM "$training" 2> /dev/null; wait "$training"; exit 143' TERM
wait "$training"
