"""What only looks at a target, done over the connection itself, without a playbook around it.

Ansible takes a second to start, whatever is asked.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from typing import Any

from modak_ansible.errors import ModakError
from modak_ansible.stages.base import Answer, module_error
from modak_ansible.target.core.sending import READER, WORD, answer_in, sent
from modak_ansible.transport.ssh import Connection

# In the order in which Ansible looks for them.
_PYTHONS = (*(f"python3.{minor}" for minor in range(14, 7, -1)), "/usr/bin/python3", "python3")
_NO_PYTHON = 127


def ask(connection: Connection, function: Callable[[Any], Any], asked: Any, *, seconds: float | None = None) -> Answer:
    """What a function of the target side answers there.

    Args:
        function: one that gives what ``answered`` does.
        asked: what it is called with; JSON can hold it.
        seconds: how long it may take; None for as long as the connection lasts.

    Raises:
        TargetUnreachable: with the reason and what to do about it.
        ModakError: the function fails there.
    """
    done = connection.run(_command(connection), sent(function, asked), seconds=seconds)
    answer: Answer | None = answer_in(done.stdout)
    if answer is None and done.returncode == _NO_PYTHON:
        raise ModakError("there is no Python 3 on the target", hint="the target needs Python 3.8 or later")
    if answer is None:
        answer = {"failed": True, "module_stderr": done.stderr.decode(errors="replace")}
    if answer.get("failed"):
        raise module_error(function.__module__, answer)
    return answer


def _command(connection: Connection) -> str:
    words = f'-c "{READER}" {WORD}'
    if connection.is_local:
        return f"exec {shlex.quote(sys.executable)} {words}"
    look = f"for each in {' '.join(_PYTHONS)}; do command -v $each > /dev/null 2>&1 && exec $each {words}; done"
    return f"exec /bin/sh -c {shlex.quote(f'{look}; exit {_NO_PYTHON}')}"
