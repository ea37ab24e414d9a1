#!/bin/bash
#KUBERNETES {
#KUBERNETES  "apiVersion": "batch/v1",
#KUBERNETES  "kind": "Job",
#KUBERNETES  "metadata": {
#KUBERNETES   "namespace": "team-a",
#KUBERNETES   "labels": {
#KUBERNETES    "app.kubernetes.io/managed-by": "modak"
#KUBERNETES   }
#KUBERNETES  },
#KUBERNETES  "spec": {
#KUBERNETES   "backoffLimit": 0,
#KUBERNETES   "completions": 3,
#KUBERNETES   "parallelism": 3,
#KUBERNETES   "completionMode": "Indexed",
#KUBERNETES   "ttlSecondsAfterFinished": 604800,
#KUBERNETES   "template": {
#KUBERNETES    "metadata": {
#KUBERNETES     "labels": {
#KUBERNETES      "app.kubernetes.io/managed-by": "modak"
#KUBERNETES     }
#KUBERNETES    },
#KUBERNETES    "spec": {
#KUBERNETES     "restartPolicy": "Never",
#KUBERNETES     "activeDeadlineSeconds": 14400,
#KUBERNETES     "automountServiceAccountToken": false,
#KUBERNETES     "enableServiceLinks": false,
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
#KUBERNETES       "persistentVolumeClaim": {
#KUBERNETES        "claimName": "shared"
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
#KUBERNETES       "image": "registry.example/team/images:abc",
#KUBERNETES       "resources": {
#KUBERNETES        "requests": {
#KUBERNETES         "cpu": "8",
#KUBERNETES         "nvidia.com/gpu": "2"
#KUBERNETES        },
#KUBERNETES        "limits": {
#KUBERNETES         "cpu": "8",
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
job_id="$((16#${MODAK_JOB_UID::8})).$MODAK_JOB_NAME.$MODAK_JOB_NAMESPACE"

# This is one of 3 Pods, which begin when all of them are there. The first then runs the job; the others start their
# ranks when it says so, again whenever it continues, and end as it does.
if ! [ "${JOB_COMPLETION_INDEX:-none}" -lt 3 ] 2> /dev/null; then
    echo "the cluster does not tell this Pod which of 3 it is: its Jobs have no completionMode" >&2
    exit 64
fi
trap 'exit 143' TERM
# Each notes there which first Pod it belongs to: one that replaces another has another name, and waits for them again.
pods=$deployment/state/pods/$job_id
mkdir -p "$pods" || exit 73
# A network file system remembers that a file was missing until the folder is read again.
look() { ls "$deployment/state" "$pods" > /dev/null 2>&1; }
if [ "$JOB_COMPLETION_INDEX" -gt 0 ]; then
    launch=none ranks=
    trap '[ -z "$ranks" ] || { kill -TERM "$ranks" 2> /dev/null; wait "$ranks"; }; exit 143' TERM
    while
        look
        code=$(cat state/finished 2> /dev/null)
        [ -z "$code" ]
    do
        first=$(cat "$pods/0" 2> /dev/null)
        [ "$first" = "$(cat "$pods/$JOB_COMPLETION_INDEX" 2> /dev/null)" ] || echo "$first" > "$pods/$JOB_COMPLETION_INDEX"
        owner=
        { read -r _ owner next < state/rank.sh; } 2> /dev/null
        if [ "$owner" = "$job_id" ] && [ "$next" != "$launch" ]; then
            launch=$next
            bash state/rank.sh &
            ranks=$!
            wait "$ranks"
            ranks=
        fi
        sleep 1
    done
    exit "$code"
fi
echo "$MODAK_POD" > "$pods/0" || exit 73
while
    look
    there=0
    for each in "$pods"/[0-9]*; do
        [ "$(cat "$each")" != "$MODAK_POD" ] || there=$((there + 1))
    done
    [ "$there" -lt 3 ]
do
    if [ "$SECONDS" -ge 1500 ]; then
        echo "only $there of 3 Pods started within 1500 s; the others have no room, or do not start" >&2
        exit 69
    fi
    sleep 1
done
SECONDS=0
# The ranks in other Pods also get what the site's and the user's lines export.
declare -A given
for name in $(compgen -e); do
    given[$name]=${!name}
done

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
    [ "$SECONDS" -ge 5400 ] && echo timeout > state/ended
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

cd code || exit 1
set +u -e
eval 'export TOKEN=x'
set -u +e
cd "$deployment" || exit 1

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
MASTER_ADDR=${MODAK_POD_ADDRESS:?the cluster does not tell the first Pod its address}
MASTER_PORT=$((20000 + $(cksum <<< "$job_id" | cut -d ' ' -f 1) % 10000))
while (: < "/dev/tcp/$MASTER_ADDR/$MASTER_PORT") 2> /dev/null; do
    MASTER_PORT=$((MASTER_PORT + 1))
