"""The user's own files that a blueprint names: the script and what travels with it, and local data."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from modak_ansible.model.application import SourceFile
from modak_ansible.model.dataset import DataFile
from modak_ansible.project import project_root, shipped

# Files of these kinds are never the training's own.
_LEFT_OUT_FOLDERS = ("__pycache__", "node_modules")
_LEFT_OUT_FILES = ("*.pyc", "*.sif", "*.egg-info")
_BLUEPRINT_FILES = ("service.yaml", "inputs*.yaml", "README.md", "types/*", "playbooks/*", "roles/*")

MAX_BYTES = 200 * 10**6


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's content, as 64 hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def code_files(folder: Path, patterns: list[str] | None, *, top: Path, is_blueprint: bool) -> list[SourceFile]:
    """The files that travel with a script.

    Hidden files, caches and links to folders are left out; in the blueprint's own folder also the blueprint.

    Args:
        folder: the script's folder.
        patterns: which files travel, relative to the folder; None for all.
        top: the folder of the blueprint that names the script.
        is_blueprint: whether what belongs to the blueprint lies there, too.

    Raises:
        ValueError: the files are larger than 200 MB together, which looks like a dataset; or a link leads to what
            nobody can have meant to send: a hidden file, or one outside of the project.
        OSError: a file cannot be read.
    """
    found: list[SourceFile] = []
    total = 0
    _check_folder(folder, top)
    for path in _walk(folder):
        relative = path.relative_to(folder).as_posix()
        if is_blueprint and any(fnmatch(relative, pattern) for pattern in _BLUEPRINT_FILES):
            continue
        if patterns is not None and not any(_matches(relative, pattern) for pattern in patterns):
            continue
        if path.is_symlink():
            _check_link(path, folder)
        size = path.stat().st_size
        total += size
        if total > MAX_BYTES:
            raise ValueError("the files beside the script are larger than 200 MB together")
        found.append(SourceFile(path=relative, size=size, sha256=sha256_of(path), executable=os.access(path, os.X_OK)))
    return sorted(found, key=lambda each: each.path)


def _check_folder(folder: Path, top: Path) -> None:
    """A link may take the place of a folder of scripts, and leads neither out of the project nor to anything hidden.

    What ships with this project may be linked from anywhere.
    """
    real, project = folder.resolve(), project_root(top)
    above = (top.resolve(), project, shipped("tosca").resolve().parent)
    inside = next((real.relative_to(each).parts for each in above if real.is_relative_to(each)), None)
    if inside is None:
        raise ValueError(f"{folder.name} is a link to {real}, outside of the project {project}: copy it")
    if hidden := [part for part in inside if part.startswith(".")]:
        raise ValueError(f"{folder.name} leads into the hidden {hidden[0]}")


def _check_link(path: Path, folder: Path) -> None:
    real = path.resolve()
    root = project_root(folder)
    if not real.is_relative_to(root):
        raise ValueError(f"{path.name} is a link to {real}, outside of the project {root}: copy it")
    if any(part.startswith(".") for part in real.relative_to(root).parts):
        raise ValueError(f"{path.name} is a link to the hidden {real}")


def data_files(folder: Path) -> list[DataFile]:
    """The IDX files of a folder, with their sizes and digests, by name.

    Raises:
        OSError: the folder or a file cannot be read.
    """
    paths = sorted(path for path in folder.iterdir() if path.is_file() and fnmatch(path.name, "*-idx*-ubyte*"))
    return [DataFile(name=path.name, size=path.stat().st_size, sha256=sha256_of(path)) for path in paths]


def _walk(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or any(fnmatch(path.name, pattern) for pattern in _LEFT_OUT_FILES):
            continue
        if path.is_dir():
            if not path.is_symlink() and path.name not in _LEFT_OUT_FOLDERS:
                yield from _walk(path)
        elif path.is_file():
            yield path


def _matches(relative: str, pattern: str) -> bool:
    """Whether a path fits a pattern; a folder's name stands for all below it, and ``**`` for any depth."""
    pattern = pattern.rstrip("/")
    return (
        fnmatch(relative, pattern)
        or relative.startswith(f"{pattern}/")
        or (pattern.startswith("**/") and fnmatch(relative, pattern[3:]))
    )
