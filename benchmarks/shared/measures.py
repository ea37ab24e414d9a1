"""Keeps what an infrastructure benchmark measured, in the form that benchmarks/infrastructure.md describes.

It runs in the container of the script, which may be one of the paper's: Python 2.7 must read it too, without numpy.
"""

from __future__ import absolute_import, division, print_function

import json
import os
import platform
import signal
import socket
import sys

import machine
from arguments import OneLineParser, default_threads, give_up, number
from output import say, write_atomically

SCHEMA = "modak.measures/1"
UNITS = {
    "sgemm": "GFLOP/s",
    "convolution": "GFLOP/s",
    "triad": "GB/s",
    "copy": "GB/s",
    "write": "MB/s",
    "read": "MB/s",
    "small_files_write": "files/s",
    "small_files_read": "files/s",
    "dataset_pack": "s",
    "dataset_list": "s",
    "dataset_read": "files/s",
    "dataset_copy": "s",
    "latency": "s",
    "bandwidth": "GB/s",
    "allreduce": "s",
    "step": "s",
    "processor": "s",
    "waited": "s",
    "collective": "s",
    "launch": "s",
    "container_start": "s",
    "process_start": "s",
    "python_start": "s",
    "import": "s",
}


def measuring_parser(description, samples):
    """Returns the parser of an infrastructure benchmark, to which a workload adds options of its own.

    Args:
        description: what the script measures.
        samples: how often by default.
    """
    parser = OneLineParser(description=description)
    parser.add_argument(
        "--samples",
        metavar="N",
        type=number(int, 1),
        default=samples,
        help="measurements of each quantity, after one that does not count (default: %(default)s)",
    )
    parser.add_argument(
        "--metrics",
        metavar="FILE",
        default=os.environ.get("MODAK_METRICS", "metrics.json"),
        help="what was measured (default: $MODAK_METRICS, or metrics.json)",
    )
    parser.add_argument(
        "--threads",
        metavar="N",
        type=number(int, 1),
        default=default_threads(),
        help="threads that compute (default: $OMP_NUM_THREADS, or the cores that the process may use; now %(default)s)",
    )
    return parser


class Measures(object):
    """The measurements of one run; written after each of them, so that a killed run leaves those that ended."""

    def __init__(self, workload, arguments, versions=()):
        """To be made before the first measurement; ends the script when the file cannot be written.

        Args:
            workload: the name of its folder.
            arguments: parsed by a measuring_parser.
            versions: pairs of package and version.
        """
        signal.signal(signal.SIGTERM, _terminated)
        signal.signal(signal.SIGINT, _terminated)
        self.path = str(arguments.metrics)
        self.neighbours, self.started, self.companions = machine.Neighbours(), machine.clock(), 0.0
        self.content = {
            "schema": SCHEMA,
            "workload": workload,
            "finished": False,
            "hostname": socket.gethostname(),
            "processor": {"model": machine.processor_model(), "architecture": platform.machine()},
            "threads": arguments.threads,
            "versions": dict((("python", platform.python_version()),) + tuple(versions)),
            "measures": [],
            "load_average": machine.load_average(),
            "foreign_cores": None,
        }
        try:
            self._write()
        except (IOError, OSError) as error:
            give_up(2, "%s: the metrics cannot be written: %s" % (self.path, error.strerror))
        launch = machine.launch_seconds()
        if launch is not None:
            self.add("launch", [launch], container=int("SINGULARITY_NAME" in os.environ))

    def add(self, name, samples, **about):
        """Takes a quantity of UNITS with its samples, and what tells it from others of that name."""
        measure = {"name": name, "unit": UNITS[name], "samples": [float("%.6g" % each) for each in samples]}
        self.content["measures"].append(dict(measure, about=about))
        self._write()
        words = ", ".join("%s %s" % item for item in sorted(about.items()))
        say("%-18s %10.4g %-8s %s" % (name, median(samples), UNITS[name], words))

    def belong(self, seconds):
        """Takes the processor seconds of other processes of this measurement on this machine: they are not foreign."""
        self.companions = seconds

    def finish(self):
        """To be called after the last measurement."""
        self.content["finished"] = True
        self._write()

    def _write(self):
        foreign = self.neighbours.foreign_cores()
        if foreign is not None:
            foreign = round(max(0.0, foreign - self.companions / (machine.clock() - self.started)), 3)
        self.content["foreign_cores"] = foreign
        write_atomically(self.path, json.dumps(self.content, indent=2, sort_keys=True, allow_nan=False) + "\n")


def timed(function, samples, repeats=1):
    """Returns the seconds of a call in each sample, a mean of so many calls, after one call that does not count."""
    function()
    seconds = []
    for _ in range(samples):
        started = machine.clock()
        for _ in range(repeats):
            function()
        seconds.append((machine.clock() - started) / repeats)
    return seconds


def median(values):
    """Returns the middle value, or the mean of the two in the middle."""
    ordered, half = sorted(values), len(values) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def _terminated(number, _frame):
    # As an exception, so that what a script has put somewhere is taken away again.
    os.write(2, b"stopped by a signal; the metrics hold what was measured until then\n")
    sys.exit(128 + number)
