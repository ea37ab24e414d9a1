"""Modules as Ansible packs them for a target, kept from run to run: packing one takes a third to a whole second.

Ansible packs a module at its first call, looks for what it imports, and keeps the result only as long as it runs.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ansible import constants
from ansible.plugins.loader import module_loader
from ansible.release import __version__ as ansible_version

from modak_ansible.store.cache import cache_folder
from modak_ansible.store.project import COLLECTION
from modak_ansible.target.core.files import make_private, write_whole

# What nobody has used for so long belongs to another version.
_SECONDS = 14 * 86400.0
# A link is followed where a pattern names it.
_SOURCES = ("modules/*.py", "module_utils/*.py", "module_utils/schedulers/**/*.py", "module_utils/target/**/*.py")


@contextmanager
def packed_module(name: str) -> Iterator[None]:
    """Lays out a module as an earlier run packed it from the same sources, or keeps what this one packs.

    Where a disk is full or a folder is not the user's own, Ansible packs it as ever.
    """
    ansible_cache, own_cache = Path(constants.DEFAULT_LOCAL_TMP) / "ansiballz_cache", None
    with suppress(OSError):
        if not _files_of(ansible_cache, name):
            own_cache = _folder(name)
            ansible_cache.mkdir(mode=0o700, exist_ok=True)
            _lay_out(own_cache, ansible_cache, name)
    yield
    with suppress(OSError):
        if own_cache and not _files_of(own_cache, name):
            _keep(ansible_cache, own_cache, name)


def _files_of(folder: Path, name: str) -> list[Path]:
    """The files of a module, which Ansible names by what it is packed with, too."""
    return [path for path in folder.glob(f"*.{name}-*") if not path.name.endswith((".lock", "-part", ".part"))]


def _keep(ansible_cache: Path, own_cache: Path, name: str) -> None:
    for path in _files_of(ansible_cache, name):
        content = path.read_bytes()
        write_whole(own_cache / f"{_checksum(content)}_{path.name}", content)


def _lay_out(own_cache: Path, ansible_cache: Path, name: str) -> None:
    for path in _files_of(own_cache, name):
        checksum, _, packed_as = path.name.partition("_")
        content = path.read_bytes()
        if checksum == _checksum(content):
            write_whole(ansible_cache / packed_as, content)
        else:
            path.unlink()  # it was damaged


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _folder(name: str) -> Path:
    """Where they are kept: Ansible takes them for its own, so nobody else may write there.

    Raises:
        OSError: it cannot be made, or others may write there.
    """
    place = cache_folder() / "modules"
    folder = place / _digest(name)
    if not folder.is_dir():
        make_private(folder)
        for entry in place.iterdir():
            if time.time() - entry.stat().st_mtime > _SECONDS:
                shutil.rmtree(entry, ignore_errors=True)
    for path in (place, folder):
        stat_result = path.stat()
        if stat_result.st_uid != os.getuid() or stat_result.st_mode & 0o022:
            raise PermissionError(f"others may write in {path}")
    os.utime(folder)
    return folder


def _digest(name: str) -> str:
    """What a module is packed from: the collection's modules, what they import of ours, and Ansible's own.

    The collection is where Ansible finds it: opera brings a package's, which may be of another version.

    Raises:
        OSError: Ansible finds no such module.
    """
    digest = hashlib.sha256(f"{ansible_version} {sys.version}".encode())
    module = module_loader.find_plugin(f"{COLLECTION}.{name}")
    if module is None:
        raise FileNotFoundError(f"{COLLECTION}.{name}")
    plugins = Path(module).parents[1]
    for path in sorted(path for pattern in _SOURCES for path in plugins.glob(pattern)):
        digest.update(f"\0{path.relative_to(plugins)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:32]
