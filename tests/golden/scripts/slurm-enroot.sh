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

runtime=$(command -v enroot) || {
    echo "enroot is not on the PATH of $(hostname)" >&2
    exit 127
}
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

for each in squashfuse fuse-overlayfs; do
    if ! command -v "$each" > /dev/null; then
        echo "$each is not on the PATH of $(hostname): enroot needs it to start an image from its file" >&2
        exit 127
    fi
done
# What enroot needs for a container: its environment, in which the image's values override the job's as with Apptainer,
# its folders, and what is started in it instead of the image's entry point.
{
    declare -p folders
    # shellcheck disable=SC2016,SC2028 # a dollar and a backslash there are for the other shell
    echo 'environ() {
    local name own
    own=$(cut -d = -f 1 "$ENROOT_ROOTFS/etc/environment" 2> /dev/null)
    for name in $(compgen -e | grep -vE "^(HOSTNAME|SHLVL|PWD|OLDPWD|_|BASH.*|SHELLOPTS|ENROOT_.*)$" | grep -vxF "${own:-=}"); do
        case ${!name} in
            *$'"'\\n'"'*) ;; # which its environment file cannot hold
            *) echo "$name=${!name}" ;;
        esac
    done
}
mounts() {
    local each from to how
    for each in "${folders[@]}"; do
        IFS=: read -r from to how <<< "$each"
        printf "%s %s none x-create=auto,rbind%s\n" "${from// /\\040}" "${to// /\\040}" "${how:+,$how}"
    done
}
rc() {
    cd "$MODAK_FOLDER" && exec "$@"
}'
} > state/enroot.conf
{
    declare -p runtime image deployment
    # shellcheck disable=SC2016
    echo 'export MODAK_FOLDER=$PWD ENROOT_LOGIN_SHELL=no NVIDIA_DRIVER_CAPABILITIES=compute,utility
exec "$runtime" start --conf "$deployment/state/enroot.conf" --env=NVIDIA_VISIBLE_DEVICES=all -- "$image" "$@"'
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
