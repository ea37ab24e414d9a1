"""What trainers of libraries have in common: what they tell of a training, and when it is to save its state and to end.

A trainer runs the loop in the script's place, so that nothing needs to stand in the script: its own callbacks are told.
"""

import itertools
import json
import math
import os
import sys
import time

from modak_checkpoint import progress

from modak_runtime.curves import curves
from modak_runtime.report import Without, write_whole

SCHEMA = "modak.trainer/1"
_TRAININGS = itertools.count(1)  # of this process
_SIZES = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")


def guarded(report, where, act, *arguments):
    """What an act of ours gives; None where it goes wrong, and the training goes on as it was written."""
    try:
        return act(*arguments)
    except Exception as error:  # the border: a trainer of another release than is known
        report.mistake(where, error)
        return None


def prepare(report, objects, own=()):
    """Lets the choices act on models and loaders, as the line in a script does.

    Args:
        report: of this process.
        objects: models and loaders; a script that prepares them itself has done so.
        own: choices that the trainer's own settings stand against, or that are made in those.
    """
    from modak_runtime import pytorch

    return pytorch.prepare(sys.modules["torch"], Without(report, own), objects)


class Numbers:
    """The numbers that a trainer logs: metrics.jsonl has all, and metrics.json the newest of each, where the script
    itself writes none."""

    def __init__(self, report, library):
        self._report, self._numbers, self._logged = report, {"schema": SCHEMA, "library": library}, None
        self._path = os.environ.get("MODAK_METRICS", "")

    def take(self, logs, step=None, epoch=None):
        """Notes what is a number among them, at a moment of the training."""
        numbers = {}
        for name, value in dict(logs or {}).items():
            try:
                numbers[str(name)] = float(value)
            except (TypeError, ValueError, RuntimeError):
                continue
        self._numbers.update({name: number for name, number in numbers.items() if math.isfinite(number)})
        numbers = {name: number for name, number in numbers.items() if name not in ("step", "epoch")}
        moment = (step, epoch, numbers)
        if numbers and step is not None and moment != self._logged:
            curves().add(*moment)
            self._logged = moment

    def get(self, name):
        return self._numbers.get(name)

    def write(self):
        """Writes the file as a whole, unless it is the script's own."""
        if not self._path or not self._report.speaks() or len(self._numbers) == 2 or not self._is_ours():
            return
        if not write_whole(self._path, json.dumps(self._numbers)):
            self._path = ""

    def _is_ours(self):
        try:
            with open(self._path) as file:
                return json.load(file).get("schema") == SCHEMA
        except FileNotFoundError:
            return True
        except (OSError, ValueError, AttributeError):
            return False


class Ending(progress.Ending):
    """When a training is to save its state, and whether it is to end; nothing of it outside of a job with checkpoints.

    Attributes:
        folder: of the job's checkpoints; empty where none are asked for, or where the script keeps its own.
    """

    def __init__(self):
        several = any(os.environ.get(name, "1") != "1" for name in _SIZES)
        self.folder = "" if several else os.environ.get("MODAK_CHECKPOINTS", "")
        progress.Ending.__init__(self, os.environ.get("MODAK_STOP", ""))
        self._every = _seconds(os.environ.get("MODAK_CHECKPOINT_EVERY"))
        self._next_save = time.monotonic() + self._every

    def begins(self):
        """Takes that the training begins: from now on a signal waits for the end of its step.

        A script may train several times, such as once for each fold, and none goes on from another one's checkpoint:
        run again, the same training of it has the same number.
        """
        number = next(_TRAININGS)
        if "modak_checkpoint.beginning" in sys.modules:  # the script keeps its own
            self.folder = ""
        elif self.folder and number > 1:
            self.folder = os.path.join(os.environ["MODAK_CHECKPOINTS"], "training-%d" % number)
        if self.folder:
            self.take_signal()

    def is_due(self):
        """Whether it is time for a checkpoint."""
        return bool(self.folder) and time.monotonic() >= self._next_save

    def is_asked(self):
        """Whether the training is to end."""
        return bool(self.folder and self.asked())

    def saved(self):
        """Takes that a checkpoint was written."""
        self._next_save = time.monotonic() + self._every

    def leave(self):
        """Ends the process in the way that has its job run again."""
        sys.stdout.write("modak: the training was stopped, and its state saved\n")
        sys.stdout.flush()
        progress.leave(self.asked())


def _seconds(text):
    try:
        return float(text or 600)
    except ValueError:
        return 600.0
