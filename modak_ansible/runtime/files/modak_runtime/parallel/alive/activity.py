"""Whether a process does anything, by what Linux counts of it.

Nobody knows when one that computes will be done. One that neither computes nor reads nor writes is stuck.
"""

import os
import re
import sys
import threading
import time

from modak_runtime.neighbours import stat_of

# Of a core, and seconds: less is what threads need that look whether all is well, as those of gloo do every 10 ms.
_SHARE, _SLACK = 0.01, 0.05
_OURS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_IN_PACKAGES = re.compile("(site|dist)-packages").search
_LIBRARIES = tuple({os.path.dirname(os.__file__), sys.prefix + os.sep + "lib", _OURS})


class Activity:
    """This process with all that it started, but for threads that only look at others.

    Args:
        most: seconds that count at most between two looks: a stop of this process is no idleness of its own.
    """

    def __init__(self, most):
        self._most, self._left_out = most, set()
        self._looked = self._passed = self._idle = 0.0
        self._spent = None

    def leaves_out(self):
        """Leaves out the thread that calls it."""
        self._left_out.add(threading.get_native_id())

    def idle(self, *signs):
        """Seconds for which nothing was done, and no sign changed; 0 where nobody can tell."""
        now = time.monotonic()
        self._idle, self._looked = self._idle + min(now - self._looked, self._most), now
        try:
            spent = (*self._spent_so_far(), *signs)
            if self._is_more(spent) or _is_held_by_a_disk(os.getpid()):
                self._spent, self._idle = spent, 0.0
        except (OSError, ValueError, IndexError):  # no Linux, or one that does not say it
            self._idle = 0.0
        return self._idle

    def _is_more(self, spent):
        if self._spent is None or spent[1:] != self._spent[1:]:
            return True
        return abs(spent[0] - self._spent[0]) > _SLACK + _SHARE * self._idle

    def _spent_so_far(self):
        """Seconds of computing, and how often something was read or written: of the bytes, a few are our own."""
        own = os.getpid()
        usage = [_spent("/proc/%d" % process, True) for process in _started_by(own)]
        for thread in list(self._left_out):
            try:
                seconds, calls = _spent("/proc/%d/task/%d" % (own, thread), False)
            except FileNotFoundError:
                self._left_out.discard(thread)
                continue
            usage.append((-seconds, -calls))
        return sum(seconds for seconds, _ in usage), sum(calls for _, calls in usage)


def _spent(folder, with_ended):
    fields = stat_of(folder)
    seconds = sum(map(int, fields[11 : 15 if with_ended else 13])) / os.sysconf("SC_CLK_TCK")
    with open(folder + "/io") as file:
        counts = dict(line.split(": ") for line in file.read().splitlines())
    return seconds, int(counts["syscr"]) + int(counts["syscw"])


def _started_by(process):
    """A process, and all that it started and that are there still."""
    processes = [process]
    for started in processes:
        for thread in os.listdir("/proc/%d/task" % started):
            with open("/proc/%d/task/%s/children" % (started, thread)) as file:
                processes += map(int, file.read().split())
    return processes


def _is_held_by_a_disk(process):
    """Whether any thread waits in the kernel for a disk or a file system, which may come back."""
    for member in _started_by(process):
        folder = "/proc/%d/task/" % member
        if any(stat_of(folder + thread)[0] == b"D" for thread in os.listdir(folder)):
            return True
    return False


def place():
    """Where the main thread is: a line of the script, and the function there or in a library in which it waits."""
    frame = sys._current_frames().get(threading.main_thread().ident)
    name, inner = "", frame
    while frame is not None:
        file = frame.f_code.co_filename
        name = name or (frame.f_code.co_name if not file.startswith(_OURS) else "")
        if not file.startswith((*_LIBRARIES, "<")) and not _IN_PACKAGES(file):
            return "%s:%d in %s" % (os.path.basename(file), frame.f_lineno, name)
        frame = frame.f_back
    return "%s:%d" % (os.path.basename(inner.f_code.co_filename), inner.f_lineno) if inner else ""


def is_in_a_sum():
    """Whether the main thread is in PyTorch, but not where that reads samples."""
    frame = sys._current_frames().get(threading.main_thread().ident)
    while frame is not None:
        folder = os.path.dirname(frame.f_code.co_filename).replace(os.sep, "/") + "/"
        if "/torch/" in folder:
            return "/torch/utils/data/" not in folder
        if not _IN_PACKAGES(folder) and not folder.startswith(_LIBRARIES):
            return False
        frame = frame.f_back
    return False
