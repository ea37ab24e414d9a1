#!/bin/bash
# Starts the box of a testbed unless it runs. Every start makes a fresh file system over the kept one; what lasts (homes,
# scratch, keys, logs, the state of Slurm and its accounting) lives in folders beside it.
# Prints "started" when it had to.
#
# usage: start-box.sh NAME ROOT ROOTFS USER
set -euo pipefail
umask 022

name=$1 root=$2 rootfs=$3 user=$4
here=$(dirname "$(readlink -f "$0")")
# shellcheck source-path=SCRIPTDIR source=box-common.sh
. "$here/box-common.sh"

exec 9>"$root/lock"
flock 9
if is_running; then
  exit 0
fi
clear_away

# Copied whole or not at all.
keep() {
  [ ! -d "$2" ] || return 0
  rm -rf "$2.partial"
  cp -a "$1" "$2.partial"
  mv "$2.partial" "$2"
}
mkdir -p "$root"/{state/keys,overlay/upper,overlay/work,box,home,scratch}
mkdir "$root/tmp"
chmod 1777 "$root/tmp"
keep "$rootfs/var/lib/mysql" "$root/state/mysql"
keep "$rootfs/var/lib/slurm" "$root/state/slurm"
keep "$rootfs/var/log" "$root/state/log"

keys=$root/state/keys
[ -s "$keys/munge.key" ] || (umask 077 && head -c 1024 /dev/urandom >"$keys/munge.key")
[ -s "$keys/ssh_host_ed25519_key" ] ||
  ssh-keygen -q -t ed25519 -N '' -C "testbed $name" -f "$keys/ssh_host_ed25519_key"

# Ubuntu lets only programs with a profile make user namespaces, which Apptainer needs: the box runs under one of those.
profile=mmdebstrap confine=()
if [ "$(cat /proc/sys/kernel/apparmor_restrict_unprivileged_userns 2>/dev/null)" = 1 ] &&
  grep -q "^$profile " /sys/kernel/security/apparmor/profiles; then
  confine=(aa-exec --profile "$profile" --)
fi

setsid "${confine[@]}" unshare --mount --pid --uts --ipc --fork \
  bash "$here/box-init.sh" "$name" "$root" "$rootfs" "$user" >"$root/box.log" 2>&1 </dev/null 9>&- &
outside=$!

until is_running; do
  if ! kill -0 "$outside" 2>/dev/null; then
    echo "the box ended; its log:" >&2
    tail -n 15 "$root/box.log" >&2
    exit 1
  fi
  sleep 0.05
done
echo started
