"""Counts and times the steps of a training, in bounded memory and about a microsecond a step."""

import os
import sys
import time

from modak_runtime.neighbours import Neighbours, stat_of
from modak_runtime.progress import Progress

_KEPT = 4096  # intervals; with more, every second one is kept, then every fourth ...
_FIRST_WRITE, _WRITE = 10.0, 30.0  # seconds between reports of a training that goes on


def length_of(data):
    """How many samples there are, where the data say so; some have a __len__ that only raises, as Keras's arrays do."""
    try:
        return len(data)
    except Exception:  # whatever a script's own class does
        return None


class Steps:
    """The clock of one process's steps.

    Args:
        report: is written after the first steps, from time to time, and at the end of a trial.
        limit: after so many steps the process ends, with success; 0 for a training to its end.
        seconds: after which a trial ends, however few steps it has made; 0 for as long as it takes.
    """

    def __init__(self, report, limit=0, seconds=0.0):
        self.count, self.batch_size, self.samples, self.parameters = 0, None, None, None
        self.batches = None  # gives what a loop has its batches from, while that is there
        self.synchronise = None  # waits until an accelerator has done all that it was given
        self._report, self._limit = report, limit
        self.progress = Progress(report)
        self._began = time.perf_counter() - _age()
        self._loop = None  # when the loop of the first steps began
        self._first = self._last = self._next_look = self._next_write = 0.0
        self._intervals, self._stride = [], 1
        self._at_first = 0  # steps of the first call: several where a framework makes them at once
        self._before, self._passes = 0, None  # steps before this loop; batches of a step, 0 where they are not the same
        self._is_trial = bool(limit or seconds)
        self._neighbours = Neighbours() if self._is_trial else None  # its steps alone are over too soon to tell
        if seconds:
            import threading

            timer = threading.Timer(max(0.0, seconds - _age()), self._end_trial)
            timer.daemon = True
            timer.start()

    def loop_begins(self, batch_size=None, samples=None, batches=None):
        """Takes that a loop over so many batches begins; the last one before the first step is the training's."""
        self.progress.loops.begins(self.count, batches)
        self._before = self.count
        if not self.count:
            self._loop = time.perf_counter()
            self.batch_size, self.samples = batch_size, samples

    def step(self, steps=1):
        """Takes that a step has ended, or several at once; tells, every few seconds, that it is time to look around."""
        now = time.perf_counter()
        self.count = count = self.count + steps
        if count > steps and not (count // steps) % self._stride:
            self._intervals.append((now - self._last) / steps)
        self._last = now
        if now >= self._next_look or count >= self._limit > 0:
            self._seldom(now, steps)
            return True
        return False

    def _seldom(self, now, steps):
        if self.count == steps:
            self._at_first = steps
            self._first, self._neighbours = now, self._neighbours or Neighbours()
        self._look_at_passes()
        if self.count >= self._limit > 0:
            self._end_trial()
        self._next_look = now + self.tell()
        if now >= self._next_write:
            self._next_write = now + (_FIRST_WRITE if self.count == steps else _WRITE)
            self._thin_out()
            self._report.write()

    def _look_at_passes(self):
        """Notes how many batches each step has had, as PyTorch itself counts them; some read one ahead."""
        steps = self.count - self._before
        read = getattr(self.batches and self.batches(), "_num_yielded", 0)
        if read and steps > 2:
            passes, ahead = divmod(read, steps)
            passes_per_step = passes if ahead < 2 else 0
            self._passes = passes_per_step if self._passes in (None, passes_per_step) else 0

    def tell(self):
        """Writes how far the training is; gives the seconds until that is to be done again."""
        return self.progress.write(self.count) if self.count and not self._is_trial else _FIRST_WRITE

    def _thin_out(self):
        while len(self._intervals) > _KEPT:
            del self._intervals[::2]
            self._stride *= 2

    def as_dict(self):
        """The steps in seconds; what is not known is None."""
        ordered = sorted(self._intervals)
        is_timed = self.count > 1 and bool(ordered)
        return {
            "count": self.count,
            "first_seconds": _rounded(self._first - self._loop) if self.count and self._loop else None,
            "to_first_step_seconds": _rounded(self._first - self._began) if self.count else None,
            # with what lies between epochs
            "mean_seconds": _rounded((self._last - self._first) / (self.count - self._at_first)) if is_timed else None,
            "median_seconds": _rounded(_quantile(ordered, 0.5)) if is_timed else None,
            "p10_seconds": _rounded(_quantile(ordered, 0.1)) if is_timed else None,
            "p90_seconds": _rounded(_quantile(ordered, 0.9)) if is_timed else None,
            "all_seconds": _rounded(self._last - self._first) if self.count else None,
            "total_seconds": _rounded(time.perf_counter() - self._began),
            "batch_size": self.batch_size and self.batch_size * (self._passes or 1),
            "samples": self.samples,
            "epochs": self.progress.epochs,
            "parameters": self.parameters,
            "foreign_cores": self._neighbours.foreign_cores() if self._neighbours else None,
            "trial": self._is_trial,
        }

    def _end_trial(self):
        """Ends the process; nothing of the script's comes after, no evaluation, no checkpoint, no ``finally``."""
        try:
            if self.synchronise:
                self.synchronise()
                self._last = time.perf_counter()
            self._report.write(finished=True)
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            _end_children()
        finally:
            os._exit(0)


def _end_children():
    """Ends the processes that read samples: those that the script started through multiprocessing."""
    multiprocessing = sys.modules.get("multiprocessing")
    for child in multiprocessing.active_children() if multiprocessing else ():
        child.terminate()


def _quantile(ordered, share):
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _rounded(seconds):
    return round(seconds, 7)


def _age():
    """Seconds since this process started; 0 where the kernel does not say."""
    try:
        began = int(stat_of("/proc/self")[19]) / os.sysconf("SC_CLK_TCK")
        with open("/proc/uptime") as uptime:
            return max(0.0, float(uptime.read().split()[0]) - began)
    except (OSError, ValueError, IndexError):
        return 0.0
