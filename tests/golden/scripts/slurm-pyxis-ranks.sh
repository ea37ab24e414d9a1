#!/bin/bash
#SBATCH --job-name=example
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=4
#SBATCH --time=0-01:30:00
#SBATCH --output=scheduler.log
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@120

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
rm -f state/finished state/ended state/missed state/failed_rank state/goes_on; rm -rf state/cores
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
    elif [ "$run" -gt 3 ]; then
        echo "the training was stopped, and its job has been queued again as often as allowed: 3" >&2
    else
        echo "run $run was stopped; the job is queued again" >&2
        trap '' TERM
        : > state/requeued
        scontrol requeue "$job_id" && return
        rm -f state/requeued
        echo "the job could not be queued again; what the training has saved stays in $deployment/checkpoints" >&2
    fi
}

# If a task gets more cores for its memory, only SLURM_CPUS_PER_TASK says so, and an srun that is not given their number
# does not start if SLURM_TRES_PER_TASK has another one.
unset SLURM_TRES_PER_TASK
image="$workspace/images/abc.sqsh"
if ! [ -e "$image" ]; then
    echo "the image $image is not there" >&2
    exit 66
fi

# What the container sees of the machine, where it sees it, and how.
folders=(
    "$workspace:$workspace"
    "$HOME:$HOME"
    /tmp:/tmp
)

# Slurm's plugin runs what srun starts in the container, with the job's environment except for what the image itself sets.
contained=(
    --container-image="$image"
    --container-mounts="$(IFS=, && echo "${folders[*]}")"
    --no-container-entrypoint
)

cd code || exit 1
unset PYTHONPATH PYTHONHOME
# shellcheck disable=SC2016 # a dollar in a user's own value is only a dollar
command=(
    env
    PYTHONNOUSERSITE=1
    PYTHONUNBUFFERED=1
    PYTHONHASHSEED="${PYTHONHASHSEED:-0}"
    MODAK_LAUNCHED="$(date +%s.%N)"
    MODAK_CHECKPOINTS="$checkpoints"
    MODAK_CHECKPOINT_EVERY=600
    MODAK_STOP="$stop"
    sh -c 'export PYTHONPATH="$0${PYTHONPATH:+:$PYTHONPATH}"; exec "$@"' "$deployment/runtime"
    /opt/venv/bin/python
    train.py
)

# Notes which cores the kernel lets a rank use, which shows the ranks that have too few.
note_cores() {
    mkdir -p "$deployment/state/cores"
    printf '%s %s %s\n' "${SLURMD_NODENAME:-$(hostname)}" 4 \
        "$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)" > "$deployment/state/cores/$1"
} 2> /dev/null

# Where the ranks meet: at the first of them, at an address of its node that the others reach.
other=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | tail -n 1)
address=$(scontrol --oneliner show node "$other" 2> /dev/null | sed -n 's/.* NodeAddr=\([^ ]*\).*/\1/p')
address=$(getent ahostsv4 "${address:-$other}" | awk '{ print $1; exit }')
MASTER_ADDR=$(ip -o route get "${address:-none}" 2> /dev/null | sed -n 's/.* src \([^ ]*\).*/\1/p')
MASTER_ADDR=${MASTER_ADDR:-$(getent ahostsv4 "$(hostname)" | awk '$1 !~ /^127\./ { print $1; exit }')}
if [ -z "$MASTER_ADDR" ]; then
    echo "$(hostname) has no route to ${address:-$other}, so its ranks cannot meet those of $other;" \
        "name the network to use: distributed: { interface: NAME }" >&2
    exit 68
fi
MASTER_PORT=$((20000 + $(cksum <<< "$job_id" | cut -d ' ' -f 1) % 10000))
while (: < "/dev/tcp/$MASTER_ADDR/$MASTER_PORT") 2> /dev/null; do
    MASTER_PORT=$((MASTER_PORT + 1))
done

