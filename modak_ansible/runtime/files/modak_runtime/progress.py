"""How far a training is, in progress.json beside the report, for whoever asks while it runs."""

import os
import time

from modak_runtime.report import write_whole

SCHEMA = "modak.progress/1"
# Seconds between two writings; they take no more than a thousandth of the time, however slow the file system is.
_PAUSE, _SHARE = 5.0, 0.001


class Progress:
    """The progress of one process.

    Args:
        report: says where, and whether this process is the one that speaks.
    """

    def __init__(self, report):
        self._report, self._is_broken = report, False
        self.epoch, self.epochs, self.loss = None, None, None  # as Keras tells them
        self.loops = Loops()

    def write(self, count):
        """Writes the file as a whole, after so many steps; gives the seconds until it is to be written again."""
        if self._is_broken or not self._report.speaks():
            return _PAUSE
        import json  # a process that makes no step need not wait for it

        began = time.perf_counter()
        path = os.path.join(os.path.dirname(self._report.path), "progress.json")
        epoch = self.loops.epoch(count) if self.epoch is None else self.epoch
        content = {"schema": SCHEMA, "step": count, "epoch": epoch, "epochs": self.epochs, "loss": self.loss}
        if self._report.ranks and self._report.ranks.get("slow"):
            content["slow"] = self._report.ranks["slow"]
        self._is_broken = not write_whole(path, json.dumps(content))
        return max(_PAUSE, (time.perf_counter() - began) / _SHARE)

    def take_loss(self, logs):
        """Takes the loss out of what Keras has for its callbacks; None where it has no number."""
        try:
            self.loss = float(logs["loss"])
        except Exception:  # the border: whatever a backend or a model of the script's own gives
            self.loss = None


class Loops:
    """Which epoch a training is in, by its loops over batches: an epoch is one in which it steps.

    A script that steps over slices of its tensors, without a loader, has no loops to count.
    """

    def __init__(self):
        self._ended, self._before, self._batches = 0, 0, None  # epochs; steps before this loop; what the loop has
        self._is_in_loop, self._is_unsure = False, False

    def begins(self, count, batches):
        """Takes that a loop begins, after so many steps."""
        steps = count - self._before
        if steps:
            # many loops with a few steps each are no epochs: such as batches that are drawn one at a time
            is_epoch = self._is_in_loop and steps * 10 >= (self._batches or 20)
            self._is_unsure = self._is_unsure or not is_epoch
            self._ended += 1
        self._before, self._batches, self._is_in_loop = count, batches, True

    def epoch(self, count):
        """The epoch, from 1, after so many steps; None where that is not sure."""
        if self._is_unsure or not self._is_in_loop:
            return None
        return self._ended + (count > self._before) or None
