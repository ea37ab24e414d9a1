#!/bin/bash
#SBATCH --job-name=example
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=4
#SBATCH --mem=7630M
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
    [ -z "$local_copy" ] || rm -rf "$local_copy"
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

exec >> output.log 2>> error.log
echo "$(date +%s) $job_id $(hostname)" > state/started
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
image="$workspace/images/abc.sqsh"
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
    '/lustre/it'"'"'s data:/data:ro'
    /opt/licences:/opt/licences
)

# Slurm's plugin runs what srun starts in the container, with the job's environment except for what the image itself sets.
export NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
contained=(
    --container-image="$image"
    --container-mounts="$(IFS=, && echo "${folders[*]}")"
    --no-container-entrypoint
    --container-env=NVIDIA_VISIBLE_DEVICES
)

cd code || exit 1
unset PYTHONPATH PYTHONHOME
# shellcheck disable=SC2016 # a dollar in a user's own value is only a dollar
command=(
    srun --nodes=1 --ntasks=1 ${SLURM_CPUS_PER_TASK:+"--cpus-per-task=$SLURM_CPUS_PER_TASK"}
    "${contained[@]}" --container-workdir="$PWD"
    env
    PYTHONNOUSERSITE=1
    PYTHONUNBUFFERED=1
    PYTHONHASHSEED="${PYTHONHASHSEED:-0}"
    MODAK_LAUNCHED="$(date +%s.%N)"
    MODAK_METRICS="$deployment/metrics.json"
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
"${command[@]}" &
training=$!
trap 'kill -TERM "$training" 2> /dev/null; wait "$training"; exit 143' TERM
wait "$training"
