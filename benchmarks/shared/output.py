"""What every script here writes: lines for people, and files that are whole at any time.

It runs in the container of the script, which may be one of the paper's: Python 2.7 must read it too.
"""

from __future__ import absolute_import, division, print_function

import os
import sys


def say(line):
    """Prints a line at once, whatever the output is and in whatever Python."""
    sys.stdout.write(line if isinstance(line, str) else line.encode("utf-8"))
    sys.stdout.write("\n")
    sys.stdout.flush()


def write_atomically(path, text):
    """Replaces a file in one step, so that whoever reads it, even after a killed run, finds it whole."""
    unfinished = "%s.%s.tmp" % (path, os.getpid())
    try:
        with open(unfinished, "w") as file:
            file.write(text)
        os.rename(unfinished, path)
    finally:
        if os.path.exists(unfinished):
            os.unlink(unfinished)
