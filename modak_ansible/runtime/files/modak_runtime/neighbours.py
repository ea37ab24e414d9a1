"""How busy others keep the machine: while a training runs, and as its process begins.

By the latter OpenMP's threads wait for each other as they would by themselves where the cores are idle, and briefly
where others keep them busy. Libraries read that when they are loaded, and so it is settled before.
"""

import os
import time

WAITS = "wait_policy"
_SETTLED = "MODAK_WAIT_POLICY"  # what a process has settled, those that it starts take over
_BRIEFLY = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "1000"}  # see wait_policy.md
_LOOK = 0.2  # seconds, twenty of the kernel's ticks


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
    busy, _ = _ticks().get("cpu", (None, None))
    return None if busy is None else (busy - _own_ticks()) / os.sysconf("SC_CLK_TCK")


def _ticks():
    """Ticks of work, and all of them, of each core and of all together, by proc(5)'s names; none without /proc."""
    ticks_by_core = {}
    try:
        with open("/proc/stat") as stat:
            for name, *ticks in map(str.split, stat):
                if name.startswith("cpu"):
                    user, nice, system, idle, waiting, irq, softirq, steal = map(int, ticks[:8])
                    busy = user + nice + system + irq + softirq + steal
                    ticks_by_core[name] = busy, busy + idle + waiting
    except (OSError, ValueError):
        return {}
    return ticks_by_core


def stat_of(folder):
    """The fields of a process or a thread behind its name, from the third of proc(5) on; a name may have any bytes."""
    with open(folder + "/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()


def _own_ticks():
    """Clock ticks of this process and its descendants, those that have ended among them."""
    parents, ticks = {}, {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = stat_of("/proc/" + name)
        except OSError:  # it has ended meanwhile
            continue
        pid = int(name)
        parents[pid], ticks[pid] = int(fields[1]), sum(map(int, fields[11:15]))
    return sum(ticks[pid] for pid in ticks if _descends(pid, parents))


def _descends(pid, parents):
    while pid in parents and pid != os.getpid():
        pid = parents[pid]
    return pid == os.getpid()


def settle_waiting(report):
    """Looks at the cores once, where the plan leaves it to that, and notes what came of it."""
    if report.planned.get(WAITS) != "adaptive":
        return
    already_set = [name for name in _BRIEFLY if name in os.environ and _SETTLED not in os.environ]
    if already_set:
        report.refused(WAITS, "%s is already set" % " and ".join(already_set))
        return
    if _SETTLED not in os.environ:
        os.environ[_SETTLED] = "brief" if _is_crowded(os.sched_getaffinity(0)) else "stock"
        if os.environ[_SETTLED] == "brief":
            os.environ.update(_BRIEFLY)
    report.stands(WAITS, os.environ[_SETTLED], "by how other processes used the cores when it began")


def _is_crowded(cores):
    """Whether others leave less room on the cores than there are threads."""
    threads = os.environ.get("OMP_NUM_THREADS", "")
    threads = min(int(threads), len(cores)) if threads.isdigit() else len(cores)
    before = _ticks()
    time.sleep(_LOOK)
    after = _ticks()
    busy = sum(
        (after[name][0] - before[name][0]) / max(1, after[name][1] - before[name][1])
        for name in map("cpu%d".__mod__, cores)
        if name in before and name in after
    )
    return len(cores) - busy < threads - 0.5
