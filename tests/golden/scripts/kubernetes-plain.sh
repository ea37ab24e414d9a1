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
#KUBERNETES   "ttlSecondsAfterFinished": 604800,
#KUBERNETES   "template": {
#KUBERNETES    "metadata": {
#KUBERNETES     "labels": {
#KUBERNETES      "app.kubernetes.io/managed-by": "modak"
#KUBERNETES     }
#KUBERNETES    },
#KUBERNETES    "spec": {
#KUBERNETES     "restartPolicy": "Never",
#KUBERNETES     "activeDeadlineSeconds": 7200,
#KUBERNETES     "automountServiceAccountToken": false,
#KUBERNETES     "enableServiceLinks": false,
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
#KUBERNETES         "cpu": "4"
#KUBERNETES        },
#KUBERNETES        "limits": {
#KUBERNETES         "cpu": "4"
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
    [ "$SECONDS" -ge 5400 ] && echo timeout > state/ended
    echo "$code" 1<> state/finishing && mv state/finishing state/finished
    exit "$code"
}
trap finish EXIT
trap 'exit 143' TERM
trap 'exit 130' INT

exec >> output.log 2>> error.log
echo "$(date +%s) $job_id $(hostname)" > state/started

cd code || exit 1
unset PYTHONPATH PYTHONHOME
# shellcheck disable=SC2016 # a dollar in a user's own value is only a dollar
command=(
    env
    PYTHONNOUSERSITE=1
    PYTHONUNBUFFERED=1
    PYTHONHASHSEED="${PYTHONHASHSEED:-0}"
    MODAK_LAUNCHED="$(date +%s.%N)"
    MODAK_METRICS="$deployment/metrics.json"
    MODAK_APPLIED="$deployment/applied.json"
    sh -c 'export PYTHONPATH="$0${PYTHONPATH:+:$PYTHONPATH}"; exec "$@"' "$deployment/runtime"
    /opt/venv/bin/python
    train.py
)
timeout --kill-after=30 5400 "${command[@]}" &
training=$!
trap 'kill -TERM "$training" 2> /dev/null; wait "$training"; exit 143' TERM
wait "$training"
