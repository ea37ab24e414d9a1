#!/bin/bash
#PBS -N solver
#PBS -q batch
#PBS -l nodes=2:ppn=8
#PBS -l naccesspolicy=singlejob
#PBS -l walltime=01:00:00
#PBS -j oe
#PBS -o scheduler.log
#PBS -r n

# solver, written by modak; deploying again overwrites it.

set -u

cd "${PBS_O_WORKDIR:-$SLURM_SUBMIT_DIR}" || exit 1
deployment=$PWD
workspace=$(cd ../.. && pwd)
job_id="${PBS_JOBID:-$SLURM_JOB_ID}"

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
rm -f state/finished state/ended state/missed; rm -rf state/cores
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

runtime=$(command -v apptainer || command -v singularity) || {
    echo "apptainer or singularity is not on the PATH of $(hostname)" >&2
    exit 127
}
image="$workspace/images/d.sif"
if ! [ -e "$image" ]; then
    echo "the image $image is not there" >&2
    exit 66
fi

hosts=$deployment/state/hosts
# One line for each node, where the scheduler's own list has one for each core.
if [ -n "${PBS_NODEFILE:-}" ]; then cat "$PBS_NODEFILE"; else scontrol show hostnames "$SLURM_JOB_NODELIST"; fi | awk '!known[$0]++' | sed 's/$/ slots=4/' > "$hosts"

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
    OMP_NUM_THREADS=2
    sh -c 'PATH=$0:$PATH; exec "$@"' "$deployment/code"
    ./solve
    'input file.dat'
)

# Notes which cores the kernel lets a rank use, which shows the ranks that have too few.
note_cores() {
    mkdir -p "$deployment/state/cores"
    printf '%s %s %s\n' "${SLURMD_NODENAME:-$(hostname)}" 2 \
        "$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)" > "$deployment/state/cores/$1"
} 2> /dev/null
{
    declare -p deployment
    declare -f note_cores
    # shellcheck disable=SC2016 # it is the other shell's
    echo 'note_cores "${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-${PMIX_RANK:-${SLURM_PROCID:-0}}}}"
exec "$@"'
} > "$deployment/state/rank.sh"
mpirun -np 8 --hostfile "$hosts" --map-by ppr:4:node:PE=2 --bind-to core bash "$deployment/state/rank.sh" "${command[@]}" &
training=$!
trap 'kill -TERM "$training" 2> /dev/null; wait "$training"; exit 143' TERM
wait "$training"
