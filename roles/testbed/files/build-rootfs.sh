#!/bin/bash
# Builds the root file system of the box once and keeps it. A build that is killed never looks finished, because it is
# renamed when it is complete; of two at once the second waits for the first and takes its result.
#
# usage: build-rootfs.sh STORE SUITE APPTAINER_SUITE USER USER_ID MMDEBSTRAP-ARGUMENT...
#   STORE   folder to make, with the root file system (root) and the log of its making (build.log)
set -euo pipefail
umask 022

store=$1 suite=$2 apptainer_suite=$3 user=$4 uid=$5
shift 5
[ ! -d "$store" ] || exit 0

exec 9>"$store.lock"
flock 9
[ ! -d "$store" ] || exit 0

partial=$store.partial
log=$partial/build.log
rm -rf --one-file-system "$partial"
mkdir -m 700 "$partial"

fail() {
  echo "building the root file system failed; the end of its log:" >&2
  tail -n 25 "$log" >&2
  rm -rf --one-file-system "$partial"
  exit 1
}
trap fail ERR
trap 'trap - ERR; rm -rf --one-file-system "$partial"; exit 1' INT TERM HUP

# Apptainer's suite is taken from the same mirror as the rest, whichever mirror mmdebstrap settled on.
export suite apptainer_suite
# shellcheck disable=SC2016  # the hook is a script of its own; its first argument is the root file system
second_suite='
  sed -n "s/^\(deb .*\) $suite main.*/\1 $apptainer_suite main/p" "$1"/etc/apt/sources.list |
    head -n 1 >"$1"/etc/apt/sources.list.d/apptainer.list
  test -s "$1"/etc/apt/sources.list.d/apptainer.list'

mmdebstrap --mode=root --variant=minbase \
  --aptopt="APT::Default-Release \"$suite\"" \
  --dpkgopt='path-exclude=/usr/share/doc/*' \
  --dpkgopt='path-exclude=/usr/share/man/*' \
  --dpkgopt='path-exclude=/usr/share/locale/*' \
  --setup-hook="$second_suite" \
  "$@" >"$log" 2>&1

{
  root=$partial/root
  # What belongs to one machine or one testbed is written when the box starts.
  rm -f "$root"/etc/ssh/ssh_host_* "$root"/etc/munge/munge.key "$root"/etc/hostname "$root"/etc/resolv.conf \
    "$root"/etc/apt/apt.conf.d/99mmdebstrap "$root"/etc/machine-id
  echo "APT::Default-Release \"$suite\";" >"$root/etc/apt/apt.conf.d/10suite"

  # A locked password (!) would make sshd refuse the key as well.
  chroot "$root" useradd --uid "$uid" --user-group --no-create-home --shell /bin/bash --password '*' "$user"
  echo "$user:100000:65536" | tee "$root/etc/subuid" >"$root/etc/subgid"

  # An accounting database that is ready to start: small log files, the slurm user known by its socket.
  rm -rf "$root/var/lib/mysql"
  mkdir "$root/var/lib/mysql"
  chroot "$root" chown mysql:mysql /var/lib/mysql
  chroot "$root" mariadb-install-db --user=mysql --auth-root-authentication-method=socket --skip-test-db \
    --innodb-log-file-size=16M --innodb-undo-tablespaces=0
  chroot "$root" mariadbd --user=mysql --bootstrap --innodb-log-file-size=16M <<'SQL'
FLUSH PRIVILEGES;
CREATE DATABASE slurm_acct_db;
CREATE USER slurm@localhost IDENTIFIED VIA unix_socket;
GRANT ALL ON slurm_acct_db.* TO slurm@localhost;
SQL
} >>"$log" 2>&1

mv "$partial" "$store"
