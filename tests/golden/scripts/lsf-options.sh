#!/bin/bash
#BSUB -J my_job
#BSUB -P p-1
#BSUB -q gpu
#BSUB -sla sla1
#BSUB -U R12
#BSUB -n 16
#BSUB -R "span[ptile=8]"
#BSUB -R "rusage[mem=8192MB/host]"
#BSUB -M 16384MB
#BSUB -R "rusage[nvme=1/host]"
#BSUB -gpu "num=1:j_exclusive=yes"
#BSUB -m "node01 node02"
#BSUB -R "select[(rome || milan) && cpu==zen4]"
#BSUB -x
#BSUB -W 36:00
#BSUB -b 2026:12:24:18:31
#BSUB -w "done(12) && done(13[4]) && ended(14) && started(15) && exit(16)"
#BSUB -env "all, LICENSE, LEVEL=3"
#BSUB -B
#BSUB -N
#BSUB -u "someone@site.example other"
#BSUB -o /home/me/out-%J.txt
#BSUB -e err.txt
#BSUB -rn

# my_job, written by modak; deploying again overwrites it.

set -u

cd "$LS_SUBCWD" || exit 1
deployment=$PWD
workspace=$(cd ../.. && pwd)
job_id="$LSB_JOBID"

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
ln -sfn err.txt scheduler.log
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
