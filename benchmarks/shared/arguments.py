"""The command line of every training: the standard options, and the switches that a script has.

It runs in the container of the training, which may be one of the paper's: Python 2.7 must read it too.
"""

from __future__ import absolute_import, division, print_function

import argparse
import math
import os
import sys

HELP = {
    "memory_format": "order in which images lie in memory",
    "compiler": "what compiles the network or the step",
    "precision": "number format of the computation",
    "matmul": "library that multiplies matrices",
    "input": "how a step gets its images",
    "step_loop": "what a step is made of",
}


def give_up(code, message):
    """Ends the script with one line instead of a traceback."""
    sys.stderr.write("error: %s\n" % message)
    sys.exit(code)


def refuse(option, value, reason):
    """Ends the script with exit code 2: a switch has a value that this framework or this machine has not got."""
    give_up(2, "--%s %s: %s" % (option.replace("_", "-"), value, reason))


class OneLineParser(argparse.ArgumentParser):
    """Says in one line what is wrong, without the usage."""

    def error(self, message):
        """Ends the script with exit code 2."""
        give_up(2, message)


def training_parser(description, switches, epochs=12, batch_size=128, learning_rate=1.0):
    """Returns the parser of a training, to which a workload may add options of its own.

    Args:
        description: what the script does.
        switches: the values of each switch by its option's name, with _ for -; the first is the default.
        epochs: the default, as are the others.
    """
    parser = OneLineParser(description=description)
    add = parser.add_argument
    add(
        "--data",
        metavar="DIR",
        default=os.environ.get("MODAK_DATASET"),
        help="folder with the data (default: the one that $MODAK_DATASET names)",
    )
    add("--epochs", metavar="N", type=number(int, 1), default=epochs, help="default: %(default)s")
    add(
        "--batch-size",
        metavar="N",
        type=number(int, 1),
        default=batch_size,
        help="images a step (default: %(default)s)",
    )
    add(
        "--images",
        "--limit",
        metavar="N",
        type=number(int, 1),
        help="train on the first N images only (default: all)",
    )
    add(
        "--seed",
        metavar="N",
        type=number(int, 0, 2**32 - 1),
        default=1,
        help="of the first weights, the order of the images and the dropout (default: %(default)s)",
    )
    add("--learning-rate", metavar="X", type=number(float, 0), default=learning_rate, help="default: %(default)s")
    add(
        "--dropout",
        metavar="X",
        type=number(float, 0, 1),
        default=1.0,
        help="factor on the network's dropout rates; 0 where runs are compared number by number (default: 1)",
    )
    add(
        "--metrics",
        metavar="FILE",
        default=os.environ.get("MODAK_METRICS", "metrics.json"),
        help="what was measured, written after every epoch (default: $MODAK_METRICS, or metrics.json)",
    )
    add(
        "--threads",
        metavar="N",
        type=number(int, 1),
        default=default_threads(),
        help="threads that compute (default: $OMP_NUM_THREADS, or the cores that the process may use; now %(default)s)",
    )
    add(
        "--check-gradients",
        action="store_true",
        help="compare the first step's gradients with the same computation in float64",
    )
    for name, values in sorted(switches.items()):
        add(
            "--" + name.replace("_", "-"),
            choices=values,
            default=values[0],
            help="%s (default: %%(default)s)" % HELP[name],
        )
    parser.set_defaults(switches=switches)
    return parser


def parse(parser, needs_data=True):
    """Reads the command line; in the answer, `switches` holds the value of each switch by its name."""
    arguments = parser.parse_args()
    arguments.switches = {name: getattr(arguments, name) for name in arguments.switches}
    if needs_data and not arguments.data:
        give_up(2, "no data: --data or the environment's MODAK_DATASET must name a folder")
    return arguments


def number(kind, lowest, highest=float("inf")):
    """Returns what converts an option's text to a number of a kind (int or float) between two bounds."""

    def convert(text):
        value = kind(text)
        if not lowest <= value <= highest or math.isinf(value):
            bound = "at least %s" % lowest if math.isinf(highest) else "from %s to %s" % (lowest, highest)
            raise argparse.ArgumentTypeError("%s is out of range: %s" % (text, bound))
        return value

    convert.__name__ = kind.__name__  # argparse names the kind in its messages
    return convert


def default_threads():
    """Returns the first number of $OMP_NUM_THREADS, or that of the cores that this process may use."""
    first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if first.isdigit() and int(first):
        return int(first)
    return usable_cores()


def usable_cores():
    """Returns the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    with open("/proc/self/status") as status:  # Python 2.7
        mask = next(line.split()[1] for line in status if line.startswith("Cpus_allowed:"))
    return bin(int(mask.replace(",", ""), 16)).count("1")
