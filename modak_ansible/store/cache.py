"""Where the user's machine keeps what can be made anew; it may be removed at any time."""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from modak_ansible.target.core.files import expanded, make_private, write_json, write_whole

UNPACKED: dict[str, str] = {}  # the archives of this process's folders below that of packages
_MOST = 500  # texts of a kind; a text that is kept when there are more takes the places of the oldest


def cache_folder() -> Path:
    """The project's folder below the one that the XDG base directory specification names."""
    return Path(os.environ.get("XDG_CACHE_HOME") or expanded("~/.cache")) / "modak"


def packages_folder() -> Path:
    """Where TOSCA's archives are unpacked."""
    return cache_folder() / "packages"


def as_given(text: str) -> str:
    """A text in which an unpacked archive stands as it was given, and not its folder in the cache."""
    for folder, path in UNPACKED.items():
        text = text.replace(folder, path)
    return text


def keep_json(path: Path, value: Mapping[str, object]) -> None:
    """Keeps what was found out below the folder, as far as anything can be kept there."""
    with suppress(OSError):
        make_private(path.parent)
        write_json(path, value)


def kept_text(kind: str, made_from: str, make: Callable[[], str | None]) -> str | None:
    """A text that takes long to make: as it was kept, where it was made from the same before, or made now, and kept.

    Where nothing can be kept, it is made each time. What another user may have put there is not taken.

    Args:
        kind: of the text; names the folder that it is kept in.
        made_from: all that it follows from, the version of what makes it included.
        make: makes it; what it gives as None is not kept.
    """
    path = cache_folder() / kind / hashlib.sha256(made_from.encode()).hexdigest()
    kept = _read(path)
    if kept is not None:
        return kept
    text = make()
    if text is not None and path.is_absolute():
        with suppress(OSError):
            make_private(path.parent)
            write_whole(path, _sealed(path.name, text), is_awaited=False)  # a part has not its digest
            _leave_newest(path.parent)
    return text


@cache
def version_of(module: str, distribution: str = "") -> str:
    """What is another when another version of a package is installed; its metadata, slow to read, stays unread.

    A process asks once: what it has imported stays as it is.

    Args:
        module: how it is imported; it is not imported here.
        distribution: the beginning of its .dist-info folder's name, where that is another.
    """
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError(f"{module} is not installed")
    folder = Path(spec.submodule_search_locations[0])
    start = f"{distribution or module}-"
    names = os.listdir(folder.parent)  # noqa: PTH208 - there are hundreds, and a Path of each takes a millisecond
    folders = sorted(name for name in names if name.lower().startswith(start))
    return f"{folder} {folder.stat().st_mtime_ns} {' '.join(folders)}"


def _sealed(name: str, text: str) -> str:
    return f"{hashlib.sha256(f'{name} {text}'.encode()).hexdigest()}\n{text}"


def _read(path: Path) -> str | None:
    """A text that is there, whole, in its own place, and the user's own."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            data = file.read() if os.fstat(file.fileno()).st_uid == os.geteuid() else ""
    except (OSError, ValueError):
        return None
    text = data.partition("\n")[2]
    return text if data == _sealed(path.name, text) else None


def _leave_newest(folder: Path) -> None:
    paths = [path for path in folder.iterdir() if not path.name.startswith(".")]
    for path in sorted(paths, key=lambda path: path.stat().st_mtime)[: max(0, len(paths) - _MOST)]:
        path.unlink(missing_ok=True)
