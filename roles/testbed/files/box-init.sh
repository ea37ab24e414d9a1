#!/bin/bash
# Makes the file system of the box, moves into it and becomes its process 1. That is the first process of a pid
# namespace, so when it ends everything in the box ends, and so do the mounts, which only the box sees.
#
# usage: unshare --mount --pid --uts --ipc --fork box-init.sh NAME ROOT ROOTFS USER
set -euo pipefail
umask 022

name=$1 root=$2 rootfs=$3 user=$4
box=$root/box
config=$root/config
here=$(dirname "$(readlink -f "$0")")

# The host's /proc is still mounted and knows this process by the number that it has outside.
read -r pid _ </proc/self/stat
echo "$pid" >"$root/box.pid"

mount --make-rprivate /
mount -t overlay testbed -o "lowerdir=$rootfs,upperdir=$root/overlay/upper,workdir=$root/overlay/work" "$box"

bind() {
  mkdir -p "$box$2"
  mount --bind "$1" "$box$2"
}

# Folders of the host itself: they last, and image builds make overlays of their own, which cannot stand on an overlay.
bind "$root/home" /home
bind "$root/tmp" /tmp
bind "$root/state/mysql" /var/lib/mysql
bind "$root/state/slurm" /var/lib/slurm
bind "$root/state/log" /var/log
mkdir "$box/var/lib/testbed"
chmod 700 "$box/var/lib/testbed"
bind "$root/scratch" /var/lib/testbed/scratch
bind "$root/state/keys" /etc/testbed
mkdir -p "$box/scratch" # each compute node mounts its own there; the front end has none

while read -r folder; do
  bind "$folder" "$folder"
  mount -o remount,bind,ro "$box$folder"
done <"$config/folders"

cp -r --no-preserve=mode "$here/box/." "$config/box/." "$box/"
chmod 755 "$box"/usr/local/libexec/testbed/*
cat "$config/hosts" /etc/hosts >"$box/etc/hosts"
cat /etc/resolv.conf >"$box/etc/resolv.conf" 2>/dev/null || true
while read -r bundle; do
  cat "$bundle"
  echo
done <"$config/certificates" >"$box/etc/ssl/certs/ca-certificates.crt"

mount -t proc proc "$box/proc"
mount --rbind /sys "$box/sys"
# The nodes limit a job's memory in a control group of the box's own (version 1), below the one that the box is in.
if grep -qx CgroupPlugin=cgroup/v1 "$config/box/etc/slurm/cgroup.conf"; then
  cgroup=/sys/fs/cgroup/memory$(sed -n 's/^[0-9]*:memory://p' /proc/self/cgroup)/testbed-$name
  mkdir -p "$cgroup"
  echo "$cgroup" >"$root/box.cgroup"
  mount --bind "$cgroup" "$box/sys/fs/cgroup/memory"
fi
mount -t tmpfs -o mode=755 tmpfs "$box/run"
mount -t tmpfs -o mode=755 tmpfs "$box/dev"
mkdir "$box/dev/pts" "$box/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$box/dev/pts"
mount -t tmpfs -o mode=1777 tmpfs "$box/dev/shm"
for device in null zero full random urandom tty; do
  touch "$box/dev/$device"
  mount --bind "/dev/$device" "$box/dev/$device"
done
mknod -m 666 "$box/dev/fuse" c 10 229 # for all: Apptainer mounts an image as the user who asks
ln -s pts/ptmx "$box/dev/ptmx"
ln -s /proc/self/fd "$box/dev/fd"
ln -s fd/0 "$box/dev/stdin"
ln -s fd/1 "$box/dev/stdout"
ln -s fd/2 "$box/dev/stderr"

hostname frontend
cd "$box"
mkdir .host
pivot_root . .host
umount -l /.host
rmdir /.host

exec env --ignore-environment LANG=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
  chroot . /usr/local/libexec/testbed/init "$name" "$root" "$user"
