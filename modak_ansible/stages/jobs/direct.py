"""How jobs are, asked over the connection itself: the code of the module modak_job, without a playbook around it.

Ansible takes a second to start, whatever is asked. What a target compiled of what it is sent goes back to that target
alone.
"""

from __future__ import annotations

import base64
import hashlib
import json
import marshal
import shlex
import sys
from functools import cache
from importlib.machinery import SourceFileLoader
from importlib.util import MAGIC_NUMBER

from modak_ansible.errors import ModakError
from modak_ansible.stages.base import Answer, module_error
from modak_ansible.store.cache import kept_text
from modak_ansible.target.core.sending import COMPILED, READER, WORD, Code, sent, sources_for, told
from modak_ansible.target.jobs.actions import queried
from modak_ansible.transport.ssh import Connection

# In the order in which Ansible looks for them.
_PYTHONS = (*(f"python3.{minor}" for minor in range(14, 7, -1)), "/usr/bin/python3", "python3")
_NO_PYTHON = 127
_KIND = "compiled"  # of what is kept


def ask(connection: Connection, workspace: str, scheduler: str, deployments: list[str], inside: str) -> Answer:
    """What the module modak_job answers to ``query``.

    Args:
        deployments: their names.
        inside: ``usage`` where those that run are measured, ``way`` or ``way=3`` where it is told how they are entered.

    Raises:
        TargetUnreachable: with the reason and what to do about it.
        ModakError: it cannot be told.
    """
    wanted = json.dumps([{"deployment": name} for name in deployments])
    asked = {"workspace": workspace, "scheduler": scheduler, "deployments": wanted, "inside": inside}
    done = connection.run(_command(connection), sent(queried, asked, _code(connection.key)))
    if (compiled := told(done.stdout, COMPILED)) and connection.key:
        kept_text(_KIND, _made_from(connection.key), lambda: json.dumps(compiled), anew=True)
    answer: Answer | None = told(done.stdout)
    if answer is None and done.returncode == _NO_PYTHON:
        raise ModakError("there is no Python 3 on the target", hint="the target needs Python 3.8 or later")
    if answer is None:
        answer = {"failed": True, "module_stderr": done.stderr.decode(errors="replace")}
    if answer.get("failed"):
        raise module_error("modak_job", answer)
    return answer


def prepare(connection: Connection) -> None:
    """Does beforehand what ``ask`` needs not to be done while others wait for this process."""
    _code(connection.key)


def _command(connection: Connection) -> str:
    words = f'-c "{READER}" {WORD}'
    if connection.is_local:
        return f"exec {shlex.quote(sys.executable)} {words}"
    look = f"for each in {' '.join(_PYTHONS)}; do command -v $each > /dev/null 2>&1 && exec $each {words}; done"
    return f"exec /bin/sh -c {shlex.quote(f'{look}; exit {_NO_PYTHON}')}"


@cache
def _code(key: str) -> Code:
    """What is sent, as the Python of a target compiled it when it was asked before, or else as this one has it.

    Args:
        key: of the connection to the target; empty for this machine.
    """
    kept = kept_text(_KIND, _made_from(key), lambda: None) if key else None
    return Code(**json.loads(kept)) if kept else Code(MAGIC_NUMBER.hex(), _ours())


def _made_from(key: str) -> str:
    return f"{key} {hashlib.sha256(json.dumps(sources_for(queried), sort_keys=True).encode()).hexdigest()}"


def _ours() -> dict[str, str]:
    """As this Python keeps it beside the sources; packages are empty there."""
    code = {
        name: SourceFileLoader(name, str(sys.modules[name].__file__)).get_code(name)
        if text
        else compile("", name, "exec")
        for name, text in sources_for(queried).items()
    }
    return {name: base64.b64encode(marshal.dumps(each)).decode() for name, each in code.items()}
