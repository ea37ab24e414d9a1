"""How much memory a process may still take."""

import os

_V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes")
_V2 = ("memory.max", "memory.current")


def free_memory(proc="/proc", groups="/sys/fs/cgroup"):
    """Bytes that this process may still take, by the kernel and by the job's own limits; None where nobody says.

    Args:
        proc: where the kernel tells of processes; groups: where control groups are mounted.
    """
    limits = [limit for limit in (_available(proc), *_below_limits(proc, groups)) if limit is not None]
    return max(0, min(limits)) if limits else None


def _available(proc):
    try:
        with open(proc + "/meminfo") as lines:
            return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        return None


def _below_limits(proc, groups):
    """What the control groups leave: a scheduler limits the job's, and the process is in one within it."""
    try:
        with open(proc + "/self/cgroup") as lines:
            places = [line.strip().split(":", 2) for line in lines]
    except OSError:
        return
    for _, controllers, path in places:
        if "memory" in controllers.split(","):
            folder, names = groups + "/memory", _V1
        elif not controllers:
            folder, names = groups, _V2
        else:
            continue
        parts = [part for part in path.split("/") if part]
        for count in range(len(parts) + 1):
            limit, used = (number_in(os.path.join(folder, *parts[:count], name)) for name in names)
            if limit is not None and used is not None:  # else it is not mounted here, or has no limit
                yield limit - used


def number_in(path):
    """The whole number that a file of the kernel's holds; None where it holds none, or cannot be read."""
    try:
        with open(path) as file:
            return int(file.read())
    except (OSError, ValueError):
        return None
