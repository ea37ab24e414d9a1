"""A job followed over the connection itself, without a playbook around it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from modak_ansible.errors import LoginRefused, TargetUnreachable
from modak_ansible.stages.base import Answer, CallModule, stages_of
from modak_ansible.stages.jobs.direct import Kept
from modak_ansible.stages.jobs.operations import follow_job
from modak_ansible.target.jobs.actions import acted
from modak_ansible.transport.lifeline import signals_as_interrupts
from modak_ansible.transport.retry import patiently
from modak_ansible.transport.rsync import Say
from modak_ansible.transport.ssh import Connection


def follow(plan_file: Path, log: str, offset: int, say: Say) -> None:
    """Shows what the job of a deployment writes into a log to its end; patiently, once its target has answered.

    Args:
        plan_file: of the deployment.
        offset: how many bytes of the log are left out.
        say: is given each line, and how the job is.

    Raises:
        ModakError: no job was submitted, or the target cannot be asked.
        KeyboardInterrupt: the user, or a signal, ended it.
    """
    with signals_as_interrupts(), ExitStack() as kept:
        (stage,) = stages_of([plan_file], lambda connection: _caller(connection, say, kept), say)
        follow_job(stage, log, offset)


class _Broken(Exception):
    """The connection broke on the way."""


def _caller(connection: Connection, say: Say, kept: ExitStack) -> CallModule:
    """Does what the module modak_job does, until ``kept`` is closed."""
    entered, there = False, Kept(connection, acted)
    kept.callback(there.close)

    def call(_: str, **arguments: Any) -> Answer:
        nonlocal entered

        def attempt() -> Answer:
            try:
                return there.ask(arguments)
            except TargetUnreachable as error:
                if entered and not isinstance(error, LoginRefused):
                    raise _Broken(error.message) from error
                raise

        answer = patiently(attempt, _Broken, say)
        entered = True
        return answer

    return call
