#!/bin/bash
#SBATCH --job-name=my_job
#SBATCH --account=p-1
#SBATCH --partition=gpu
#SBATCH --nodes=2
#SBATCH --ntasks=4
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=4
#SBATCH --mem=8192M
#SBATCH --gres=gpu:1
#SBATCH --nodelist=node01,node02
#SBATCH --constraint=skylake
#SBATCH --exclusive
#SBATCH --time=1-12:00:00
#SBATCH --array=0-9:2,12%2
#SBATCH --begin=2026-12-24T18:30:05
#SBATCH --dependency=afterok:12:13_4,after:14,singleton
#SBATCH --export=ALL,LICENSE,LEVEL=3
#SBATCH --mail-type=FAIL,BEGIN,END
#SBATCH --mail-user=someone@site.example
#SBATCH --output=/home/me/out-%j.txt
#SBATCH --error=err.txt
#SBATCH --no-requeue

# my_job, written by modak; deploying again overwrites it.

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
    cat output.log >&3
    cat error.log >&4
    echo "$code" 1<> state/finishing && mv state/finishing state/finished
    exit "$code"
}
trap finish EXIT
trap 'exit 143' TERM
trap 'exit 130' INT

# What modak watches stays here; the user's own files get all of it at the end. scheduler.log is what the scheduler writes.
exec 3>&1 4>&2
ln -sfn "$(readlink /proc/$$/fd/4)" scheduler.log
exec >> output.log 2>> error.log
echo "$(date +%s) $job_id $(hostname)" > state/started

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
    /opt/venv/bin/python
    train.py
)
"${command[@]}" &
training=$!
trap 'kill -TERM "$training" 2> /dev/null; wait "$training"; exit 143' TERM
wait "$training"
