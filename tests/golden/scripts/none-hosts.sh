#!/bin/bash

# example, written by modak; deploying again overwrites it.

set -u

cd "$(dirname "$0")" || exit 1
deployment=$PWD
workspace=$(cd ../.. && pwd)
job_id="$$.$(cut -d ' ' -f 22 /proc/$$/stat)"

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

# The end is written by the job itself: schedulers forget, and a node that died can look like success.
finish() {
    local code=$?
    trap - EXIT
    cd "$deployment" || exit "$code"
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

exec >> output.log 2>> error.log
echo "$(date +%s) $job_id $(hostname)",box2,'it'"'"'s.example' > state/started
dataset="$workspace/datasets/mnist"

runtime=$(command -v apptainer) || {
    echo "apptainer is not on the PATH of $(hostname)" >&2
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
    --bind "$dataset:$dataset:ro"
    "$image"
    env
    PYTHONNOUSERSITE=1
    PYTHONUNBUFFERED=1
    PYTHONHASHSEED="${PYTHONHASHSEED:-0}"
    MODAK_LAUNCHED="$(date +%s.%N)"
    MODAK_DATASET="$dataset"
    python3
    train.py
)

# Notes which cores the kernel lets a rank use, which shows the ranks that have too few.
note_cores() {
    mkdir -p "$deployment/state/cores"
    printf '%s %s %s\n' "${SLURMD_NODENAME:-$(hostname)}" 4 \
        "$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)" > "$deployment/state/cores/$1"
} 2> /dev/null

# Where the ranks meet: at the first of them, at an address of its node that the others reach.
other='it'"'"'s.example'
address=$(ssh -G "$other" 2> /dev/null | awk '$1 == "hostname" { print $2 }')
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
    export MASTER_ADDR MASTER_PORT WORLD_SIZE=6 LOCAL_WORLD_SIZE=2
    export MODAK_STRATEGY=ddp MODAK_RENDEZVOUS_TIMEOUT=300
    export RANK=$1 LOCAL_RANK=$(($1 % 2)) NODE_RANK=$(($1 / 2))
    shift
    note_cores "$RANK"
    # The rest of what torchrun sets, and what Lightning, Accelerate and JAX need, lest they assume one process.
    export GROUP_RANK=$NODE_RANK GROUP_WORLD_SIZE=3 ROLE_RANK=$RANK ROLE_WORLD_SIZE=$WORLD_SIZE
    export TORCHELASTIC_RUN_ID=$MASTER_PORT TORCHELASTIC_RESTART_COUNT=0 TORCHELASTIC_MAX_RESTARTS=0
    export PL_TRAINER_NUM_NODES=3 PL_TRAINER_DEVICES=2 LT_NUM_NODES=3 LT_DEVICES=2
    export JAX_COORDINATOR_ADDRESS="$MASTER_ADDR:$MASTER_PORT" ACCELERATE_USE_CPU=true
    device=$(ip -o -4 addr 2> /dev/null | awk -v own="$MASTER_ADDR/" 'index($4, own) == 1 { print $2; exit }')
    device=${device:-$(ip -o route get "$MASTER_ADDR" 2> /dev/null | sed -n 's/.* dev \([^ ]*\).*/\1/p')}
    if [ -n "$device" ]; then
        export GLOO_SOCKET_IFNAME="${GLOO_SOCKET_IFNAME:-$device}" NCCL_SOCKET_IFNAME="${NCCL_SOCKET_IFNAME:-$device}"
    fi
    if [ "$RANK" -gt 0 ]; then
        own=$deployment/ranks/$RANK
        # what a rank on another host writes comes here over its connection
        mkdir -p "$own" && [ "$NODE_RANK" -gt 0 ] || exec >> "$own/output.log" 2>> "$own/error.log"
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
    if [ "$code" -ne 0 ] && [ "$code" -ne 143 ] && [ -z "$asked" ]; then
        # One that ends because of another says which.
        lost=$(cat "$own/lost" 2> /dev/null)
        (set -o noclobber && echo "${lost:-$RANK $code ${SLURMD_NODENAME:-$(hostname)}}" > "$deployment/state/failed_rank") 2> /dev/null
    fi
    [ "$code" -eq 0 ] || [ "$NODE_RANK" -gt 0 ] || kill -USR2 $$
    exit "$code"
}

# Starts all ranks, and ends all when one fails.
ranks() {
    local each code=0 pids=()
    trap 'kill -TERM "${pids[@]}" 2> /dev/null' TERM USR2
    for ((each = 0; each < 6; each++)); do
        if [ "$each" -ge 2 ]; then
            connect "$each" &
        else
            rank "$each" "${command[@]}" &
        fi
        pids+=("$!")
    done
    [ ! -e "$deployment/state/failed_rank" ] || kill -TERM "${pids[@]}" 2> /dev/null # one failed before all were started
    for each in "${pids[@]}"; do
        while kill -0 "$each" 2> /dev/null; do
            wait "$each"
        done
        wait "$each" || code=$?
    done
    collect; exit "$code"
}

