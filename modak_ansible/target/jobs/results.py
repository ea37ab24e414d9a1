"""What a job leaves behind, with checksums."""

from __future__ import annotations

import os
from fnmatch import fnmatch
from pathlib import Path
from typing import TypedDict

from ..core.files import sha256_of
from ..core.staging import ATTEMPTS, RANKS, SCRIPT, WRITTEN


class ResultFile(TypedDict):
    """A file that is brought back: its path below the deployment's folder, and its size in bytes."""

    path: str
    size: int
    sha256: str


class Results(TypedDict, total=False):
    """What a job has left in its folder.

    Attributes:
        missing: the declared outputs that no file fits.
        unnamed: files that cannot be brought, for their names are no text.
    """

    folder: str
    files: list[ResultFile]
    missing: list[str]
    unnamed: list[str]


def results_of(deployment: Path, outputs: list[str]) -> Results:
    """What a job has left in its deployment's folder.

    Args:
        deployment: the folder on the target.
        outputs: patterns below the folder of the user's code.
    """
    return {
        "folder": str(deployment),
        "files": list_results(deployment, outputs),
        "missing": missing_outputs(deployment, outputs),
        "unnamed": unnamed_outputs(deployment, outputs),
    }


def list_results(deployment: Path, outputs: list[str]) -> list[ResultFile]:
    """What is brought back: metrics, logs, the script, what ranks and earlier attempts left, and declared outputs.

    Args:
        deployment: the deployment's folder on the target.
        outputs: patterns below the folder of the user's code.

    Returns:
        ``path`` below the deployment's folder, ``size`` in bytes and ``sha256``, by path. Files whose names are no text
        are left out; see :func:`unnamed_outputs`.
    """
    found = [path for path in _results(deployment, outputs) if _is_text(path.relative_to(deployment).as_posix())]
    return [
        {"path": path.relative_to(deployment).as_posix(), "size": path.stat().st_size, "sha256": sha256_of(path)}
        for path in found
    ]


def unnamed_outputs(deployment: Path, outputs: list[str]) -> list[str]:
    """The results whose names are not UTF-8, with escapes in their places: no JSON can tell them."""
    names = [path.relative_to(deployment).as_posix() for path in _results(deployment, outputs)]
    return [os.fsencode(name).decode("utf-8", "backslashreplace") for name in names if not _is_text(name)]


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _results(deployment: Path, outputs: list[str]) -> list[Path]:
    found = [deployment / name for name in (*WRITTEN, SCRIPT) if (deployment / name).is_file()]
    found += [path for name in (RANKS, ATTEMPTS) for path in sorted((deployment / name).rglob("*")) if path.is_file()]
    found += [path for relative, path in _written(deployment) if any(_fits(relative, output) for output in outputs)]
    return found


def missing_outputs(deployment: Path, outputs: list[str]) -> list[str]:
    """The declared patterns that no file fits."""
    names = [relative for relative, _ in _written(deployment)] if outputs else []
    return [pattern for pattern in outputs if not any(_fits(name, pattern) for name in names)]


def _written(deployment: Path) -> list[tuple[str, Path]]:
    """The files below the folder of the user's code, by their relative paths; links that lead out of it are none."""
    code = deployment / "code"
    top = code.resolve()
    files = [path for path in sorted(code.rglob("*")) if path.is_file() and top in path.resolve().parents]
    return [(path.relative_to(code).as_posix(), path) for path in files]


def _fits(relative: str, pattern: str) -> bool:
    pattern = pattern.rstrip("/")
    return fnmatch(relative, pattern) or relative.startswith(f"{pattern}/")
