"""What a job leaves behind, with checksums."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

from .files import sha256_of
from .job import LOGS
from .staging import SCRIPT


def list_results(deployment: Path, outputs: list[str]) -> list[dict[str, object]]:
    """The files to bring back: metrics, logs, the script, and what fits the declared patterns.

    Args:
        deployment: the deployment's folder on the target.
        outputs: patterns below the folder of the user's code.

    Returns:
        ``path`` below the deployment's folder, ``size`` in bytes and ``sha256``, by path.
    """
    found = [deployment / name for name in (*LOGS, "metrics.json", SCRIPT) if (deployment / name).is_file()]
    code = deployment / "code"
    for path in sorted(code.rglob("*")) if outputs else ():
        relative = path.relative_to(code).as_posix()
        inside = path.resolve().is_relative_to(code.resolve()) if hasattr(path, "is_relative_to") else True
        if path.is_file() and inside and any(_fits(relative, pattern) for pattern in outputs):
            found.append(path)
    return [
        {"path": path.relative_to(deployment).as_posix(), "size": path.stat().st_size, "sha256": sha256_of(path)}
        for path in found
    ]


def missing_outputs(deployment: Path, outputs: list[str]) -> list[str]:
    """The declared patterns that no file fits."""
    code = deployment / "code"
    names = [path.relative_to(code).as_posix() for path in code.rglob("*") if path.is_file()] if code.is_dir() else []
    return [pattern for pattern in outputs if not any(_fits(name, pattern) for name in names)]


def _fits(relative: str, pattern: str) -> bool:
    pattern = pattern.rstrip("/")
    return fnmatch(relative, pattern) or relative.startswith(f"{pattern}/")
