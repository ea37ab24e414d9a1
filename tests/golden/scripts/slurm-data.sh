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
dataset="$workspace/datasets/corpus-1"
dataset_2="$workspace/datasets/valid-1"

# The target already has this data: this node must have it, too, unchanged since it was checked.
{
    IFS= read -r -d '' dataset_3 || exit 66
    while IFS= read -r -d '' size && IFS= read -r -d '' name; do
        found=$(stat -L -c %s -- "$dataset_3$name" 2> /dev/null) || {
            echo "the data $dataset_3$name is not on $(hostname), but it was where the job was submitted;" \
                "request nodes that see it" >&2
            exit 66
        }
        if [ "$found" != "$size" ]; then
            echo "the data $dataset_3$name has $found bytes on $(hostname), but had $size when it was checked;" \
                "deploy again" >&2
            exit 65
        fi
    done
} < "$workspace/datasets/there-1.view" || exit 66

# The node's own scratch is nearer than what all nodes share; if it has no room, the shared data is used.
# Others may write there too, so the folder is a new one that nobody else may enter.
rm -rf "/scratch/modak-$(id -u)-$job_id."*
if mkdir -p "/scratch" && local_copy=$(mktemp -d "/scratch/modak-$(id -u)-$job_id.XXXXXX") &&
    mkdir "$local_copy/corpus" &&
    cp -R "$dataset/." "$local_copy/corpus/" &&
    mkdir "$local_copy/valid" &&
    cp -R "$dataset_2/." "$local_copy/valid/"; then
    dataset=$local_copy/corpus
    dataset_2=$local_copy/valid
else
    echo "the data could not be copied to /scratch; it is read from $dataset"
    [ -z "$local_copy" ] || rm -rf "$local_copy"
fi
export MODAK_DATASET="$dataset"
export MODAK_DATASET_CORPUS="$dataset"
export MODAK_DATASET_VALID="$dataset_2"
export MODAK_DATASET_THERE="$dataset_3"

# Where the script looks for its data; what is there already is not touched.
put_data() {
    local place=code/$1
    if [ -e "$place" ] && ! [ -L "$place" ]; then
        echo "the data belongs at $1, but something else is there" >&2
        exit 73
    fi
    if ! { mkdir -p "$(dirname "$place")" && ln -sfn "$2" "$place"; }; then
        exit 73
    fi
}
# shellcheck disable=SC2016 # a dollar in a user's own name is only a dollar
put_data 'data/it'"'"'s $x.txt' "$dataset"/'it'"'"'s $x.txt'
# shellcheck disable=SC2016 # a dollar in a user's own name is only a dollar
put_data ../valid "$dataset_2"

cd code || exit 1
set +u -e
eval 'ls '"$(printf %q "$MODAK_DATASET_THERE")"' $MODAK_DATASET_VALID'
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
    --bind "$dataset"
    --bind "$dataset_2"
    --bind "$dataset_3:$dataset_3:ro"
    "$image"
    env
    PYTHONNOUSERSITE=1
    PYTHONUNBUFFERED=1
    PYTHONHASHSEED="${PYTHONHASHSEED:-0}"
    MODAK_LAUNCHED="$(date +%s.%N)"
    MODAK_METRICS="$deployment/metrics.json"
    MODAK_APPLIED="$deployment/applied.json"
    MODAK_DATASET="$dataset"
    MODAK_DATASET_CORPUS="$MODAK_DATASET_CORPUS"
    MODAK_DATASET_VALID="$MODAK_DATASET_VALID"
    MODAK_DATASET_THERE="$MODAK_DATASET_THERE"
    VALID="$MODAK_DATASET_VALID"
    sh -c 'export PYTHONPATH="$0${PYTHONPATH:+:$PYTHONPATH}"; exec "$@"' "$deployment/runtime"
    /opt/venv/bin/python
    train.py
    --data "$dataset"
    --valid "$MODAK_DATASET_VALID"/x
    --there "$MODAK_DATASET_THERE"
)
"${command[@]}" &
training=$!
trap 'kill -TERM "$training" 2> /dev/null; wait "$training"; exit 143' TERM
wait "$training"
