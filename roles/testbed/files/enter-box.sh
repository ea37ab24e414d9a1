#!/bin/bash
# Runs a command as root in the box of a testbed.
#
# usage: enter-box.sh ROOT COMMAND [ARGUMENT...]
set -euo pipefail

root=$1
shift
exec nsenter --target "$(<"$root/box.pid")" --mount --uts --ipc --pid --root --wd \
  env --ignore-environment HOME=/root TERM="${TERM:-dumb}" LANG=C.UTF-8 \
  PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
