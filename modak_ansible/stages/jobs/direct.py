"""How jobs are, asked over the connection itself: the code of the module modak_job, without a playbook around it.

Ansible takes a second to start, whatever is asked. Nothing is written on the target: what is sent is an archive of the
packages that run on targets, which Python there reads from memory. Their compiled form goes with them, for to compile
them takes half a second: as this Python has it, or, where the target's is of another version, as that compiled it when
it was asked before. What a target compiled goes back to that target alone.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import io
import json
import marshal
import shlex
import sys
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

import modak_ansible
from modak_ansible.errors import ModakError
from modak_ansible.stages.base import Answer, module_error
from modak_ansible.store.cache import kept_text
from modak_ansible.target.jobs.asked import ANSWER, COMPILED, UNCHECKED
from modak_ansible.transport.ssh import Connection

_PACKAGE = Path(modak_ansible.__file__).parent
_NEEDED = ("errors.py", "schedulers/**/*.py", "target/**/*.py")
_MAIN = "from modak_ansible.target.jobs.asked import tell\ntell({asked!a}, {compiled_for!r})\n"
_HEADER = 16  # bytes: a magic number, flags, and time and size of the source, or its hash
_MAGIC = len(importlib.util.MAGIC_NUMBER)
_HEAD = importlib.util.MAGIC_NUMBER + UNCHECKED
# Any login shell takes this for one word, so that there is no quote, dollar sign or line's end in it: what would need
# quotes is behind it. A Python that was built with an old C library has no files in memory: one without a name serves.
_READER = (
    "import os,runpy,sys,tempfile;"
    "make=getattr(os,sys.argv[2],None);"
    "archive=open(make(str()),sys.argv[3]) if make else tempfile.TemporaryFile();"
    "archive.write(sys.stdin.buffer.read());"
    "archive.flush();"
    "runpy.run_path(sys.argv[1]+str(archive.fileno()))"
)
_WORDS = "/proc/self/fd/ memfd_create wb"
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
    done = connection.run(_command(connection), _archive(asked, connection.key))
    lines = done.stdout.decode(errors="replace").splitlines()
    said, compiled = (
        next((each for each in reversed(lines) if each.startswith(word)), "") for word in (ANSWER, COMPILED)
    )
    if compiled and connection.key:
        kept_text(_KIND, _made_from(connection.key), lambda: compiled.removeprefix(COMPILED), anew=True)
    if not said and done.returncode == _NO_PYTHON:
        raise ModakError("there is no Python 3 on the target", hint="the target needs Python 3.8 or later")
    answer: Answer = {"failed": True, "module_stderr": done.stderr.decode(errors="replace")}
    with suppress(ValueError):  # there is no answer, or half of one
        answer = json.loads(said.removeprefix(ANSWER))
    if answer.get("failed"):
        raise module_error("modak_job", answer)
    return answer


def _command(connection: Connection) -> str:
    words = f'-c "{_READER}" {_WORDS}'
    if connection.is_local:
        return f"exec {shlex.quote(sys.executable)} {words}"
    look = f"for each in {' '.join(_PYTHONS)}; do command -v $each > /dev/null 2>&1 && exec $each {words}; done"
    return f"exec /bin/sh -c {shlex.quote(f'{look}; exit {_NO_PYTHON}')}"


def prepare(connection: Connection) -> None:
    """Does beforehand what ``ask`` needs not to be done while others wait for this process."""
    _packages(connection.key)


def _archive(asked: Mapping[str, str], key: str) -> bytes:
    """A program for Python: what runs on targets, and a main module that asks.

    Args:
        key: of the connection to the target; empty for this machine.
    """
    packages, magic = _packages(key)
    made = io.BytesIO(packages)
    with zipfile.ZipFile(made, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("__main__.py", _MAIN.format(asked=asked, compiled_for=magic.hex()))
    return made.getvalue()


@cache
def _packages(key: str) -> tuple[bytes, bytes]:
    """What runs on targets, with its compiled form, and the number of the Python that compiled it."""
    theirs = _theirs(key)
    magic = next((each[:_MAGIC] for each in theirs.values()), importlib.util.MAGIC_NUMBER)
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr(f"{_PACKAGE.name}/__init__.py", "")
        for name, source in _sources().items():
            archive.writestr(name, source)
            compiled = theirs.get(f"{name}c", b"") if theirs else _HEAD + _ours(name, source)
            if compiled:
                archive.writestr(f"{name}c", compiled)
    return made.getvalue(), magic


@cache
def _sources() -> dict[str, bytes]:
    paths = (path for pattern in _NEEDED for path in sorted(_PACKAGE.glob(pattern)))
    return {str(path.relative_to(_PACKAGE.parent)): path.read_bytes() for path in paths}


def _made_from(key: str) -> str:
    sources = b"".join(b"%s\0%s\0" % (name.encode(), text) for name, text in _sources().items())
    return f"{key} {hashlib.sha256(sources).hexdigest()}"


def _ours(name: str, source: bytes) -> bytes:
    """The code of a file as this Python keeps it beside the source, or compiled now."""
    path = _PACKAGE.parent / name
    current = importlib.util.MAGIC_NUMBER + bytes(4)
    current += int(path.stat().st_mtime).to_bytes(4, "little") + len(source).to_bytes(4, "little")
    with suppress(OSError):
        kept = Path(importlib.util.cache_from_source(str(path))).read_bytes()
        if kept[:_HEADER] == current:
            return kept[_HEADER:]
    return marshal.dumps(compile(source, name, "exec", dont_inherit=True))


def _theirs(key: str) -> dict[str, bytes]:
    """The compiled files that a target's Python gave when it was asked before; none where it did not have to."""
    kept = kept_text(_KIND, _made_from(key), lambda: None) if key else None
    try:
        with zipfile.ZipFile(io.BytesIO(base64.b64decode(kept or ""))) as archive:
            return {name: archive.read(name) for name in archive.namelist()}
    except (ValueError, OSError, zipfile.BadZipFile):
        return {}
