"""The testbed's daemons, stopped and hung on purpose, and how far a deployment is when that happens."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from cluster import Testbed

_START = "/usr/local/libexec/testbed/start-daemon"
# Where each logs, what succeeds once it answers, and how it is started: as roles/testbed/vars/main/daemons.yml has it.
_DAEMONS = {
    "slurmctld": ("/var/log/slurm/slurmctld.log", "scontrol ping | grep UP", "slurmctld -D"),
    "slurmdbd": ("/var/log/slurm/slurmdbd.log", "sacctmgr --noheader show cluster | grep .", "slurmdbd -D"),
}


@contextmanager
def stopped(testbed: Testbed, name: str) -> Iterator[None]:
    """A daemon is not there; it has answered again behind the block."""
    log, question, command = _DAEMONS[name]
    testbed.root(
        f"pid=$(</run/testbed/{name}.pid); kill $pid; while kill -0 $pid 2> /dev/null; do sleep 0.1; done; true"
    )
    try:
        yield
    finally:
        testbed.root(f"{_START} {name} {log} '{question}' {command}")


@contextmanager
def hung(testbed: Testbed, name: str) -> Iterator[None]:
    """A daemon is there, takes connections and does not answer; it goes on behind the block."""
    testbed.root(f"kill -STOP $(</run/testbed/{name}.pid)")
    try:
        yield
    finally:
        testbed.root(f"kill -CONT $(</run/testbed/{name}.pid)")


def comes_to(process: subprocess.Popen[str], words: str) -> str:
    """What a deployment has said when it says something; fails where it ends before."""
    output = ""
    for line in process.stdout or ():
        output += line
        if words in line:
            return output
    raise AssertionError(f"it never said {words!r}:\n{output}")


def end_of(process: subprocess.Popen[str], seconds: float = 300) -> str:
    """What a deployment says from here to its end."""
    return process.communicate(timeout=seconds)[0]