# Becomes one of the ranks, whoever started it, and notes which of them failed first.
rank() {
    local own=$deployment child code device lost asked=''
    export MASTER_ADDR MASTER_PORT WORLD_SIZE=2 LOCAL_WORLD_SIZE=1
    export MODAK_STRATEGY=ddp MODAK_RENDEZVOUS_TIMEOUT=300
    export RANK LOCAL_RANK NODE_RANK
    RANK=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-${SLURM_PROCID:-}}}
    if ! [ "${RANK:-none}" -lt "$WORLD_SIZE" ] 2> /dev/null; then
        echo "the launcher does not tell this process which of 2 ranks it is: it says ${RANK:-nothing}" >&2
        exit 64
    fi
    LOCAL_RANK=${OMPI_COMM_WORLD_LOCAL_RANK:-${MPI_LOCALRANKID:-$((RANK % LOCAL_WORLD_SIZE))}}
    NODE_RANK=$((RANK / LOCAL_WORLD_SIZE))
    shift
    note_cores "$RANK"
    # The rest of what torchrun sets, and what Lightning, Accelerate and JAX need, lest they assume one process.
    export GROUP_RANK=$NODE_RANK GROUP_WORLD_SIZE=2 ROLE_RANK=$RANK ROLE_WORLD_SIZE=$WORLD_SIZE
    export TORCHELASTIC_RUN_ID=$MASTER_PORT TORCHELASTIC_RESTART_COUNT=0 TORCHELASTIC_MAX_RESTARTS=0
    export PL_TRAINER_NUM_NODES=2 PL_TRAINER_DEVICES=1 LT_NUM_NODES=2 LT_DEVICES=1
    export JAX_COORDINATOR_ADDRESS="$MASTER_ADDR:$MASTER_PORT" ACCELERATE_USE_CPU=true
    device=$(ip -o -4 addr 2> /dev/null | awk -v own="$MASTER_ADDR/" 'index($4, own) == 1 { print $2; exit }')
    device=${device:-$(ip -o route get "$MASTER_ADDR" 2> /dev/null | sed -n 's/.* dev \([^ ]*\).*/\1/p')}
    if [ -n "$device" ]; then
        export GLOO_SOCKET_IFNAME="${GLOO_SOCKET_IFNAME:-$device}" NCCL_SOCKET_IFNAME="${NCCL_SOCKET_IFNAME:-$device}"
    fi
    if [ "$RANK" -gt 0 ]; then
        own=$deployment/ranks/$RANK
        mkdir -p "$own" && exec >> "$own/output.log" 2>> "$own/error.log"
    fi
    rm -f "$own/lost" "$own/came_to_its_end"
    export MODAK_METRICS="$own/metrics.json" MODAK_APPLIED="$own/applied.json"
    "$@" &
    child=$!
    trap 'asked=1; kill -TERM "$child" 2> /dev/null
        { timeout 30 tail --pid="$child" -f /dev/null || kill -KILL "$child"; } 2> /dev/null &' TERM
    while kill -0 "$child" 2> /dev/null; do
        wait "$child"
    done
    wait "$child"
    code=$?
    if [ "$code" -eq 134 ] && [ -e "$own/came_to_its_end" ]; then
        echo "modak: rank $RANK was aborted while it ended, after its script had finished: this is not a failure" >&2
        code=0
    fi
    # Launchers end all ranks when one does not end with 0.
    if [ "$code" -eq 85 ]; then
        : > "$deployment/state/goes_on"
        exit 0
    fi
    if [ "$code" -ne 0 ] && [ "$code" -ne 143 ] && [ -z "$asked" ]; then
        # One that ends because of another says which.
        lost=$(cat "$own/lost" 2> /dev/null)
        (set -o noclobber && echo "${lost:-$RANK $code ${SLURMD_NODENAME:-$(hostname)}}" > "$deployment/state/failed_rank") 2> /dev/null
    fi
    exit "$code"
}
{
    declare -p deployment MASTER_ADDR MASTER_PORT
    declare -f note_cores rank
    # shellcheck disable=SC2016 # that is for the other shell
    echo 'rank "" "$@"'
} > "$deployment/state/rank.sh"
srun --kill-on-bad-exit=1 "${contained[@]}" --container-workdir="$PWD" bash "$deployment/state/rank.sh" "${command[@]}" &
training=$!
trap 'kill -TERM "$training" 2> /dev/null; wait "$training"; exit 143' TERM
trap 'ask &' USR1
[ ! -e "$stop" ] || ask &
# a trapped signal ends a wait
while kill -0 "$training" 2> /dev/null; do
    wait "$training"
done
wait "$training"
code=$?
[ "$code" -ne 0 ] || [ ! -e "$deployment/state/goes_on" ] || code=85
# Ranks that a launcher ends because another failed have other codes.
[ "$code" -eq 0 ] || [ ! -e "$deployment/state/failed_rank" ] || read -r _ code _ < "$deployment/state/failed_rank"
queue_again "$code"
[ ! -e "$deployment/state/requeued" ] || exit "$code"
(exit "$code")
