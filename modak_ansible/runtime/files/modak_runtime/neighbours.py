"""How busy others keep the machine while a training runs."""

import os
import time


class Neighbours:
    """Measures the cores that other processes keep busy, from its making on; reads /proc, some milliseconds a look."""

    def __init__(self):
        self._began, self._before = time.perf_counter(), _foreign_seconds()

    def foreign_cores(self):
        """Their mean number since the begin; None on a machine without /proc, or within the kernel's own grain."""
        seconds, after = time.perf_counter() - self._began, _foreign_seconds()
        if self._before is None or after is None or seconds < 1.0:
            return None
        return round(max(0.0, after - self._before) / seconds, 3)  # both sides count in ticks: it may fall below 0


def _foreign_seconds():
    """Seconds for which the cores worked for others since boot, up to what counts alike for all times."""
    try:
        with open("/proc/stat") as stat:
            user, nice, system, _idle, _waiting, irq, softirq, steal = map(int, stat.readline().split()[1:9])
    except (OSError, ValueError):
        return None
    return (user + nice + system + irq + softirq + steal - _own_ticks()) / os.sysconf("SC_CLK_TCK")


def _own_ticks():
    """Clock ticks of this process and its descendants, those that have ended among them."""
    parents, ticks = {}, {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(
                "/proc/%s/stat" % name
            ) as stat:  # the first field behind the program's name is the third of proc(5)
                fields = stat.read().rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        pid = int(name)
        parents[pid], ticks[pid] = int(fields[1]), sum(map(int, fields[11:15]))
    return sum(ticks[pid] for pid in ticks if _descends(pid, parents))


def _descends(pid, parents):
    while pid in parents and pid != os.getpid():
        pid = parents[pid]
    return pid == os.getpid()
