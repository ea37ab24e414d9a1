#!/bin/bash
# Stops the box of a testbed and makes sure that nothing of it is left.
# Prints "stopped" when there was something to stop.
#
# usage: stop-box.sh NAME ROOT
set -euo pipefail

name=$1 root=$2
# shellcheck source-path=SCRIPTDIR source=box-common.sh
. "$(dirname "$0")/box-common.sh"

[ -d "$root" ] || exit 0
exec 9>"$root/lock"
flock 9

if is_running; then
  kill -TERM "$(box_process)" # it stops its daemons in order
  wait_until_gone 60 || true
  echo stopped
fi
clear_away
