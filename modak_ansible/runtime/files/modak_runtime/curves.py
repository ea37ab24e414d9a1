"""What a script, or the trainer of a library, logs of a training: a line of JSON for each moment, in metrics.jsonl."""

import atexit
import json
import math
import os
import time

from modak_runtime.report import warn

# Seconds that a line may wait for the next one, so that many of them cost a file system little.
_PAUSE = 1.0
# What stands for the moment itself, by whoever reads the file.
_MOMENTS = ("time", "timestamp", "_timestamp", "wall_time")
_state = []  # of this process: its report, and its curves where there are any


def begin(report):
    """Notes the report of this process, once."""
    _state.append(report)


def curves():
    """What is logged in this process, which has begun."""
    if len(_state) == 1:
        _state.append(Curves(_state[0], os.environ.get("MODAK_METRICS", "")))
    return _state[1]


class Curves:
    """The file of one process.

    Args:
        report: says whether this process is the one that speaks.
        metrics: the file metrics.json, beside which it lies.
    """

    def __init__(self, report, metrics):
        self._report, self._lines, self._next = report, [], 0.0
        self._path = os.path.join(os.path.dirname(metrics), "metrics.jsonl") if metrics else ""
        atexit.register(self.end)

    def add(self, step, epoch, numbers):
        """Writes a line; numbers that are infinite or none stand there as words, for JSON has none such.

        Raises:
            TypeError, ValueError: a value is no number.
        """
        line = {"time": round(time.time(), 3)}
        for name, value in [("step", step), ("epoch", epoch)]:
            if value is not None:
                line[name] = value if isinstance(value, int) else float(value)
        for name, value in numbers.items():
            number = float(value)
            key = "logged.%s" % name if name.lower() in _MOMENTS else name
            line[key] = number if math.isfinite(number) else str(number)
        if not self._path or not self._report.speaks():
            return
        self._lines.append(json.dumps(line) + "\n")
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _PAUSE
            self._flush()

    def _flush(self):
        lines, self._lines = "".join(self._lines), []
        try:
            with open(self._path, "a+b") as file:
                size = file.seek(0, os.SEEK_END)
                if size:  # a run that was killed may have torn the last line
                    file.seek(size - 1)
                    lines = ("" if file.read(1) == b"\n" else "\n") + lines
                file.write(lines.encode())
        except OSError as error:  # a full disk is no reason to end a training
            warn("%s cannot be written: %s" % (self._path, error.strerror))
            self._path = ""

    def end(self):
        """Writes what waits; a helper process that was forked leaves that to the training's."""
        if self._path and self._lines and self._report.speaks():
            self._flush()
