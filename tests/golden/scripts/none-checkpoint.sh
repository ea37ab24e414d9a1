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
    [ -e state/requeued ] && exit "$code"
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
    elif [ "$run" -gt 0 ]; then
        echo "the training was stopped, and its job has been queued again as often as allowed: 0" >&2
    else
        echo "run $run was stopped; the job is queued again" >&2
        trap - TERM INT USR1
        exec bash "$deployment/${0##*/}"
        rm -f state/requeued
        echo "the job could not be queued again; what the training has saved stays in $deployment/checkpoints" >&2
    fi
}

runtime=$(command -v apptainer || command -v singularity) || {
    echo "apptainer or singularity is not on the PATH of $(hostname)" >&2
    exit 127
}
image="$workspace/images/abc.sif"
if ! [ -e "$image" ]; then
    echo "the image $image is not there" >&2
    exit 66
fi

cd code || exit 1
unset PYTHONPATH PYTHONHOME
# shellcheck disable=SC2016 # a dollar in a user's own value is only a dollar
command=(
    "$runtime" exec
    --bind "$workspace"
    "$image"
    env
    PYTHONNOUSERSITE=1
    PYTHONUNBUFFERED=1
    PYTHONHASHSEED="${PYTHONHASHSEED:-0}"
    MODAK_LAUNCHED="$(date +%s.%N)"
    MODAK_METRICS="$deployment/metrics.json"
    MODAK_APPLIED="$deployment/applied.json"
    MODAK_CHECKPOINTS="$checkpoints"
    MODAK_CHECKPOINT_EVERY=600
    MODAK_STOP="$stop"
    sh -c 'export PYTHONPATH="$0${PYTHONPATH:+:$PYTHONPATH}"; exec "$@"' "$deployment/runtime"
    /opt/venv/bin/python
    train.py
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
