"""The user's own files that a blueprint names: the script and what travels with it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path
from types import MappingProxyType

from modak_ansible.model.application import SourceFile
from modak_ansible.store.project import COPIED, project_root, shipped
from modak_ansible.target.core.files import is_text, real_path, sha256_of

# Files of these kinds are never the training's own.
_LEFT_OUT_FOLDERS = ("__pycache__", "node_modules")
_LEFT_OUT_FILES = ("*.pyc", "*.sif", "*.egg-info")
# Hidden files that do travel: empty ones that scripts find their project's folder by (rootutils, pyprojroot), and those
# that say what lies in a store of zarr.
_MARKERS = (".project-root", ".here", ".zarray", ".zgroup", ".zattrs", ".zmetadata")
# What only an environment of packages has in it, whatever it is called: it is of this machine.
_OF_ENVIRONMENT = ("pyvenv.cfg", "conda-meta")
# What is said of runs is written beside the script, even while one is being planned; it travels where it is named.
_LOGS = ("*.log", "nohup.out", "slurm-*.out")
_BLUEPRINT_FILES = ("service.yaml", "inputs*.yaml", "README.md")
_BLUEPRINT_FOLDERS = ("types", "playbooks", "roles")

MAX_BYTES = 200 * 10**6
MAX_FILES = 50_000


def code_files(
    folder: Path,
    patterns: list[str] | None,
    *,
    top: Path,
    is_blueprint: bool,
    data: Mapping[Path, bool] = MappingProxyType({}),
) -> list[SourceFile]:
    """The files that travel with a script; what links lead to travels as if it lay there.

    Hidden files, caches and environments of packages are left out, and logs beside the script and copies of results
    unless a pattern names them; in the blueprint's own folder also the blueprint.

    Args:
        patterns: which files travel, relative to the folder; None for all.
        top: the folder of the blueprint that names the script.
        data: what datasets bring, by its real path, and whether the script finds it in the same place; it does not
            travel, too, unless a pattern names it, or it is code that the script may import from there.

    Raises:
        ValueError: the files are larger than 200 MB together, or more than 50,000, which looks like a dataset; or a
            link leads nowhere, in a circle, or to what nobody can have meant to send: what is hidden, or outside of
            the project; or a name is not in UTF-8, in which plans are written.
        OSError: a file cannot be read.
    """
    files: list[SourceFile] = []
    total = 0
    for relative, path in _Walk(folder, patterns, top, data, is_blueprint=is_blueprint).files():
        if not is_text(relative):
            raise ValueError(f"the name {relative!a} is not in UTF-8: rename it")
        size = path.stat().st_size
        total += size
        if total > MAX_BYTES:
            raise ValueError("the files beside the script are larger than 200 MB together")
        if len(files) == MAX_FILES:
            raise ValueError(f"there are more than {MAX_FILES:,} files beside the script")
        files.append(SourceFile(path=relative, size=size, sha256=sha256_of(path), executable=os.access(path, os.X_OK)))
    return sorted(files, key=lambda source_file: source_file.path)


class _Walk:
    """Looks through the folder of a script, and through those that links lead to; see :func:`code_files`.

    What ships with this project may be linked from anywhere.
    """

    def __init__(
        self, folder: Path, patterns: list[str] | None, top: Path, data: Mapping[Path, bool], *, is_blueprint: bool
    ) -> None:
        self._folder = folder
        self._patterns = patterns
        self._data = data if patterns is None else {}
        # a package is unpacked below a hidden folder, and what it holds is not hidden in it
        self._roots = (project_root(top), real_path(top), shipped("tosca").resolve().parent)
        self._own_files = (*(_BLUEPRINT_FILES if is_blueprint else ()), *(_LOGS if patterns is None else ()))
        self._own_folders = _BLUEPRINT_FOLDERS if is_blueprint else ()
        self._left_out_with = (*_OF_ENVIRONMENT, *((COPIED,) if patterns is None else ()))

    def files(self) -> Iterator[tuple[str, Path]]:
        """Their paths below the script's folder, and where they are."""
        real = real_path(self._folder)
        self._check(self._folder.name, real)
        yield from self._below(self._folder, (real,))

    def _below(self, folder: Path, above: tuple[Path, ...], *, of_data: bool = False) -> Iterator[tuple[str, Path]]:
        """The files of a folder that travel; ``above`` are the folders that it was reached through and itself, by
        where they really are, and of data only code does."""
        # looked at where it really is: the kernel follows forty links at most, and at times fewer
        for path in sorted(above[-1].iterdir()):
            relative = (folder / path.name).relative_to(self._folder).as_posix()
            if is_hidden(path.name) or any(fnmatch(path.name, pattern) for pattern in _LEFT_OUT_FILES):
                continue
            lies_there = self._data.get(real_path(path)) if self._data else None
            if lies_there:
                continue
            is_data = of_data or lies_there is not None
            if path.is_dir():
                is_left_out = path.name in _LEFT_OUT_FOLDERS or relative in self._own_folders
                if not is_left_out and not any((path / name).exists() for name in self._left_out_with):
                    yield from self._in_folder(folder / path.name, relative, above, of_data=is_data)
            elif is_data and path.suffix != ".py":
                continue
            elif self._is_named(relative) and not any(fnmatch(relative, file) for file in self._own_files):
                if path.is_symlink():
                    self._check(relative, real_path(path))
                if path.is_file():
                    yield relative, path

    def _in_folder(
        self, path: Path, relative: str, above: tuple[Path, ...], *, of_data: bool
    ) -> Iterator[tuple[str, Path]]:
        link = above[-1] / path.name
        real = real_path(link) if link.is_symlink() else link
        try:
            if link.is_symlink():
                self._check(relative, real)
            if any(path.is_relative_to(real) for path in above):
                raise ValueError(f"{relative} is a link to {real}, in which it lies itself: remove it")
        except ValueError:
            if self._is_named(relative) or any(pattern.startswith(f"{relative}/") for pattern in self._patterns or ()):
                raise
        else:
            yield from self._below(path, (*above, real), of_data=of_data)

    def _is_named(self, relative: str) -> bool:
        return self._patterns is None or any(is_of_pattern(relative, pattern) for pattern in self._patterns)

    def _check(self, name: str, real: Path) -> None:
        """
        Raises:
            ValueError: a link leads to what cannot travel.
        """
        if not real.exists():
            raise ValueError(f"{name} is a link to {real}, which is not there: mend it, or remove it")
        inside = [real.relative_to(root).parts for root in self._roots if real.is_relative_to(root)]
        if not inside:
            raise ValueError(f"{name} is a link to {real}, outside of the project {self._roots[0]}: copy it")
        if hidden := [part for part in min(inside, key=len) if part.startswith(".")]:
            raise ValueError(f"{name} is a link to {real}, in the hidden {hidden[0]}")


