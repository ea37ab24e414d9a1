# What start-box.sh and stop-box.sh share. Both set $name, the testbed's, and $root, the folder of its state, and hold the
# lock while they change something.
# shellcheck shell=bash
# shellcheck disable=SC2154  # name and root

# Process 1 of the box, known by its command line, because a number may have passed to another process.
box_process() {
  local pid
  pid=$(cat "$root/box.pid" 2>/dev/null) || return 1
  tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -qF " $name $root " || return 1
  echo "$pid"
}

# Whether the box stands and takes daemons: its process 1 makes that folder last.
is_running() {
  local pid
  pid=$(box_process 2>/dev/null) && [ -d "/proc/$pid/root/run/testbed" ]
}

# Processes that still see the box's file system, by the folder that takes its changes.
processes() {
  grep -lsF "upperdir=$root/overlay/upper," /proc/[0-9]*/mountinfo | cut -d/ -f3 || true
}

wait_until_gone() {
  local deadline=$((SECONDS + $1))
  while [ -n "$(processes)" ]; do
    [ "$SECONDS" -lt "$deadline" ] || return 1
    sleep 0.05
  done
}

# Removes what is left of a box that was stopped, or killed at any moment, and fails when that is not possible.
clear_away() {
  # Only the box may see its mounts: were they the host's, every process of the host would be taken for one of the box.
  if grep -F " $root/" /proc/self/mountinfo >&2; then
    echo "mounts of the testbed are left on this machine (above)" >&2
    return 1
  fi
  local pid
  for pid in $(box_process 2>/dev/null) $(processes); do
    kill -KILL "$pid" 2>/dev/null || true
  done
  if ! wait_until_gone 10; then
    echo "processes of the testbed that cannot be stopped: $(processes | tr '\n' ' ')" >&2
    return 1
  fi
  if [ -s "$root/box.cgroup" ] && [ -d "$(<"$root/box.cgroup")" ]; then
    find "$(<"$root/box.cgroup")" -depth -type d -exec rmdir {} +
  fi
  rm -rf --one-file-system "$root/overlay" "$root/tmp" "$root/box.pid" "$root/box.cgroup"
}
