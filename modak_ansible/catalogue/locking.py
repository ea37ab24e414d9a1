"""Finds what pip may install for an entry: every package in one version, with the SHA-256 of its files."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from packaging.utils import canonicalize_name

from modak_ansible.errors import ModakError

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
# The C library of Debian 12, and what it is compatible with.
PLATFORMS = [f"manylinux_2_{minor}_x86_64" for minor in range(36, 4, -1)]
PLATFORMS += [f"manylinux{name}_x86_64" for name in ("2014", "2010", "1")]


@dataclass(frozen=True)
class LockRequest:
    """What is to be locked; ``python`` is the version that it must be locked for."""

    name: str
    requirements: tuple[str, ...]
    python: str
    index: str = ""


class File(NamedTuple):
    """What pip takes of a package."""

    name: str
    version: str
    sha256: str


class NotFound(ModakError):
    """The indexes have not got the packages, or these do not go together."""


def versions_of(package: str, python: str, index: str = "") -> list[str]:
    """The releases of a package that have wheels for a version of Python, the newest first; none where there are none.

    Raises:
        NotFound: no index answers.
    """
    command = [sys.executable, "-m", "pip", "index", "versions", package, *_for_target(python, index)]
    process = subprocess.run(command, check=False, capture_output=True, text=True)
    match = re.search(r"^Available versions: (.*)$", process.stdout, re.MULTILINE)
    if match:
        return [part.strip() for part in match[1].split(",")]
    if "No matching distribution" in process.stderr:
        return []
    raise NotFound(
        f"pip cannot ask for {package}: {_end_of(process.stderr)}", hint="try it: pip index versions " + package
    )


def resolved(
    request: LockRequest,
    constraints: Sequence[str] = (),
    say: Callable[[str], None] = print,
    preferred: Sequence[str] = (),
) -> dict[str, list[File]]:
    """What is to be installed, by the versions of Python for which there are wheels of the same releases.

    uv says which releases, for it reads the conditions of a requirement for another Python than its own, and pip
    which files. The indexes are those that both are configured for, and behind them the framework's own.

    Args:
        request: its own version of Python is asked for first.
        preferred: releases that are taken where they go with the rest.

    Raises:
        NotFound: not even for its own Python.
        ModakError: uv is not here.
    """
    files_by_python: dict[str, list[File]] = {}
    name, python = request.name, request.python
    for version in (python, *(candidate for candidate in PYTHONS if candidate != python)):
        try:
            files = _found(request.requirements, version, constraints, request.index, preferred)
        except NotFound:
            if version == python:
                raise
            files = []
        releases = dict(file[:2] for file in files_by_python.get(python, []))
        if not files or any(releases.get(file.name, file.version) != file.version for file in files):
            say(f"{name}: not for Python {version}")
            continue
        files_by_python[version] = files
        constraints = constraints or [f"{file.name}=={file.version}" for file in files]
    return files_by_python


def _found(
    requirements: Iterable[str], python: str, constraints: Iterable[str], index: str, preferred: Iterable[str]
) -> list[File]:
    try:
        return _resolved(requirements, python, constraints, "", preferred)
    except NotFound:
        if not index:
            raise
        return _resolved(requirements, python, constraints, index, preferred)


def _resolved(
    requirements: Iterable[str], python: str, constraints: Iterable[str], index: str, preferred: Iterable[str]
) -> list[File]:
    index_options = ["--extra-index-url", index] if index else []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # uv keeps to what is in the file that it writes where it can
        for file, words in (("asked.in", requirements), ("known.txt", constraints), ("pins.txt", preferred)):
            (folder / file).write_text("".join(f"{word}\n" for word in words))
        compiling: list[str | Path] = [
            _uv(),
            "pip",
            "compile",
            folder / "asked.in",
            "--constraint",
            folder / "known.txt",
        ]
        compiling += [
            *index_options,
            "--quiet",
            "--python-version",
            python,
            "--python-platform",
            "x86_64-manylinux_2_36",
        ]
        compiling += ["--only-binary", ":all:", "--output-file", folder / "pins.txt"]
        installing: list[str | Path] = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--no-deps"]
        installing += ["--ignore-installed", "--ignore-requires-python", "--target", folder]
        installing += [*_for_target(python, index), "--retries", "0"]
        installing += ["--report", folder / "report.json", "-r", folder / "pins.txt"]
        for command in (compiling, installing):
            process = subprocess.run(command, check=False, capture_output=True, text=True)
            if process.returncode != 0:
                raise NotFound(_end_of(process.stderr))
        return list(files_of(json.loads((folder / "report.json").read_text())))


def _for_target(python: str, index: str) -> list[str]:
    words = ["--only-binary", ":all:", "--python-version", python]
    words += [word for platform in PLATFORMS for word in ("--platform", platform)]
    return [*words, "--extra-index-url", index] if index else words


def _uv() -> str:
    """uv beside the Python that runs, in PATH, or where make lock puts it in a checkout.

    Raises:
        ModakError: it is not here.
    """
    own_folders = [Path(sys.executable).parent, Path(__file__).resolve().parents[2] / ".venv-tools" / "bin"]
    program = shutil.which("uv", path=os.pathsep.join([*map(str, own_folders), os.environ.get("PATH", "")]))
    if program is None:
        raise ModakError("uv, which finds versions that fit together, is not installed", hint="pip install uv")
    return program


def _end_of(output: str) -> str:
    """What uv or pip say in the end, in one line."""
    lines = [re.sub(r"^[^\w<>='\"./]+", "", line).strip() for line in output.splitlines()]
    messages = [line for line in lines if line and not line.startswith("WARNING")]
    return " ".join(messages)[-600:] or "it ended without a word"


def files_of(report: Mapping[str, Any]) -> Iterator[File]:
    """The files in a report of pip's, see https://pip.pypa.io/en/stable/reference/installation-report/."""
    for item in report["install"]:
        digest = item["download_info"]["archive_info"]["hashes"]["sha256"]
        yield File(canonicalize_name(item["metadata"]["name"]), item["metadata"]["version"], digest)


def text_of_lock(files_by_python: Mapping[str, Sequence[File]], writer: str) -> str:
    """A lock, by the versions of Python: what is the same for several Pythons stands there once."""
    pythons = " ".join(sorted(files_by_python, key=_order))
    return "".join(f"{line}\n" for line in (f"# written by {writer} for Python {pythons}", *_lines(files_by_python)))


def _lines(files_by_python: Mapping[str, Sequence[File]]) -> Iterator[str]:
    releases = sorted({(file.name, file.version) for files in files_by_python.values() for file in files})
    for name, version in releases:
        having = {
            python: file for python, files in files_by_python.items() for file in files if file[:2] == (name, version)
        }
        markers = (f'python_version == "{python}"' for python in sorted(having, key=_order))
        marker = "" if len(having) == len(files_by_python) else " ; " + " or ".join(markers)
        hashes = sorted({file.sha256 for file in having.values()})
        yield f"{name}=={version}{marker}" + "".join(f" --hash=sha256:{digest}" for digest in hashes)


def _order(python: str) -> tuple[int, ...]:
    return tuple(map(int, python.split(".")))
