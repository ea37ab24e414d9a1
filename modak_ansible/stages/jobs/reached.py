"""Deployments of one target that are reached over the connection itself, without a playbook around them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from modak_ansible.stages.base import Answer, CallModule, Stage, stages_of
from modak_ansible.stages.jobs.direct import RemoteFunction
from modak_ansible.transport.lifeline import signals_as_interrupts
from modak_ansible.transport.retry import patiently
from modak_ansible.transport.rsync import Say
from modak_ansible.transport.ssh import Connection


@contextmanager
def reached(files: Sequence[Path], function: Callable[[Any], Any], say: Say) -> Iterator[list[Stage]]:
    """The deployments of plans, for which a function of the target side does what a module does in a playbook.

    Args:
        files: the plans, which are on one target.
        function: one that answers as the module would.
        say: shows a line of progress.

    Raises:
        ModakError: one is no plan, or the target cannot be asked; patiently, once it has answered.
        KeyboardInterrupt: the user, or a signal, ended it.
    """
    with signals_as_interrupts(), ExitStack() as stack:
        yield stages_of(files, lambda connection: _caller(connection, function, say, stack), say)


class _Broken(Exception):
    """The connection broke on the way."""


def _caller(connection: Connection, function: Callable[[Any], Any], say: Say, stack: ExitStack) -> CallModule:
    """Has the function do what a module does, until ``stack`` is closed."""
    entered, remote = False, RemoteFunction(connection, function)
    stack.callback(remote.close)

    def call(_: str, **arguments: Any) -> Answer:
        nonlocal entered
        if not entered:
            connection.check()  # patience is for a target that answered before
            entered = True
        return patiently(lambda: remote.attempt(arguments, _Broken), _Broken, say)

    return call