done

# Becomes one of the ranks, whoever started it, and notes which of them failed first.
rank() {
    local own=$deployment child code device lost asked='' devices
    export MASTER_ADDR MASTER_PORT WORLD_SIZE=6 LOCAL_WORLD_SIZE=2
    export MODAK_STRATEGY=ddp MODAK_RENDEZVOUS_TIMEOUT=300
    export LOCAL_RANK=$1 NODE_RANK=$JOB_COMPLETION_INDEX RANK=$((JOB_COMPLETION_INDEX * LOCAL_WORLD_SIZE + $1))
    shift
    note_cores "$RANK"
    # The rest of what torchrun sets, and what Lightning, Accelerate and JAX need, lest they assume one process.
    export GROUP_RANK=$NODE_RANK GROUP_WORLD_SIZE=3 ROLE_RANK=$RANK ROLE_WORLD_SIZE=$WORLD_SIZE
    export TORCHELASTIC_RUN_ID=$MASTER_PORT TORCHELASTIC_RESTART_COUNT=0 TORCHELASTIC_MAX_RESTARTS=0
    export PL_TRAINER_NUM_NODES=3 PL_TRAINER_DEVICES=2 LT_NUM_NODES=3 LT_DEVICES=2
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

# Whether the ranks of all Pods are still one training: none has failed, and the first Pod is the one that they began with.
together() {
    ls "$deployment/state" "$launched" > /dev/null 2>&1 && ! [ -e "$deployment/state/failed_rank" ] &&
        { ! [ -s "$launched/began-0" ] || [ "$(cat "$launched/began-0")" = "$(cat "${launched%/*}/0")" ]; }
}

# Starts those of this Pod, and ends them when one fails in any Pod. A Pod that replaces another does not begin its ranks
# again: the ranks of the others would not know them.
ranks() {
    local each code=0 ended='' pids=() codes watching
    if ! (set -o noclobber && echo "$MODAK_POD" > "$launched/began-$JOB_COMPLETION_INDEX") 2> /dev/null; then
        echo "the ranks of Pod $JOB_COMPLETION_INDEX had begun in $(cat "$launched/began-$JOB_COMPLETION_INDEX"), which is gone" >&2
        (set -o noclobber && echo "$((JOB_COMPLETION_INDEX * 2)) 69 $(hostname)" > "$deployment/state/failed_rank") 2> /dev/null
        exit 69
    fi
    trap 'ended=1; kill -TERM "${pids[@]}" 2> /dev/null' TERM
    trap 'kill -TERM "${pids[@]}" 2> /dev/null' USR2
    for ((each = 0; each < 2; each++)); do
        rank "$each" "$@" &
        pids+=("$!")
    done
    while together; do
        sleep 1
    done && kill -USR2 $$ &
    watching=$!
    for each in "${pids[@]}"; do
        while kill -0 "$each" 2> /dev/null; do
            wait "$each"
        done
        wait "$each" || code=$?
    done
    kill "$watching" 2> /dev/null
    echo "$code" > "$launched/ended-$JOB_COMPLETION_INDEX"
    # The first Pod ends as all of them do.
    while [ "$JOB_COMPLETION_INDEX" -eq 0 ] && [ "$code" -eq 0 ] && [ -z "$ended" ]; do
        ls "$launched" > /dev/null
        mapfile -t codes < <(sort -n "$launched"/ended-*)
        code=${codes[-1]}
        [ "${#codes[@]}" -lt 3 ] || break
        sleep 1
    done
    [ -z "$ended" ] || code=143
    exit "$code"
}
launched=$pods/launch-$(date +%s%N)
rm -rf "$pods"/launch-*
mkdir "$launched" || exit 73
{
    echo "# $job_id ${launched##*-}"
    for name in $(compgen -e); do
        [ "${given[$name]-}" = "${!name}" ] || declare -p "$name"
    done
    declare -p launched
    declare -p deployment MASTER_ADDR MASTER_PORT command
    declare -f note_cores rank ranks together
    # shellcheck disable=SC2016 # that is for the other shells
    echo 'cd "$deployment/code" || exit 1
unset PYTHONPATH PYTHONHOME
ranks "${command[@]}"'
} > "$deployment/state/rank.part" && mv "$deployment/state/rank.part" "$deployment/state/rank.sh"
timeout --kill-after=30 5400 bash "$deployment/state/rank.sh" &
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
