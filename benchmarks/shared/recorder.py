"""Measures a training, prints its progress and keeps metrics.json, whose format benchmarks/README.md describes.

It runs in the container of the training, which may be one of the paper's: Python 2.7 must read it too.
"""

from __future__ import absolute_import, division, print_function

import json
import os
import platform
import resource
import signal
import socket
import sys
from collections import namedtuple
from contextlib import contextmanager

import machine
import numpy as np
from arguments import give_up
from machine import clock
from output import say, write_atomically

SCHEMA = "modak.metrics/1"
PROGRESS_INTERVAL = 10  # seconds between the lines of a long epoch
FIRST_LOSSES = 5  # steps; after them rounding has made equal runs drift apart
DIVERGED = 1e6  # mean cross-entropy; some frameworks go on with 1e28 where others have no number any more

Workload = namedtuple(
    "Workload", "name title parameters"
)  # the folder's name, and the trainable parameters it must have

_signals = []  # those that ended the training
_STARTED, _LOAD_AVERAGE = machine.process_started(), machine.load_average()


class Recorder(object):
    """The measurements of one training. The script calls, in this order: timed, gradients_checked where it does so,
    training_begins, and for each epoch epoch_begins, step_ends for each step, evaluation_begins, epoch_ends.
    """

    def __init__(self, workload, arguments, framework, versions, synchronise=None, deferred=False):
        """To be made as soon as the framework is imported.

        Args:
            workload: a Workload.
            arguments: what arguments.parse returned.
            framework: its name.
            versions: pairs of package and version, the framework's own first.
            synchronise: waits until the framework has done all that it was given; called at the end of an epoch.
            deferred: whether losses are read at the end of the epoch, so that an accelerator never waits for the
                processor; the first five are read at once.
        """
        self.workload, self.arguments, self.synchronise, self.deferred = workload, arguments, synchronise, deferred
        self.seconds = {"import": _elapsed(), "load_data": 0.0, "to_first_step": 0.0, "first_step": 0.0, "compile": 0.0}
        self.metrics = {
            "schema": SCHEMA,
            "workload": workload.name,
            "finished": False,
            "framework": {"name": framework, "version": versions[0][1]},
            "versions": dict((("python", platform.python_version()), ("numpy", np.__version__)) + tuple(versions)),
            "hostname": socket.gethostname(),
            "processor": {"model": machine.processor_model(), "architecture": platform.machine()},
            "load_average": _LOAD_AVERAGE,
            "threads": arguments.threads,
            "switches": arguments.switches,
            "batch_size": arguments.batch_size,
            "seed": arguments.seed,
            "learning_rate": arguments.learning_rate,
            "dropout": arguments.dropout,
            "epochs_requested": arguments.epochs,
            "epochs": [],
            "first_losses": [],
            "gradient_error": None,
        }
        self.loss_sum, self.images_done, self.unread, self.epoch_started = 0.0, 0, [], None
        self.running = {"images": 0, "loss_sum": 0.0}  # what a callback knows of the epoch's mean loss so far
        self._earlier, self._resumed = 0.0, None  # seconds of the job's earlier runs; what was measured of an epoch
        signal.signal(signal.SIGTERM, _terminated)

    def state_dict(self):
        """Returns what was measured so far, as plain values."""
        for loss, images in self.unread:
            self._read(loss, images)
        self.unread = []
        seconds = clock() - self.epoch_started if self.images_done else 0.0
        return {
            "epochs": self.metrics["epochs"],
            "first_losses": self.metrics["first_losses"],
            "seconds": dict(self.seconds, total=self._total()),
            "epoch": {"seconds": seconds, "loss_sum": self.loss_sum, "images_done": self.images_done},
            "running": dict(self.running),
        }

    def load_state_dict(self, state):
        """Goes on from what was measured before an interruption."""
        self.metrics["epochs"], self.metrics["first_losses"] = list(state["epochs"]), list(state["first_losses"])
        self.seconds.update((name, seconds) for name, seconds in state["seconds"].items() if name != "total")
        self._earlier, self._resumed = state["seconds"]["total"], dict(state["epoch"], running=state["running"])

    @contextmanager
    def timed(self, part):
        """Adds the seconds spent inside to a part of `seconds`."""
        started = clock()
        yield
        self.seconds[part] += clock() - started

    def gradients_checked(self, error):
        """Takes the largest relative error of a gradient tensor of the first step against float64."""
        self.metrics["gradient_error"] = error

    def training_begins(self, dataset, training_images, test_images, parameters):
        """Checks the number of trainable parameters and writes the first metrics.json, without epochs.

        Args:
            dataset: what describes the data, as dataset.describe returns it.
            training_images: those of an epoch; test_images likewise.
            parameters: trainable ones, counted in the network.
        """
        if self.workload.parameters is not None and parameters != self.workload.parameters:
            expected = self.workload.parameters
            give_up(1, "the network has %s trainable parameters where the paper's has %s" % (parameters, expected))
        self.images = training_images
        self.metrics.update(
            parameters=parameters, dataset=dataset, training_images=training_images, test_images=test_images
        )
        try:
            self._write()
        except (IOError, OSError) as error:
            give_up(2, "%s: the metrics cannot be written: %s" % (self.arguments.metrics, error.strerror))
        self._print_heading()

    def epoch_begins(self):
        """To be called right before the first step of an epoch."""
        self.neighbours = machine.Neighbours()
        self.epoch_started = self.last_line = clock()
        self.loss_sum, self.images_done, self.unread = 0.0, 0, []
        self.running = {"images": 0, "loss_sum": 0.0}
        if self._resumed:
            self.epoch_started -= self._resumed["seconds"]
            self.loss_sum, self.images_done = self._resumed["loss_sum"], self._resumed["images_done"]
            self.running, self._resumed = dict(self._resumed["running"]), None
        if not self.metrics["epochs"]:
            self.seconds["to_first_step"] = _elapsed()

    def step_ends(self, loss, images):
        """Takes the mean loss of one batch of so many images: a number, or what float() makes one of."""
        if _signals:  # code of the framework that the signal interrupted went on, whatever was raised
            sys.exit(128 + _signals[0])
        first = self.metrics["first_losses"]
        if self.deferred and len(first) >= FIRST_LOSSES:
            self.unread.append((loss, images))
            return
        self._read(loss, images)
        now = clock()
        if len(first) == 1 and self.images_done == images:
            self.seconds["first_step"] = now - self.epoch_started
        if now - self.last_line >= PROGRESS_INTERVAL and self.images_done < self.images:
            self.last_line = now
            self._print_progress(now - self.epoch_started)
            self._write_progress()

    def _read(self, loss, images):
        loss = float(loss)
        if not loss < DIVERGED:  # not a number either
            give_up(1, "the training diverged: the loss is %s; a lower --learning-rate may help" % loss)
        if len(self.metrics["first_losses"]) < FIRST_LOSSES:
            self.metrics["first_losses"].append(loss)
        self.loss_sum += loss * images
        self.images_done += images

    def evaluation_begins(self):
        """To be called after the last step of an epoch, before its test."""
        if self.synchronise:
            self.synchronise()
        self.evaluation_started = clock()
        self.foreign_cores = self.neighbours.foreign_cores()
        for loss, images in self.unread:
            self._read(loss, images)

    def epoch_ends(self, test_loss, test_accuracy):
        """Takes the mean loss and the share of right answers (0 to 1) on the test images; writes metrics.json."""
        seconds = self.evaluation_started - self.epoch_started
        self._print_progress(seconds, "  accuracy %.1f %%" % (100 * test_accuracy))
        self.metrics["epochs"].append(
            {
                "epoch": self._epoch(),
                "seconds": seconds,
                "evaluation_seconds": clock() - self.evaluation_started,
                "images_per_second": self.images / seconds,
                "training_loss": self.loss_sum / self.images,
                "test_loss": float(test_loss),
                "test_accuracy": float(test_accuracy),
                "foreign_cores": self.foreign_cores,
            }
        )
        self.metrics.pop("now", None)
        self.metrics["finished"] = len(self.metrics["epochs"]) == self.arguments.epochs
        self.loss_sum, self.images_done = 0.0, 0
        self._write()

    def _epoch(self):
        return len(self.metrics["epochs"]) + 1

    def _print_heading(self):
        metrics, dataset = self.metrics, self.metrics["dataset"]
        say(
            "%s of %s parameters, %s %s, threads: %s, processor: %s\ndata: %s, %s images to train on, %s to test on"
            % (
                self.workload.title,
                metrics["parameters"],
                metrics["framework"]["name"],
                metrics["framework"]["version"],
                metrics["threads"],
                metrics["processor"]["model"],
                dataset.get("label") or dataset.get("name"),
                metrics["training_images"],
                metrics["test_images"],
            )
        )

    def _print_progress(self, seconds, accuracy=""):
        part = "" if accuracy else "  %.0f %%" % (100 * self.images_done / self.images)
        loss, rate = self.loss_sum / self.images_done, self.images_done / seconds
        epochs = "%s/%s" % (self._epoch(), self.arguments.epochs)
        say("epoch %s%s  loss %.4f%s  %.1f s  %.0f images/s" % (epochs, part, loss, accuracy, seconds, rate))

    def _write_progress(self):
        """Lets others see how far a long epoch is; where that cannot be written, the training goes on."""
        share, loss = self.images_done / self.images, self.loss_sum / self.images_done
        self.metrics["now"] = {"epoch": self._epoch(), "share": share, "loss": loss}
        try:
            self._write()
        except (IOError, OSError):  # the disk is full, say; the end of the epoch says so where it still is
            self.metrics.pop("now")

    def _write(self):
        usage = resource.getrusage(resource.RUSAGE_SELF)
        self.metrics["seconds"] = dict(self.seconds, total=self._total())
        self.metrics["peak_memory_bytes"] = usage.ru_maxrss * 1024  # Linux counts in KiB
        write_atomically(str(self.arguments.metrics), json.dumps(self.metrics, indent=2, allow_nan=False) + "\n")

    def _total(self):
        return self._earlier + _elapsed()


def _elapsed():
    """Returns the seconds since this process started."""
    return clock() - _STARTED


def _terminated(number, _frame):
    _signals.append(number)
    # print() may be busy in the very code that the signal interrupted.
    os.write(2, b"stopped by SIGTERM; the metrics hold the epochs that ended\n")
    sys.exit(128 + number)
