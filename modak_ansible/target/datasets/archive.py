"""Archives of data: looked through, and unpacked so that nothing of them can lie or lead outside of their folder.

What an archive says is trusted in nothing: names are checked before anything is written, links are made when all files
are there, as second names of files of the archive itself, and bytes are counted as they come out.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import shutil
import stat
import subprocess
import tarfile
import zipfile
import zlib
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, Callable, Iterator, NamedTuple, cast

from ...errors import ModakError
from ..core.files import link_or_copy
from .names import check_case, is_archive, name_problem

MOST_FILES = 10**7
# What unpacks to more than this is taken for a bomb, unless the user says how large the data is.
_FREE, _RATIO = 10**9, 200
_BLOCK = 1 << 20
_ENCRYPTED = 1  # among the flags of a zip's member
_WINDOWS = 0  # what made it
_DAMAGE = (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError, ValueError, NotImplementedError)
Open = Callable[[], IO[bytes]]


class Member(NamedTuple):
    """A file of an archive; of a link ``leads_to`` is the file, and there is nothing to open."""

    name: str
    size: int
    leads_to: str = ""


def limit_of(size: int, stated_size: int | None) -> int:
    """Bytes that an archive may unpack to: 200 times its own, and 1 GB; or what the user says that it holds."""
    return max(_FREE + _RATIO * size, stated_size or 0)


def members_of(path: Path, limit: int) -> list[Member]:
    """The files of an archive, which is looked through to its end; nothing is written.

    Args:
        limit: bytes that it may hold.

    Raises:
        ModakError: it is damaged, or holds what may not be unpacked.
    """
    members, total = [], 0
    for member, _ in _open_members(path):
        members.append(member)
        total += member.size
        _check_limits(path, total, len(members), limit)
    _check_members(path, members)
    return members


def unpack(path: Path, folder: Path, limit: int, note: Callable[[str], None] = lambda _: None) -> dict[str, int]:
    """Unpacks an archive into a folder, or a compressed file beside where it was.

    Args:
        limit: bytes that may come out of it.

    Returns:
        The files that came out, below the folder, with their bytes.

    Raises:
        ModakError: it is damaged, holds what may not be unpacked, or more than the limit; what came out until then is
            still there.
        OSError: such as a full disk.
    """
    room = _Room(path, limit, note)
    if not is_archive(path.name):
        name = path.name[: path.name.rindex(".")]
        with _report_damage(path), _decompress(path) as source:
            return {name: room.write(source, folder / name)}
    members = []
    for member, opener in _open_members(path):
        members.append(member)
        place = folder / member.name
        try:
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if member.leads_to:
                continue
            with _report_damage(path), opener() as source:
                room.write(source, place)
        except (FileExistsError, NotADirectoryError) as error:
            raise _name_conflict(path, member.name) from error
    _check_members(path, members)
    by_name = {member.name: member for member in members}
    ends = {name: _resolve_link(name, by_name) for name in by_name}
    for name, end in ends.items():
        if end != name:
            (folder / name).unlink(missing_ok=True)
            link_or_copy(folder / end, folder / name)
    return {name: by_name[end].size for name, end in ends.items()}


class _Room:
    """Counts what comes out of an archive, and writes it."""

    def __init__(self, path: Path, limit: int, note: Callable[[str], None]) -> None:
        self._path, self._limit, self._note = path, limit, note
        self._bytes = self._files = 0

    def write(self, source: IO[bytes], place: Path) -> int:
        """Gives the bytes of the file."""
        self._files += 1
        start = self._bytes
        if os.path.lexists(place) and not place.is_dir():
            check_case(place.parent, [place.name], self._path.name)
            place.unlink()  # what comes later in an archive replaces what came before
        file = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(file, "wb") as output:
            for block in iter(lambda: source.read(_BLOCK), b""):
                self._bytes += len(block)
                _check_limits(self._path, self._bytes, self._files, self._limit)
                output.write(block)
        if self._files % 500 == 1:
            self._note(f"unpacking {self._path.name}, {self._files} files, {self._bytes / 1e6:.0f} MB")
        return self._bytes - start


def _check_limits(path: Path, total: int, count: int, limit: int) -> None:
    if total > limit:
        raise ModakError(
            f"{path.name} unpacks to more than {limit / 1e6:.0f} MB, which looks like an archive made to fill disks",
            hint="if that is right, set size: of the dataset to its real size",
        )
    if count > MOST_FILES:
        raise ModakError(f"{path.name} holds more than {MOST_FILES:,} files", hint="unpack it yourself, or pack shards")


# --- what an archive holds


def _open_members(path: Path) -> Iterator[tuple[Member, Open]]:
    with _report_damage(path):
        if path.name.lower().endswith(".zip"):
            yield from _in_zip(path)
        else:
            yield from _in_tar(path)


@contextmanager
def _report_damage(path: Path) -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        raise ModakError(
            f"{path.name} is damaged, or is not what its name says: {_first_line(error)}",
            hint="make or fetch the archive again",
        ) from error
    except OSError as error:
        if error.errno is None:  # of gzip and bz2
            raise ModakError(f"{path.name} is damaged: {error}", hint="make or fetch the archive again") from error
        raise
    except RuntimeError as error:  # of zipfile
        raise ModakError(
            f"{path.name} cannot be unpacked: {error}", hint="archives with a password are not supported"
        ) from error


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0].rstrip(":")  # tarfile's goes on with what each of its ways to read said


def _in_tar(path: Path) -> Iterator[tuple[Member, Open]]:
    with _tar_of(path) as tar:
        for member in tar:
            if member.isdir():
                _safe_name(path, member.name)
            elif member.issym() or member.islnk():
                name = _safe_name(path, member.name)
                start = os.path.dirname(name) if member.issym() else ""
                yield Member(name, 0, _link_target(path, name, start, member.linkname)), _no_content
            elif member.isreg():
                yield Member(_safe_name(path, member.name), member.size), cast(Open, partial(tar.extractfile, member))
            else:
                raise ModakError(f"{path.name} holds {member.name}, a device or a pipe", hint="pack files only")


class _Strict(tarfile.TarInfo):
    """A header of a member; tarfile takes one that is cut or damaged for the end of its archive.

    An archive without the blocks of zeros at its end is whole, as it is for GNU tar.
    """

    @classmethod
    def fromtarfile(cls, tarfile_: tarfile.TarFile) -> _Strict:
        try:
            return super().fromtarfile(tarfile_)
        except (tarfile.InvalidHeaderError, tarfile.TruncatedHeaderError) as error:  # type: ignore[attr-defined]
            raise tarfile.ReadError(f"{error} at byte {tarfile_.offset}") from error


@contextmanager
def _tar_of(path: Path) -> Iterator[tarfile.TarFile]:
    if not path.name.lower().endswith("zst"):
        with tarfile.open(path, "r:*", tarinfo=_Strict) as tar:
            yield tar
            source: Any = tar.fileobj
            while source.read(_BLOCK):  # the padding behind the end, and the checksum that compressors have there
                pass
        return
    with _decompress(path) as source, tarfile.open(fileobj=source, mode="r|", tarinfo=_Strict) as tar:
        yield tar


def _in_zip(path: Path) -> Iterator[tuple[Member, Open]]:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            mode = member.external_attr >> 16
            raw_name = member.filename
            if member.create_system == _WINDOWS and "/" not in raw_name:  # some of its own programs write its separator
                raw_name = raw_name.replace("\\", "/").lstrip("/")
            name = _safe_name(path, raw_name)
            if raw_name.endswith("/"):
                continue
            if member.flag_bits & _ENCRYPTED:
                raise ModakError(
                    f"{path.name} holds {name}, which is encrypted", hint="unpack it yourself, and name the folder"
                )
            if stat.S_ISLNK(mode):
                target = os.fsdecode(archive.read(member)) if member.file_size < 4096 else "/"
                yield Member(name, 0, _link_target(path, name, os.path.dirname(name), target)), _no_content
            elif stat.S_IFMT(mode) in (0, stat.S_IFREG):
                yield Member(name, member.file_size), partial(archive.open, member)
            else:
                raise ModakError(f"{path.name} holds {name}, a device or a pipe", hint="pack files only")


def _no_content() -> IO[bytes]:
    raise ValueError("a link has nothing to open")


@contextmanager
def _decompress(path: Path) -> Iterator[IO[bytes]]:
    ending = path.name.lower().rsplit(".", 1)[-1]
    if ending not in ("zst", "tzst"):
        openers: dict[str, Callable[..., Any]] = {"gz": gzip.open, "bz2": bz2.open, "xz": lzma.open}
        with openers[ending](path, "rb") as source:
            yield source
        return
    if shutil.which("zstd") is None:
        raise ModakError(f"{path.name} needs zstd, which is not on {os.uname().nodename}", hint="install zstd there")
    with subprocess.Popen(
        ["zstd", "-dcq", "--", str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL
    ) as process:
        output: Any = process.stdout
        try:
            yield output
            while output.read(_BLOCK):  # the padding behind a tar's end
                pass
        except BaseException:
            process.kill()
            raise
        errors = process.stderr.read().decode(errors="replace") if process.stderr else ""
    if process.returncode:
        raise ModakError(f"{path.name} is damaged: {errors.strip()}", hint="make or fetch the archive again")


# --- what is trusted in nothing


def _safe_name(path: Path, name: str) -> str:
    """A member's name below the folder that it is unpacked into.

    Raises:
        ModakError: it leads elsewhere, or cannot be the name of a file of a dataset.
    """
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts:
        raise ModakError(
            f"{path.name} holds {name!a}, which leads out of its folder, and is not unpacked",
            hint="pack it again, with names below one folder",
        )
    problem = name_problem(name)
    if problem:
        raise ModakError(f"{path.name}: {problem}", hint="rename it, and pack it again")
    return "/".join(parts) or "."


def _link_target(path: Path, name: str, start: str, target: str) -> str:
    """The member that a link names."""
    destination = os.path.normpath(os.path.join(start, target))
    if target.startswith("/") or destination == ".." or destination.startswith("../"):
        raise ModakError(
            f"{path.name} holds {name}, a link to {target!a}, which leads out of its folder",
            hint="pack the file itself instead of the link: tar --dereference",
        )
    return destination


def _check_members(path: Path, members: list[Member]) -> None:
    by_name = {member.name: member for member in members}
    for member in members:
        parts = member.name.split("/")
        parents = ["/".join(parts[:number]) for number in range(1, len(parts))]
        conflict = next((name for name in parents if name in by_name), "." if member.name == "." else "")
        if conflict:
            raise _name_conflict(path, conflict)
        if member.leads_to and not _resolve_link(member.name, by_name):
            raise ModakError(
                f"{path.name} holds {member.name}, a link to {member.leads_to}, which it does not hold",
                hint="pack the file itself instead of the link: tar --dereference",
            )


def _name_conflict(path: Path, name: str) -> ModakError:
    return ModakError(f"{path.name} holds {name!a} as a file and as a folder", hint="pack it again")


def _resolve_link(name: str, by_name: dict[str, Member]) -> str:
    """The file at the end of a chain of links; empty where there is none."""
    for _ in range(len(by_name) + 1):
        member = by_name.get(name)
        if member is None or not member.leads_to:
            return name if member else ""
        name = member.leads_to
    return ""
