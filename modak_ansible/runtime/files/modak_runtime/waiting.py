"""How OpenMP's threads wait for each other: as they would by themselves where the cores are idle as the process begins,
and briefly where others keep them busy. Libraries read it when they are loaded, and so it is settled before."""

import os
import time

NAME = "wait_policy"
_SETTLED = "MODAK_WAIT_POLICY"  # what a process has settled, those that it starts take over
_BRIEFLY = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "1000"}  # see wait_policy.md
_LOOK = 0.2  # seconds, twenty of the kernel's ticks


def settle(report):
    """Looks at the cores once, where the plan leaves it to that, and notes what came of it."""
    if report.planned.get(NAME) != "adaptive":
        return
    own = [name for name in _BRIEFLY if name in os.environ and _SETTLED not in os.environ]
    if own:
        report.refused(NAME, "%s is set already" % " and ".join(own))
        return
    if _SETTLED not in os.environ:
        os.environ[_SETTLED] = "brief" if _are_wanted(os.sched_getaffinity(0)) else "stock"
        if os.environ[_SETTLED] == "brief":
            os.environ.update(_BRIEFLY)
    report.stands(NAME, os.environ[_SETTLED], "as others used the cores when it began")


def _are_wanted(cores):
    """Whether others leave less room on the cores than there are threads."""
    threads = os.environ.get("OMP_NUM_THREADS", "")
    threads = min(int(threads), len(cores)) if threads.isdigit() else len(cores)
    before = _ticks(cores)
    time.sleep(_LOOK)
    after = _ticks(cores)
    busy = sum(
        (after[core][0] - before[core][0]) / max(1, after[core][1] - before[core][1])
        for core in set(before) & set(after)
    )
    return len(cores) - busy < threads - 0.5


def _ticks(cores):
    """Of each core the ticks that it was busy for, and all of them; nothing on a machine without /proc."""
    found = {}
    try:
        with open("/proc/stat") as stat:
            for line in stat:
                name, *ticks = line.split()
                if name[:3] == "cpu" and name[3:].isdigit() and int(name[3:]) in cores:
                    user, nice, system, idle, waiting, irq, softirq, steal = map(int, ticks[:8])
                    busy = user + nice + system + irq + softirq + steal
                    found[int(name[3:])] = busy, busy + idle + waiting
    except (OSError, ValueError):
        return {}
    return found