# The other hosts, which this one enters by ssh as its user, with keys that work without prompting. Whatever runs on one
# has a time limit: a host may be there and not answer.
hosts=(box2 'it'"'"'s.example')
far=(ssh -o BatchMode=yes -o ConnectTimeout=20 -o ServerAliveCountMax=4 -o "ServerAliveInterval=$(((300 + 60) / 4))")
home=$(hostname)

# Quotes a word for a user's shell, whichever that is.
word() {
    printf %s "'${1//"'"/"'\\''"}'"
}

# Runs a function or a command of this script on a host, as its input: csh, as a login shell, takes no word of several lines.
there() {
    local host=$1 text
    shift
    text=$(printf '%q ' "$@")
    ! declare -F "$1" > /dev/null || text="$(declare -f "$1"); $text"
    timeout --kill-after=5 120 "${far[@]}" "$host" bash -s <<< "$text"
}

# A host as ssh enters it.
place() {
    "${far[@]}" -G "$1" 2> /dev/null | awk -v name="$1" '{ of[$1] = $2 } END { print name " (" of["user"] "@" of["hostname"] ":" of["port"] ")" }'
}

# On another host: makes room for what is copied there; says whether it shares the first one's files.
make_room() {
    local deployment=$1 token=$2 runtime=$3 path
    shift 3
    if [ "$(cat "$deployment/state/token" 2> /dev/null)" = "$token" ]; then
        echo shared
        return
    fi
    if [ -e "$deployment/state/claim" ]; then
        echo "it has a deployment of its own in $deployment: undeploy that, or give one of the two another name" >&2
        return 73
    fi
    for path in "$@"; do
        mkdir -p "$path" || return 73
    done
    command -v rsync > /dev/null || {
        echo "rsync is not there" >&2
        return 69
    }
    [ -z "$runtime" ] || [ -x "$runtime" ] || {
        echo "$runtime is not there" >&2
        return 69
    }
    : > "$deployment/state/brought"
}

# Copies files to a host or from it by rsync. There it works in a folder, because the shell of an old rsync would split a
# path at spaces, and any would expand patterns; what a user's own cd writes would be taken for rsync's answer.
with_host() {
    local host=$1 by at
    at=$(word "$2")
    shift 2
    printf -v by '%q ' "${far[@]}"
    ${within[@]+"${within[@]}"} rsync -a --timeout=60 --rsh "$by" --rsync-path "cd $at > /dev/null && rsync" "$@"
}

# Copies to a host everything its ranks read, to the same places as here; what it already has stays.
bring() {
    local host=$1 said path
    if ! said=$(there "$host" true 2>&1); then
        echo "the host $(place "$host") cannot be entered from $home: ${said##*$'\n'}; ranks are started there by ssh, which needs" \
            "a key that works without prompting, and a host key that is known here" >&2
        return 68
    fi
    said=$(there "$host" make_room "$deployment" "$token" "${runtime:-}" "$deployment/state" "$deployment/ranks" "${brought[@]%/*}" 2>&1) || {
        echo "the host $(place "$host") cannot take part: ${said##*$'\n'}" >&2
        return 73
    }
    [ "${said##*$'\n'}" != shared ] || return 0
    for path in "${brought[@]}"; do
        [ -e "$path" ] || continue
        said=$(with_host "$host" "${path%/*}" --delete "$path" "$host:./" 2>&1) || {
            echo "$path could not be copied to the host $(place "$host"): ${said##*$'\n'}" >&2
            return 68
        }
    done
    for path in ${present[@]+"${present[@]}"}; do
        there "$host" test -e "$path" || {
            echo "$path is not on the host $(place "$host"), but it is here; name hosts that have it" >&2
            return 66
        }
    done
    said=$(with_host "$host" "$deployment/state" "$deployment/state/rank.sh" "$host:./" 2>&1) || {
        echo "the host $(place "$host") cannot take part: ${said##*$'\n'}" >&2
        return 68
    }
}

# When another host's ranks have ended, what they wrote is copied here, and only images and data stay there.
tidy() {
    if [ -e "$1/state/brought" ] && ! [ -e "$1/state/claim" ]; then
        rm -rf "$1"
    fi
}
collect() {
    local host within=(timeout --kill-after=5 300)
    for host in "${hosts[@]}"; do
        {
            with_host "$host" "$deployment" --ignore-missing-args "$host:./ranks" "$deployment/" &&
                with_host "$host" "$deployment/state" --ignore-missing-args "$host:./cores" "$deployment/state/" &&
                there "$host" tidy "$deployment"
        } < /dev/null || echo "what the ranks on the host $host wrote could not be copied back" >&2
    done
}

