"""What the kernel knows of this machine and this process: age, processor, and how busy others keep the cores.

It runs in the container of the training, which may be one of the paper's: Python 2.7 must read it too.
"""

from __future__ import absolute_import, division, print_function

import glob
import os
import platform
import time

clock = getattr(time, "perf_counter", time.time)  # seconds; Python 2.7 has no better one than time.time
_IMPORTED = time.time()


def process_started():
    """Returns when this process started, on the clock of this module.

    The kernel knows it (proc(5), /proc/pid/stat, field 22, in clock ticks since boot); where there is no /proc, the
    import of this module counts as the start.
    """
    now = clock()
    try:
        started = int(_stat_fields("self")[19]) / os.sysconf("SC_CLK_TCK")
        with open("/proc/uptime") as uptime:
            age = float(uptime.read().split()[0]) - started
    except IOError:
        return now
    return now - age


def launch_seconds():
    """Returns the seconds from the job script's command, which may start a container, to the import of this module.

    The kernel does not know them: a process begins before it executes the container's runtime, and then Python. None
    outside of a job.
    """
    try:
        return round(_IMPORTED - float(os.environ["MODAK_LAUNCHED"]), 3)
    except (KeyError, ValueError):
        return None


def load_average():
    """Returns the machine's mean number of running processes in the last minute."""
    return os.getloadavg()[0]


def processor_model():
    """Returns the processor's name as modak_runtime's reports have it, or the architecture's (ARM kernels give none).

    A name without digits has its vendor's numbers behind it: virtual machines call many generations alike.
    """
    try:
        with open("/proc/cpuinfo") as cpuinfo:
            first = cpuinfo.read().partition("\n\n")[0]
    except IOError:
        return platform.machine()
    said = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in first.split("\n"))}
    name, family, model = (said.get(each, "") for each in ("model name", "cpu family", "model"))
    if name and family and model and not any(letter.isdigit() for letter in name):
        return "%s family %s model %s" % (name, family, model)
    return name or platform.machine()


class Neighbours(object):
    """Measures the cores that other processes keep busy, from its making on."""

    def __init__(self):
        self.started, self.before = clock(), _foreign_seconds()

    def foreign_cores(self):
        """Returns their mean number since the begin; None on a machine without /proc."""
        seconds, after = clock() - self.started, _foreign_seconds()
        if self.before is None or after is None or seconds <= 0:
            return None
        return round(max(0.0, after - self.before) / seconds, 3)  # both sides count in ticks: it may fall below 0


def _foreign_seconds():
    """Returns the seconds for which the cores worked for others since boot, up to what counts alike for all times."""
    try:
        with open("/proc/stat") as stat:
            user, nice, system, _idle, _waiting, irq, softirq, steal = map(int, stat.readline().split()[1:9])
    except (IOError, ValueError):
        return None
    busy = user + nice + system + irq + softirq + steal
    return (busy - _own_ticks()) / os.sysconf("SC_CLK_TCK")


def _own_ticks():
    """Returns the clock ticks of this process and its descendants, those that have ended among them."""
    parents, ticks = {}, {}
    for folder in glob.glob("/proc/[0-9]*"):
        pid = int(os.path.basename(folder))
        try:
            fields = _stat_fields(pid)
        except IOError:  # it has ended meanwhile
            continue
        parents[pid], ticks[pid] = int(fields[1]), sum(map(int, fields[11:15]))
    return sum(ticks[pid] for pid in ticks if _descends(pid, parents))


def _descends(pid, parents):
    while pid in parents and pid != os.getpid():
        pid = parents[pid]
    return pid == os.getpid()


def _stat_fields(pid):
    """Returns the fields of /proc/pid/stat behind the program's name: the first is the third of proc(5).

    As bytes: a name may be no text.
    """
    with open("/proc/%s/stat" % pid, "rb") as stat:
        return stat.read().rpartition(b")")[2].split()