def is_hidden(name: str) -> bool:
    """Whether a file does not travel, by a name that begins with a dot."""
    return name.startswith(".") and name not in _MARKERS


def travels(path: Path, *, is_of_blueprint: bool) -> bool:
    """Whether something that lies in a script's folder travels where it is named, or a file of a folder does.

    Args:
        is_of_blueprint: whether it lies in the blueprint's own folder, and not in one below.
    """
    if not path.is_dir():
        left_out = (*_LEFT_OUT_FILES, *(_BLUEPRINT_FILES if is_of_blueprint else ()))
        return not (is_hidden(path.name) or any(fnmatch(path.name, pattern) for pattern in left_out))
    for parent, folders, names in os.walk(path):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in _LEFT_OUT_FOLDERS]
        links = (name for name in folders if Path(parent, name).is_symlink())  # to folders, which are not looked into
        if any(links) or any(travels(Path(parent, name), is_of_blueprint=False) for name in names):
            return True
    return False


def is_of_pattern(relative: str, pattern: str) -> bool:
    """Whether a path fits a pattern; a folder's name stands for all below it, and ``**`` for any depth."""
    pattern = pattern.rstrip("/")
    return (
        fnmatch(relative, pattern)
        or relative.startswith(f"{pattern}/")
        or fnmatch(relative, f"{pattern}/*")
        or (pattern.startswith("**/") and fnmatch(relative, pattern[3:]))
    )