# Starts a rank on its host, and watches it. Its output comes over the same connection, at whose other end the rank is ended
# when nothing more is heard from here.
connect() {
    local rank=$1 host=${hosts[$1 / 2 - 1]} own=$deployment/ranks/$1 line=$deployment/state/line-$1 child beat code lost name asked=''
    mkdir -p "$own"
    rm -f "$line" "$own/lost"
    mkfifo "$line" || exit 73
    # shellcheck disable=SC2094 # both ends of a pipe
    exec 5<> "$line" 6< "$line" 7> "$line" 5>&-
    rm -f "$line"
    (
        trap '' TERM # it ends when its input does
        exec "${far[@]}" "$host" "bash $(word "$deployment/state/rank.sh") $rank" <&6 6<&- 7>&- >> "$own/output.log" 2>> "$own/error.log"
    ) &
    child=$!
    (
        nap=''
        trap - USR2
        trap 'kill "$nap"; exit' TERM # or its sleep would be there for up to 5 s
        for name in $(compgen -e | grep -vE '^(SSH_|XDG_|DBUS_)|^(HOME|USER|LOGNAME|SHELL|HOSTNAME|PWD|OLDPWD|SHLVL|TERM|DISPLAY|_)$'); do
            printf 'export %s=%q\n' "$name" "${!name}"
        done
        printf 'export MODAK_JOB=%q\n' "$job_id $host" # by which its processes are known there
        echo begin
        while
            sleep 5 > /dev/null &
            nap=$!
            wait "$nap"
        do
            echo
        done
    ) >&7 6<&- 7>&- 2> /dev/null &
    beat=$!
    exec 6<&- 7>&-
    trap 'asked=1; kill "$beat" 2> /dev/null
        { timeout 45 tail --pid="$child" -f /dev/null || kill -KILL "$child"; } 2> /dev/null &' TERM
    while kill -0 "$child" 2> /dev/null; do
        wait "$child"
    done
    wait "$child"
    code=$?
    kill "$beat" 2> /dev/null
    if [ "$code" -eq 255 ] && [ -z "$asked" ]; then
        echo "the connection from $home to the host $(place "$host"), on which rank $rank ran, broke" | tee -a "$own/error.log" >&2
        code=68
    elif [ "$code" -eq 68 ]; then
        lost=$(there "$host" cat "$deployment/state/failed_rank" 2> /dev/null)
    fi
    if [ "$code" -ne 0 ] && [ "$code" -ne 143 ] && [ -z "$asked" ]; then
        (set -o noclobber && echo "${lost:-$rank $code $host}" > "$deployment/state/failed_rank") 2> /dev/null
    fi
    [ "$code" -eq 0 ] || kill -USR2 $$
    exit "$code"
}

# At the other end: the rank has a session of its own, of which nothing remains when it ends.
far_rank() {
    local child watcher code line told=''
    exec 3<&0 < /dev/null
    while IFS= read -r -t 300 line <&3 && [ "$line" != begin ]; do
        told+=$line$'\n'
    done
    eval "$told"
    setsid bash "$deployment/state/rank.sh" "$1" here 3<&- &
    child=$!
    {
        while read -r -t $((300 + 60)) <&3; do
            :
        done
        kill -TERM "$child"
    } > /dev/null 2>&1 &
    watcher=$!
    exec 3<&-
    wait "$child"
    code=$?
    {
        kill "$watcher"
        kill -KILL -- "-$child"
        pkill -KILL -s "$child" # those of its session that have groups of their own
    } 2> /dev/null
    exit "$code"
}

token="$job_id $home $RANDOM$RANDOM$RANDOM"
echo "$token" > "$deployment/state/token"
# What is below the workspace is copied; what the target has elsewhere must be there already.
brought=("$deployment/code" "$deployment/runtime" "$deployment/checkpoints")
present=()
for path in "$image" "$dataset"; do
    case $path in
        "${deployment%/deployments/*}"/*) brought+=("$path") ;;
        *) present+=("$path") ;;
    esac
done
{
    declare -p deployment MASTER_ADDR MASTER_PORT command hosts far home job_id
    declare -f note_cores rank ranks word there with_host place tidy collect connect far_rank
    # shellcheck disable=SC2016 # that is for the other shell
    echo 'cd "$deployment/code" || exit 1
case $# in
    0) ranks ;;
    1) far_rank "$1" ;;
    *) rank "$1" "${command[@]}" ;;
esac'
} > "$deployment/state/rank.sh"

# All hosts have what they need before a rank begins.
bringing=()
for each in "${hosts[@]}"; do
    bring "$each" &
    bringing+=("$!")
done
code=0
for each in "${bringing[@]}"; do
    wait "$each" || code=$?
done
[ "$code" -eq 0 ] || exit "$code"
timeout --kill-after=30 5400 bash "$deployment/state/rank.sh" &
training=$!
trap 'kill -TERM "$training" 2> /dev/null; wait "$training"; exit 143' TERM
wait "$training"
code=$?
# Ranks that a launcher ends because another failed have other codes.
[ "$code" -eq 0 ] || [ ! -e "$deployment/state/failed_rank" ] || read -r _ code _ < "$deployment/state/failed_rank"
(exit "$code")
