#!/usr/bin/env bash
# A smoke deployment for a CI server: see docs/ci.md.
#
#     ci-smoke.sh BLUEPRINT [options of modak plan and modak deploy, such as -i site.yaml]
#
# REPORTS     the folder for plan, report and results (reports)
# TIME_LIMIT  how long all of it may take (20m)
# MODAK       the command (modak)
set -uo pipefail

if [ $# -lt 1 ]; then
    echo "usage: $0 BLUEPRINT [-i inputs.yaml] [--input NAME=VALUE]..." >&2
    exit 2
fi

blueprint=$1
shift
reports=${REPORTS:-reports}
modak=${MODAK:-modak}
planned=
mkdir -p "$reports" && written=$(mktemp -d) || exit 1 # where reports lie among its files, they would change the training

# The names of the deployments of the plans in a file: what follows on digest, name and blueprint.
deployments_in() {
    awk -F '"' '
        $2 == "digest" { digest = substr($4, 1, 12); name = ""; next }
        $2 == "name" && digest != "" && name == "" { name = $4; next }
        $2 == "blueprint" && name != "" { print name "-" digest }
        { digest = ""; name = "" }
    ' "$1"
}

clean_up() {
    local code=$?
    trap - EXIT
    trap '' INT TERM # a second Ctrl-C does not leave a job behind
    for each in $planned; do # and nothing that was deployed from here before
        if ! "$modak" undeploy "$each" > "$written/undeploy.log" 2>&1; then
            # what was never begun has left nothing behind
            grep -q "there is no deployment" "$written/undeploy.log" || {
                cat "$written/undeploy.log" >&2
                [ "$code" -ne 0 ] || code=1
            }
        fi
    done
    cp -R "$written/." "$reports/" && rm -rf "$written" || [ "$code" -ne 0 ] || code=1
    exit "$code"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

"$modak" plan "$blueprint" "$@" --json > "$written/plan.json" || exit
planned=$(deployments_in "$written/plan.json")
# in the background, so that a signal is heard while it runs
"$modak" deploy "$blueprint" "$@" --json --time-limit "${TIME_LIMIT:-20m}" --at-time-limit undeploy \
    --junit "$written/junit.xml" > "$written/deployment.json" &
deploying=$!
trap 'kill -TERM "$deploying" 2> /dev/null; wait "$deploying"; exit 130' INT
trap 'kill -TERM "$deploying" 2> /dev/null; wait "$deploying"; exit 143' TERM
wait "$deploying"
