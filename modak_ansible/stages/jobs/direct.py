"""How jobs are, asked over the connection itself: the code of the module modak_job, without a playbook around it.

Ansible takes a second to start, whatever is asked. Nothing is written on the target: what is sent is an archive of the
packages that run on targets, which Python there reads from memory. Their compiled form goes with them, for a target
whose Python is of the same version as this one: to compile them takes half a second.
"""

from __future__ import annotations

import importlib.util
import io
import json
import marshal
import shlex
import sys
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import modak_ansible
from modak_ansible.errors import ModakError
from modak_ansible.stages.base import Answer, module_error
from modak_ansible.target.jobs.asked import ANSWER
from modak_ansible.transport.ssh import Connection

_PACKAGE = Path(modak_ansible.__file__).parent
_NEEDED = ("errors.py", "schedulers/**/*.py", "target/**/*.py")
_MAIN = "from modak_ansible.target.jobs.asked import tell\ntell({})\n"
_HEADER = 16  # bytes: a magic number, flags, and time and size of the source, or its hash
_UNCHECKED = (1).to_bytes(4, "little") + bytes(8)  # of compiled code that stands for its source, whatever the times are
# Any login shell takes this for one word, so that there is no quote, dollar sign or line's end in it. What the two
# words behind it are is therefore not said in it: a folder of open files, and a mode.
_READER = (
    "import os,runpy,sys;"
    "number=os.memfd_create(str());"
    "archive=open(number,sys.argv[2],closefd=False);"
    "archive.write(sys.stdin.buffer.read());"
    "archive.flush();"
    "runpy.run_path(sys.argv[1]+str(number))"
)
# In the order in which Ansible looks for them.
_PYTHONS = (*(f"python3.{minor}" for minor in range(14, 7, -1)), "/usr/bin/python3", "python3")
_NO_PYTHON = 127


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
    done = connection.run(_command(connection), _archive(asked))
    lines = done.stdout.decode(errors="replace").splitlines()
    said = next((line for line in reversed(lines) if line.startswith(ANSWER)), "")
    if not said and done.returncode == _NO_PYTHON:
        raise ModakError("there is no Python 3 on the target", hint="the target needs Python 3.8 or later")
    answer: Answer = json.loads(said.removeprefix(ANSWER)) if said else {"failed": True, "module_stderr": done.stderr}
    if answer.get("failed"):
        raise module_error("modak_job", answer)
    return answer


def _command(connection: Connection) -> str:
    words = f'-c "{_READER}" /proc/self/fd/ wb'
    if connection.is_local:
        return f"exec {shlex.quote(sys.executable)} {words}"
    look = f"for each in {' '.join(_PYTHONS)}; do command -v $each > /dev/null 2>&1 && exec $each {words}; done"
    return f"exec /bin/sh -c {shlex.quote(f'{look}; exit {_NO_PYTHON}')}"


def _archive(asked: dict[str, str]) -> bytes:
    """A program for Python: what runs on targets, and a main module that asks."""
    made = io.BytesIO(_packages())
    with zipfile.ZipFile(made, "a", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("__main__.py", _MAIN.format(ascii(asked)))
    return made.getvalue()


@cache
def _packages() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr(f"{_PACKAGE.name}/__init__.py", "")
        for path in _sources():
            name = str(path.relative_to(_PACKAGE.parent))
            archive.write(path, name)
            archive.writestr(f"{name}c", importlib.util.MAGIC_NUMBER + _UNCHECKED + _compiled(path))
    return made.getvalue()


def _sources() -> Iterator[Path]:
    for pattern in _NEEDED:
        yield from sorted(_PACKAGE.glob(pattern))


def _compiled(path: Path) -> bytes:
    """As this Python keeps it beside the source, or compiled now."""
    known = path.stat()
    source = int(known.st_mtime).to_bytes(4, "little") + known.st_size.to_bytes(4, "little")
    current = importlib.util.MAGIC_NUMBER + bytes(4) + source
    try:
        kept = Path(importlib.util.cache_from_source(str(path))).read_bytes()
    except OSError:
        kept = b""
    if kept[:_HEADER] == current:
        return kept[_HEADER:]
    return marshal.dumps(compile(path.read_bytes(), str(path), "exec", dont_inherit=True))
