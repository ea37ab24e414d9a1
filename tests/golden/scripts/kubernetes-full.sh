#!/bin/bash
#KUBERNETES {
#KUBERNETES  "apiVersion": "batch/v1",
#KUBERNETES  "kind": "Job",
#KUBERNETES  "metadata": {
#KUBERNETES   "labels": {
#KUBERNETES    "app.kubernetes.io/managed-by": "modak",
#KUBERNETES    "kueue.x-k8s.io/queue-name": "batch"
#KUBERNETES   }
#KUBERNETES  },
#KUBERNETES  "spec": {
#KUBERNETES   "backoffLimit": 0,
#KUBERNETES   "ttlSecondsAfterFinished": 604800,
#KUBERNETES   "suspend": true,
#KUBERNETES   "template": {
#KUBERNETES    "metadata": {
#KUBERNETES     "labels": {
#KUBERNETES      "app.kubernetes.io/managed-by": "modak"
#KUBERNETES     }
#KUBERNETES    },
#KUBERNETES    "spec": {
#KUBERNETES     "restartPolicy": "Never",
#KUBERNETES     "activeDeadlineSeconds": 12600,
#KUBERNETES     "automountServiceAccountToken": false,
#KUBERNETES     "enableServiceLinks": false,
#KUBERNETES     "imagePullSecrets": [
#KUBERNETES      {
#KUBERNETES       "name": "registry"
#KUBERNETES      },
#KUBERNETES      {
#KUBERNETES       "name": "other"
#KUBERNETES      }
#KUBERNETES     ],
#KUBERNETES     "nodeSelector": {
#KUBERNETES      "kubernetes.io/hostname": "worker-3"
#KUBERNETES     },
#KUBERNETES     "tolerations": [
#KUBERNETES      {
#KUBERNETES       "key": "nvidia.com/gpu",
#KUBERNETES       "operator": "Exists",
#KUBERNETES       "effect": "NoSchedule"
#KUBERNETES      }
#KUBERNETES     ],
#KUBERNETES     "volumes": [
#KUBERNETES      {
#KUBERNETES       "name": "workspace",
#KUBERNETES       "hostPath": {
#KUBERNETES        "path": "/lustre/team"
#KUBERNETES       }
#KUBERNETES      },
#KUBERNETES      {
#KUBERNETES       "name": "shared-memory",
#KUBERNETES       "emptyDir": {
#KUBERNETES        "medium": "Memory"
#KUBERNETES       }
#KUBERNETES      }
#KUBERNETES     ],
#KUBERNETES     "containers": [
#KUBERNETES      {
#KUBERNETES       "name": "training",
#KUBERNETES       "image": "registry.example/team/torch@sha256:0000000000000000000000000000000000000000000000000000000000000000",
#KUBERNETES       "resources": {
#KUBERNETES        "requests": {
#KUBERNETES         "cpu": "8",
#KUBERNETES         "memory": "7630Mi",
#KUBERNETES         "nvidia.com/gpu": "2"
#KUBERNETES        },
#KUBERNETES        "limits": {
#KUBERNETES         "cpu": "8",
#KUBERNETES         "memory": "7630Mi",
#KUBERNETES         "nvidia.com/gpu": "2"
#KUBERNETES        }
#KUBERNETES       },
#KUBERNETES       "terminationMessagePolicy": "FallbackToLogsOnError",
#KUBERNETES       "volumeMounts": [
#KUBERNETES        {
#KUBERNETES         "name": "workspace",
#KUBERNETES         "mountPath": "/shared"
#KUBERNETES        },
#KUBERNETES        {
#KUBERNETES         "name": "shared-memory",
#KUBERNETES         "mountPath": "/dev/shm"
#KUBERNETES        }
#KUBERNETES       ]
#KUBERNETES      }
#KUBERNETES     ]
#KUBERNETES    }
#KUBERNETES   }
#KUBERNETES  }
#KUBERNETES }

# example, written by modak; deploying again overwrites it.

set -u

cd "$(dirname "$0")" || exit 1
deployment=$PWD
workspace=$(cd ../.. && pwd)
job_id="$((16#${MODAK_JOB_UID::8})).$MODAK_JOB_NAME.$MODAK_JOB_NAMESPACE"

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
    [ -z "$local_copy" ] || rm -rf "$local_copy"
    [ -e state/requeued ] && exit "$code"
    # another attempt may have taken the place of one whose node had vanished for a while
    if ! [ -e state/claim ] || { [ -s state/claim ] && [ "$(cat state/claim)" != "$job_id" ]; }; then
        exit "$code"
    fi
    [ "$SECONDS" -ge 5400 ] && echo timeout > state/ended
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
        trap - TERM INT USR1
        exec bash "$deployment/${0##*/}"
        rm -f state/requeued
        echo "the job could not be queued again; what the training has saved stays in $deployment/checkpoints" >&2
    fi
}
dataset="$workspace/datasets/mnist-1"

