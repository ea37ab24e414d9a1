#!/bin/bash
#PBS -N example
#PBS -A p-1
#PBS -q batch
#PBS -l select=2:ncpus=4:mpiprocs=1:mem=7630mb:ngpus=2
#PBS -l place=scatter:exclhost
#PBS -l walltime=36:00:00
#PBS -j oe
#PBS -o scheduler.log
#PBS -r y

# example, written by modak; deploying again overwrites it.

set -u

cd "${PBS_O_WORKDIR:-$SLURM_SUBMIT_DIR}" || exit 1
deployment=$PWD
workspace=$(cd ../.. && pwd)
job_id="${PBS_JOBID:-$SLURM_JOB_ID}"

# Only one job of a deployment trains, even if it was submitted twice.
mkdir -p state

submitted() {
    printf '{"job_id": "%s", "time": %s}\n' "${1##*$'\n'}" "$(date +%s)" > state/submitted.part && mv state/submitted.part state/submitted.json
}
# The previous job ended in order to be queued again, and left its place to the next one.
if [ -s state/claim ] && [ "$(cat state/claim)" != "$job_id" ] && mv state/requeued state/taken 2> /dev/null; then
    echo "$job_id" > state/claim
    submitted "$job_id"
fi
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
    timeout 20 tail --pid="$training" -f /dev/null
    if [ $? -eq 124 ]; then
        : > "$deployment/state/late"
        kill -TERM "$training"
        timeout 10 tail --pid="$training" -f /dev/null
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
    elif [ "$run" -gt 1 ]; then
        echo "the training was stopped, and its job has been queued again as often as allowed: 1" >&2
    else
        echo "run $run was stopped; the job is queued again" >&2
        # users may not use qrerun: another job takes the place of this one when it has ended
        trap '' TERM
        : > state/requeued
        again=(qsub -N "${PBS_JOBNAME:-$SLURM_JOB_NAME}" -W "depend=afterany:$job_id" job.sh)
        # a server may take no jobs from nodes (allow_node_submit): then the host that submitted this one does
        there=$(printf 'cd %q && env PATH=%q' "$PWD" "${PBS_O_PATH:-$PATH}")$(printf ' %q' "${again[@]}")
        next=$("${again[@]}" || { [ -n "${PBS_O_HOST:-}" ] && ssh -n -o BatchMode=yes -o ConnectTimeout=10 "$PBS_O_HOST" "$there"; }) &&
            submitted "$next" && return
        rm -f state/requeued
        echo "the job could not be queued again; what the training has saved stays in $deployment/checkpoints" >&2
    fi
}

# A site's own scripts may not work with set -u.
set +u
if ! command -v module > /dev/null; then
    # shellcheck source=/dev/null
    . /etc/profile
fi
module load singularity/4.1 || exit 1
set -u
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

runtime=$(command -v singularity) || {
    echo "singularity is not on the PATH of $(hostname)" >&2
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
    --nv
    --bind "$workspace"
    --bind "$dataset"
    --bind /lustre/data:/data:ro
    "$image"
    env
    PYTHONNOUSERSITE=1
    PYTHONUNBUFFERED=1
    PYTHONHASHSEED="${PYTHONHASHSEED:-0}"
    MODAK_LAUNCHED="$(date +%s.%N)"
    MODAK_METRICS="$deployment/metrics.json"
    MODAK_CHECKPOINTS="$checkpoints"
    MODAK_CHECKPOINT_EVERY=60
    MODAK_STOP="$stop"
    MODAK_DATASET="$dataset"
    OMP_NUM_THREADS=4
    NOTE='a b; $(reboot) `id` "'"'"''
    /opt/venv/bin/python
    'it'"'"'s a script.py'
    --epochs 12
    -n 1
    --data "$dataset"/idx
    --verbose
    --name 'a '"'"'b'"'"' $HOME'
)
mpirun -np 2 "${command[@]}" &
training=$!
trap 'kill -TERM "$training" 2> /dev/null; wait "$training"; exit 143' TERM
(
    timeout $((129560 > SECONDS ? 129560 - SECONDS : 1)) tail --pid="$training" -f /dev/null
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
