#!/bin/bash
#SBATCH --job-name=example
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=4
#SBATCH --time=0-01:30:00
#SBATCH --output=scheduler.log
#SBATCH --no-requeue

# example, written by modak; deploying again overwrites it.

set -u

cd "$SLURM_SUBMIT_DIR" || exit 1
deployment=$PWD
workspace=$(cd ../.. && pwd)
job_id="${1:-$SLURM_JOB_ID}"

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
    echo "$code" 1<> state/finishing && mv state/finishing state/finished
    exit "$code"
}
trap finish EXIT
trap 'exit 143' TERM
trap 'exit 130' INT

exec >> output.log 2>> error.log
echo "$(date +%s) $job_id $(hostname)" > state/started

# Where the earlier trainings ran, with everything they wrote.
export MODAK_AFTER_PRE_PROCESS="$workspace/deployments/example-1/code"
export MODAK_AFTER_TRAIN="$workspace/deployments/example-2/code":"$workspace/deployments/example-3/code"

# What modak has them write beside that folder is linked there, too, unless they have a file of that name.
IFS=: read -r -a folders <<< "$MODAK_AFTER_PRE_PROCESS:$MODAK_AFTER_TRAIN"
for each in "${folders[@]}"; do
    for name in metrics.json checkpoints output.log error.log; do
        if [ -e "$each/../$name" ] && ! [ -e "$each/$name" ]; then
            ln -sfn "../$name" "$each/$name"
        fi
    done
done

cd code || exit 1
set +u -e
eval 'ls $MODAK_AFTER_TRAIN'
set -u +e
cd "$deployment" || exit 1

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
    MODAK_AFTER_PRE_PROCESS="$MODAK_AFTER_PRE_PROCESS"
    MODAK_AFTER_TRAIN="$MODAK_AFTER_TRAIN"
    sh -c 'export PYTHONPATH="$0${PYTHONPATH:+:$PYTHONPATH}"; exec "$@"' "$deployment/runtime"
    /opt/venv/bin/python
    train.py
    --data "$MODAK_AFTER_PRE_PROCESS"'/it'"'"'s'
    --weights "$MODAK_AFTER_TRAIN"
)
"${command[@]}" &
training=$!
trap 'kill -TERM "$training" 2> /dev/null; wait "$training"; exit 143' TERM
wait "$training"
