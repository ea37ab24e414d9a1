"""Measures a training, prints its progress and keeps metrics.json, whose format benchmarks/README.md describes.

It runs inside the container of the training, beside the scripts, and needs Python and numpy only.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import resource
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import numpy as np
from common import PARAMETERS, Data, give_up

SCHEMA = "modak.metrics/1"
WORKLOAD = "mnist_cnn"
PROGRESS_INTERVAL = 10  # seconds between the lines of a long epoch
FIRST_LOSSES = 5  # steps; after them rounding has made equal runs drift apart


class Recorder:
    """The measurements of one training. The script calls, in this order: timed, training_begins, and for each epoch
    epoch_begins, step_ends for each step, evaluation_begins, epoch_ends.
    """

    def __init__(self, arguments: argparse.Namespace, framework: str, versions: dict[str, str]) -> None:
        """To be made as soon as the framework is imported; `versions` names the framework's own package first."""
        self.arguments = arguments
        self.seconds = {"import": _elapsed(), "load_data": 0.0, "to_first_step": 0.0, "first_step": 0.0, "compile": 0.0}
        self.metrics: dict[str, Any] = {
            "schema": SCHEMA,
            "workload": WORKLOAD,
            "finished": False,
            "framework": {"name": framework, "version": next(iter(versions.values()))},
            "versions": {"python": platform.python_version(), "numpy": np.__version__, **versions},
            "hostname": socket.gethostname(),
            "processor": {"model": _processor_model(), "architecture": platform.machine()},
            "threads": arguments.threads,
            "batch_size": arguments.batch_size,
            "seed": arguments.seed,
            "learning_rate": arguments.learning_rate,
            "dropout": arguments.dropout,
            "epochs_requested": arguments.epochs,
            "epochs": [],
            "first_losses": [],
        }
        signal.signal(signal.SIGTERM, _terminated)

    @contextmanager
    def timed(self, part: str) -> Iterator[None]:
        """Adds the seconds spent inside to a part of `seconds`."""
        started = time.perf_counter()
        yield
        self.seconds[part] += time.perf_counter() - started

    def training_begins(self, data: Data, parameters: int) -> None:
        """Checks the number of trainable parameters and writes the first metrics.json, without epochs."""
        if parameters != PARAMETERS:
            give_up(1, f"the network has {parameters} trainable parameters where the paper's has {PARAMETERS}")
        self.images = len(data.train_images)
        self.metrics |= {
            "parameters": parameters,
            "dataset": data.dataset,
            "training_images": self.images,
            "test_images": len(data.test_images),
        }
        try:
            self._write()
        except OSError as error:
            give_up(2, f"{self.arguments.metrics}: the metrics cannot be written: {error.strerror}")
        self._print_heading()

    def epoch_begins(self) -> None:
        """To be called right before the first step of an epoch."""
        self.epoch_started = self.last_line = time.perf_counter()
        self.loss_sum, self.images_done = 0.0, 0
        if not self.metrics["epochs"]:
            self.seconds["to_first_step"] = _elapsed()

    def step_ends(self, loss: float, images: int) -> None:
        """Takes the mean loss of one batch of so many images."""
        if not math.isfinite(loss):
            give_up(1, f"the training diverged: the loss is {loss}; a lower --learning-rate may help")
        now = time.perf_counter()
        if not self.metrics["first_losses"]:
            self.seconds["first_step"] = now - self.epoch_started
        if len(self.metrics["first_losses"]) < FIRST_LOSSES:
            self.metrics["first_losses"].append(loss)
        self.loss_sum += loss * images
        self.images_done += images
        if now - self.last_line >= PROGRESS_INTERVAL and self.images_done < self.images:
            self.last_line = now
            self._print_progress(now - self.epoch_started)

    def evaluation_begins(self) -> None:
        """To be called after the last step of an epoch, before its test."""
        self.evaluation_started = time.perf_counter()

    def epoch_ends(self, test_loss: float, test_accuracy: float) -> None:
        """Takes the mean loss and the share of right answers (0 to 1) on the test images; writes metrics.json."""
        seconds = self.evaluation_started - self.epoch_started
        self._print_progress(seconds, f"  accuracy {100 * test_accuracy:.1f} %")
        self.metrics["epochs"].append(
            {
                "epoch": self._epoch(),
                "seconds": seconds,
                "evaluation_seconds": time.perf_counter() - self.evaluation_started,
                "images_per_second": self.images / seconds,
                "training_loss": self.loss_sum / self.images,
                "test_loss": test_loss,
                "test_accuracy": test_accuracy,
            }
        )
        self.metrics["finished"] = len(self.metrics["epochs"]) == self.arguments.epochs
        self._write()

    def _epoch(self) -> int:
        return len(self.metrics["epochs"]) + 1

    def _print_heading(self) -> None:
        metrics, dataset = self.metrics, self.metrics["dataset"]
        print(
            f"MNIST-CNN of {metrics['parameters']} parameters, {' '.join(metrics['framework'].values())},"
            f" threads: {metrics['threads']}, processor: {metrics['processor']['model']}\n"
            f"data: {dataset.get('label') or dataset.get('name')}, {metrics['training_images']} images to train on,"
            f" {metrics['test_images']} to test on",
            flush=True,
        )

    def _print_progress(self, seconds: float, accuracy: str = "") -> None:
        part = "" if accuracy else f"  {100 * self.images_done / self.images:.0f} %"
        print(
            f"epoch {self._epoch()}/{self.arguments.epochs}{part}"
            f"  loss {self.loss_sum / self.images_done:.4f}{accuracy}"
            f"  {seconds:.1f} s  {self.images_done / seconds:.0f} images/s",
            flush=True,
        )

    def _write(self) -> None:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        self.metrics["seconds"] = self.seconds | {"total": _elapsed()}
        self.metrics["peak_memory_bytes"] = usage.ru_maxrss * 1024  # Linux counts in KiB
        write_atomically(self.arguments.metrics, json.dumps(self.metrics, indent=2, allow_nan=False) + "\n")


def write_atomically(path: Path, text: str) -> None:
    """Replaces a file in one step, so that whoever reads it, even after a killed run, finds it whole."""
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _process_started() -> float:
    """Returns when this process started, on the clock of time.perf_counter.

    The kernel knows it (proc(5), /proc/pid/stat, field 22, in clock ticks since boot); where there is no /proc, the
    import of this module counts as the start.
    """
    now = time.perf_counter()
    try:
        fields = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return now
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return now - age


_STARTED = _process_started()


def _elapsed() -> float:
    """Returns the seconds since this process started."""
    return time.perf_counter() - _STARTED


def _processor_model() -> str:
    """Returns the processor's name as the kernel gives it, or the architecture's (ARM kernels give none)."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.machine())


def _terminated(number: int, _frame: FrameType | None) -> NoReturn:
    # print() may be busy in the very code that the signal interrupted.
    os.write(2, b"stopped by SIGTERM; the metrics hold the epochs that ended\n")
    sys.exit(128 + number)
