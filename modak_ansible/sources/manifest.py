"""The files of this machine that are a dataset: found, checked, and read once for their digests.

Digests are kept in the user's cache with each file's stamp (size, inode and the moments of its last changes), so that a
file is read again only where it has changed.
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from modak_ansible.model.dataset import Contents, DataFile, DataSource
from modak_ansible.sources.base import SourceProblem
from modak_ansible.store.cache import cache_folder, keep_json
from modak_ansible.target.core.files import expanded, read_json, sha256_of
from modak_ansible.target.core.seal import stamp_of
from modak_ansible.target.datasets.listed import origin_of
from modak_ansible.target.datasets.names import name_problem

LISTED = 16  # files that a plan lists; of more it has their digest
_MAGIC = re.compile(r"[*?\[]")


def is_glob(text: str) -> bool:
    return _MAGIC.search(text) is not None


def files_below(root: Path, text: str) -> list[str]:
    """The files of a folder, links followed, relative to it and in order.

    Raises:
        SourceProblem: the folder holds nothing, what is no file, a link that leads nowhere or round, a name that cannot
            be told, or what cannot be read.
    """
    names = sorted(_walk(root, "", (), text))
    if not names:
        raise SourceProblem(f"there are no files in the folder {text}", "put the data into it")
    return names


def files_matching(folder: Path, text: str) -> tuple[Path, list[str]]:
    """The folder above a pattern's signs, and the files that it matches with those below folders that it matches.

    Args:
        folder: that the pattern is relative to; signs in its own name are none of the pattern's.

    Raises:
        SourceProblem: nothing matches, or as :func:`files_below`.
    """
    pattern = expanded(text)
    parts = pattern.parts
    first = next(number for number, part in enumerate(parts) if is_glob(part))
    root = folder.joinpath(*parts[:first])
    names: set[str] = set()
    for name in glob.iglob(str(Path(*parts[first:])), root_dir=root, recursive=True):  # noqa: PTH207 - of names
        path = root / name
        if path.is_dir() and "**" not in pattern.name:
            names.update(_walk(path, name, (), text))
        elif not path.is_dir():
            names.add(_checked(path, name, text))
    if not names:
        raise SourceProblem(f"nothing matches {text}", f"look at what is in {root.absolute()}", "file-not-found")
    return root, sorted(names)


def single_file(path: Path, text: str) -> list[str]:
    """The name of one file.

    Raises:
        SourceProblem: as :func:`files_below`.
    """
    if path.exists() and not path.is_file():
        raise SourceProblem(f"{text} is a device, a pipe or a socket", "name a file or a folder")
    return [_checked(path, path.name, text)]


def _walk(folder: Path, prefix: str, above: tuple[tuple[int, int], ...], text: str) -> Iterator[str]:
    try:
        status = folder.stat()
        with os.scandir(folder) as scan:
            entries = list(scan)
    except OSError as error:
        raise _unreadable(error, prefix or text) from error
    here = (status.st_dev, status.st_ino)
    if here in above:
        raise SourceProblem(f"{text}: {prefix} is a link that leads back to a folder it lies in", "remove that link")
    for entry in entries:
        name = f"{prefix}/{entry.name}" if prefix else entry.name
        # of a link the entry's own raises where links lead round in a circle
        if Path(entry).is_dir() if entry.is_symlink() else entry.is_dir():
            _check_name(name, text)
            yield from _walk(Path(entry.path), name, (*above, here), text)
        elif entry.is_file(follow_symlinks=False) and os.access(entry.path, os.R_OK):  # as most of very many
            _check_name(name, text)
            yield name
        else:
            yield _checked(Path(entry.path), name, text)


def _checked(path: Path, name: str, text: str) -> str:
    _check_name(name, text)
    try:
        is_file = path.is_file()
        if not is_file and not path.exists():
            raise SourceProblem(f"{text}: {name} is a link to {path.readlink()}, which is not there", "remove it")
    except OSError as error:
        raise _unreadable(error, name) from error
    if not is_file:
        raise SourceProblem(f"{text}: {name} is a device, a pipe or a socket", "remove it")
    if not os.access(path, os.R_OK):
        raise SourceProblem(f"{text}: {name} may not be read", "chmod u+r it, or leave it out", "file-unreadable")
    return name


def _check_name(name: str, text: str) -> None:
    if problem := name_problem(name):
        raise SourceProblem(f"{text}: {problem}", "rename it")


def _unreadable(error: OSError, name: str) -> SourceProblem:
    reason = "a link that leads back to itself" if error.errno == 40 else error.strerror
    return SourceProblem(f"{name} cannot be read: {reason}", rule="file-unreadable")


# --- what is in them


def files_of(root: Path, names: Sequence[str]) -> list[DataFile]:
    """The sizes and digests of files below a folder.

    Raises:
        OSError: one cannot be read.
    """
    place = cache_folder() / "digests" / f"{hashlib.sha256(os.fsencode(root.resolve())).hexdigest()[:32]}.json"
    cached = read_json(place) or {}
    entries: dict[str, list[str]] = {}
    files = []
    for name in names:
        path = root / name
        stamp = stamp_of(path)
        before = cached.get(name)
        digest = before[1] if isinstance(before, list) and before[0] == stamp else sha256_of(path)
        entries[name] = [stamp, digest]
        files.append(DataFile(name=name, size=int(stamp.partition(" ")[0]), sha256=digest))
    if any(cached.get(name) != entry for name, entry in entries.items()):
        keep_json(place, {**{name: entry for name, entry in cached.items() if (root / name).exists()}, **entries})
    return files


def contents_of(files: Sequence[DataFile]) -> Contents:
    """What stands for a list of files in a plan."""
    digest = hashlib.sha256()
    for file in sorted(files, key=lambda file: file.name):
        digest.update(f"{_identity(file)} {file.size} {file.name}\n".encode())
    return Contents(digest=digest.hexdigest(), files=len(files), size=sum(file.size or 0 for file in files))


def _identity(file: DataFile) -> str:
    return file.sha256 or origin_of(file.model_dump())


def change_of(source: DataSource, files: Sequence[DataFile]) -> str:
    """What of a source is no longer as it was planned."""
    before, now = ({file.name: _identity(file) for file in side} for side in (source.files, files))
    changed = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
    if not before or not changed:
        return f"{source.location} has changed since the plan was made"
    change = "is not there any more" if changed[0] not in now else "has changed since the plan was made"
    suffix = f", and {len(changed) - 1} more" if len(changed) > 1 else ""
    return f"{source.location}: {changed[0]} {change}{suffix}"