# The node's own scratch is nearer than what all nodes share; if it has no room, the shared data is used.
# Others may write there too, so the folder is a new one that nobody else may enter.
rm -rf "/scratch/modak-$(id -u)-$job_id."*
if mkdir -p "/scratch" && local_copy=$(mktemp -d "/scratch/modak-$(id -u)-$job_id.XXXXXX") &&
    cp -R "$dataset/." "$local_copy/"; then
    dataset=$local_copy
else
    echo "the data could not be copied to /scratch; it is read from $dataset"
    [ -z "$local_copy" ] || rm -rf "$local_copy"
fi

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
    MODAK_CHECKPOINT_EVERY=60
    MODAK_STOP="$stop"
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

# Notes which cores the kernel lets a rank use, which shows the ranks that have too few.
note_cores() {
    mkdir -p "$deployment/state/cores"
    printf '%s %s %s\n' "${SLURMD_NODENAME:-$(hostname)}" 4 \
        "$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)" > "$deployment/state/cores/$1"
} 2> /dev/null

# Where the ranks meet: at the first of them, at an address of its node that the others reach.
MASTER_ADDR=127.0.0.1
MASTER_PORT=$((20000 + $(cksum <<< "$job_id" | cut -d ' ' -f 1) % 10000))
while (: < "/dev/tcp/$MASTER_ADDR/$MASTER_PORT") 2> /dev/null; do
    MASTER_PORT=$((MASTER_PORT + 1))
done

# Becomes one of the ranks, whoever started it, and notes which of them failed first.
rank() {
    local own=$deployment child code device lost asked='' devices
    export MASTER_ADDR MASTER_PORT WORLD_SIZE=2 LOCAL_WORLD_SIZE=2
    export MODAK_STRATEGY=ddp MODAK_RENDEZVOUS_TIMEOUT=300
    export RANK=$1 LOCAL_RANK=$1 NODE_RANK=0
    shift
    note_cores "$RANK"
    # The rest of what torchrun sets, and what Lightning, Accelerate and JAX need, lest they assume one process.
    export GROUP_RANK=$NODE_RANK GROUP_WORLD_SIZE=1 ROLE_RANK=$RANK ROLE_WORLD_SIZE=$WORLD_SIZE
    export TORCHELASTIC_RUN_ID=$MASTER_PORT TORCHELASTIC_RESTART_COUNT=0 TORCHELASTIC_MAX_RESTARTS=0
    export PL_TRAINER_NUM_NODES=1 PL_TRAINER_DEVICES=2 LT_NUM_NODES=1 LT_DEVICES=2
    export JAX_COORDINATOR_ADDRESS="$MASTER_ADDR:$MASTER_PORT"
    # One accelerator each, which is then the script's first.
    IFS=, read -r -a devices <<< "${CUDA_VISIBLE_DEVICES:-0,1}"
    export CUDA_VISIBLE_DEVICES="${devices[LOCAL_RANK % ${#devices[@]}]}"
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
    [ "$code" -eq 0 ] || kill -USR2 $$
    exit "$code"
}

# Starts all ranks, and ends all when one fails.
ranks() {
    local each code=0 pids=()
    trap 'kill -TERM "${pids[@]}" 2> /dev/null' TERM USR2
    for ((each = 0; each < 2; each++)); do
        rank "$each" "$@" &
        pids+=("$!")
    done
    [ ! -e "$deployment/state/failed_rank" ] || kill -TERM "${pids[@]}" 2> /dev/null # one failed before all were started
    for each in "${pids[@]}"; do
        while kill -0 "$each" 2> /dev/null; do
            wait "$each"
        done
        wait "$each" || code=$?
    done
    exit "$code"
}
{
    declare -p deployment MASTER_ADDR MASTER_PORT
    declare -f note_cores rank ranks
    # shellcheck disable=SC2016 # that is for the other shell
    echo 'ranks "$@"'
} > "$deployment/state/rank.sh"
timeout --kill-after=30 5400 bash "$deployment/state/rank.sh" "${command[@]}" &
training=$!
trap 'kill -TERM "$training" 2> /dev/null; wait "$training"; exit 143' TERM
(
    timeout $((5360 > SECONDS ? 5360 - SECONDS : 1)) tail --pid="$training" -f /dev/null
    [ $? -ne 124 ] || ask
) &
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
