"""Which files of a training hold its numbers, by their names; what travelled with the script is none of them."""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath
from typing import Dict, Iterable, Iterator, List

from ..core.files import changed_at, is_text
from ..core.staging import ATTEMPTS, CODE, LOGGED, RANKS, SCRIPT
from . import texts

EVENTS = ".tfevents."
# A file of metrics above this many bytes is brought from the target only where it is asked for as an output.
LARGEST = 64 << 20
_ENTRIES, _DEEPEST, _MOST = 5000, 6, 200
_DIGITS = re.compile(r"\d+")


def kind_of(path: str) -> str:
    """Of what kind a file of metrics is, by its path: the name that has a reader; empty for any other file."""
    name = PurePosixPath(path).name
    return EVENTS if EVENTS in name else name if name in texts.READERS else ""


def found_in(deployment: Path) -> List[str]:
    """The files of metrics that the training of a deployment has written beside its code, the oldest first.

    Looks at 5,000 entries of folders, six deep, and follows no link. What lay there before the job's script did came
    with the user's code.
    """
    staged = changed_at(deployment / SCRIPT) or 0.0
    files = [(changed, path) for path, changed in _walk(deployment / CODE) if changed > staged]
    return [path.relative_to(deployment).as_posix() for _, path in sorted(files)[-_MOST:]]


def _walk(top: Path) -> Iterator["tuple[Path, float]"]:
    remaining, folders = _ENTRIES, [(top, 0)]
    while folders:
        folder, depth = folders.pop(0)
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    remaining -= 1
                    if remaining < 0:
                        return
                    if entry.is_dir(follow_symlinks=False):
                        if depth < _DEEPEST:
                            folders.append((Path(entry.path), depth + 1))
                    elif kind_of(entry.name) and is_text(entry.name) and entry.is_file(follow_symlinks=False):
                        yield Path(entry.path), entry.stat(follow_symlinks=False).st_mtime
        except OSError:  # it went away, or is nobody's to read
            continue


def in_order(paths: Iterable[str]) -> Dict[str, List[str]]:
    """Files of metrics by what each goes on from: attempts, versions of Lightning's and dated runs one after another.

    The key is the folder without those parts; of Hugging Face's states only the newest, which has all before it. What
    an earlier attempt logged counts once the present one has logged, too; what ranks but the first wrote never does.
    """
    groups: Dict[str, List[str]] = {}
    metric_paths = {path for path in paths if kind_of(path) and not path.startswith(f"{RANKS}/")}
    current_paths = [
        path
        for path in metric_paths
        if not path.startswith(f"{ATTEMPTS}/") or (_is_logged(path) and LOGGED in metric_paths)
    ]
    for path in sorted(current_paths, key=_order):
        groups.setdefault(f"{_folder(path)}|{kind_of(path)}", []).append(path)
    for key, group in groups.items():
        if key.endswith("|trainer_state.json"):
            groups[key] = group[-1:]
    return groups


def _is_logged(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return len(parts) == 3 and parts[-1] == LOGGED


def label_of(key: str) -> str:
    """The last part of a key's folder, which tells one of several from the others."""
    return PurePosixPath(key.rpartition("|")[0]).name


def _order(path: str) -> "tuple[bool, list[object]]":
    """Attempts before the present one, and numbers in names by their size."""
    parts = [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", path) if part]
    return not path.startswith(f"{ATTEMPTS}/"), [*parts]


def _folder(path: str) -> str:
    """The folder of a file without what numbers or dates a run of it: ``runs/Nov23_1``, ``version_0``."""
    parts = list(PurePosixPath(path).parent.parts)
    if parts[:1] == [ATTEMPTS]:
        parts = parts[2:]
    return "/".join(part for part in parts if not (_DIGITS.search(part) and part != CODE))
