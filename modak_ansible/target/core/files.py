"""Files that are whole or absent, and locks that end with their owner."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Iterator

_BLOCK = 1 << 18
_ATTEMPTS = 1000
# What there may be none left of, by the errors that say so; and the words for them in what programs print.
NO_ROOM = {errno.ENOSPC: "the disk is full", errno.EDQUOT: "the quota is used up"}
# Where it is not bytes that are lacking: most file systems count files, too.
_NO_INODES = "the disk has no inodes left for more files (df -i)"
_NO_ROOM_OR_INODES = "the disk is full, or has no inodes left for more files (df -h, df -i)"
_MAKES = re.compile(r"\b(mkstemp|mkdir|open|mknod|symlink|cannot create|failed to create)\b", re.IGNORECASE)
_SAID = {number: re.compile(re.escape(os.strerror(number)), re.IGNORECASE) for number in NO_ROOM}
# Colours, moves of the cursor and titles (ECMA-48's CSI and OSC), and the sets of letters that tput chooses.
_CONTROLS = r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][0-9AB])"
_NO_LOCKS = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL)
_LOCAL = Path("/tmp")  # noqa: S108 - what lies there is the user's alone, or it is not taken


def expanded(text: str) -> Path:
    """A path with a home folder in place of ``~`` or ``~name``; as it is where nobody has that name."""
    return Path(os.path.expanduser(text))


def real_path(path: Path) -> Path:
    """Where a path leads; links in a circle are left as they are, which Path.resolve refuses."""
    return Path(os.path.realpath(path))


def exists(path: Path) -> bool:
    """Whether something is there; not where its name is too long or no name, or a folder above may not be entered, at
    which pathlib's own methods raise."""
    return os.path.exists(path)


def is_file(path: Path) -> bool:
    """As :func:`exists`, of a file."""
    return os.path.isfile(path)


def is_folder(path: Path) -> bool:
    """As :func:`exists`, of a folder."""
    return os.path.isdir(path)


def write_whole(path: Path, content: str | bytes, *, is_awaited: bool = True) -> None:
    """Writes a file so that after a crash it is the old one or the new one, never a part.

    Args:
        is_awaited: whether it is on the disk at the end; otherwise it may be a part after the machine itself crashed.

    Raises:
        OSError: with the file's own name; what was there before is still there.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    data = content.encode() if isinstance(content, str) else content
    try:
        with open_private(part) as file:
            file.write(data)
            if is_awaited:
                file.flush()
                os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        with suppress(OSError):
            part.unlink()
        raise OSError(error.errno, error.strerror, str(path)) from error


def open_private(path: Path, flags: int = os.O_TRUNC) -> BinaryIO:
    """Opens a file for writing that nobody else may read when it is made here, whatever the umask."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | flags, 0o600), "wb")


def make_private(folder: Path) -> None:
    """Makes a folder, and those above it that are missing, so that nobody else may enter them, whatever the umask.

    Raises:
        OSError: it cannot be made.
    """
    for parent in reversed([folder, *folder.parents]):
        if not parent.is_dir():
            parent.mkdir(mode=0o700, exist_ok=True)


def write_json(path: Path, value: Any) -> None:
    write_whole(path, json.dumps(value, indent=2, sort_keys=True) + "\n")


def read_json(path: Path) -> dict[str, Any] | None:
    """The mapping in a JSON file; None when the file is missing or damaged.

    NaN and Infinity, which JSON has not, are null.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"), parse_constant=lambda _: None)
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def changed_at(path: Path) -> float | None:
    """When a file was last written, in seconds since the epoch; None where it is not there."""
    try:
        return path.stat().st_mtime
    except OSError:
        return None


def clock_of(folder: Path) -> float:
    """Now, by the clock that dates the files of a folder, which is its server's; else by this machine's."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            return os.fstat(file.fileno()).st_mtime
    except OSError:
        return time.time()


def read_text(path: Path) -> str:
    """A file's text without surrounding space; empty when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def is_text(name: str) -> bool:
    """Whether a file's name is UTF-8, as JSON can tell it."""
    return os.fsencode(name).decode("utf-8", "ignore") == name


def files_below(folder: Path) -> Iterator[Path]:
    """The files of a folder and those below it, in order; what goes away meanwhile is passed over."""
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            yield Path(parent) / name


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's content, as 64 hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def free_bytes(path: Path) -> int:
    """Bytes that the user may still write below a folder, or below the nearest one that is there."""
    return shutil.disk_usage(nearest_folder(path)).free


def nearest_folder(path: Path) -> Path:
    """A path, or of what is above it the nearest that is there."""
    while not os.path.exists(path):  # pathlib's raises where a folder above may not be entered
        path = path.parent
    return path


def link_or_copy(path: Path, place: Path) -> None:
    """Gives a file a second name, or makes a copy where the file system has no such names, or not across folders."""
    try:
        os.link(path, place)
    except OSError as error:
        if error.errno in (*NO_ROOM, errno.EEXIST):
            raise
        shutil.copyfile(path, place)


def lack_of_room(folder: Path) -> str:
    """Why the user can write nothing more into a folder, such as "the disk is full"; empty where there is room.

    It is tried: a quota shows itself in no other way everywhere.
    """
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".room-") as file:
            file.write(bytes(8192))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return lack_of(error, folder)
    return ""


def lack_of(error: OSError, folder: Path) -> str:
    """What there is none left of in a folder, by the error of writing there; empty where it is another one."""
    if error.errno == errno.ENOSPC:
        with suppress(OSError):
            counted = os.statvfs(folder)
            if counted.f_files and not counted.f_favail:
                return _NO_INODES
    return NO_ROOM.get(error.errno or 0, "")


def lack_in(text: str) -> str:
    """The same, by what a program has printed of its errors."""
    for number, sign in _SAID.items():
        if errors := [line for line in text.splitlines() if sign.search(line)]:
            is_open = number == errno.ENOSPC and all(map(_MAKES.search, errors))
            return _NO_ROOM_OR_INODES if is_open else NO_ROOM[number]
    return ""


def mend_of(error: OSError) -> str:
    if error.errno in NO_ROOM:
        return "make room there, and run the same command again"
    if error.errno == errno.EISDIR:
        return "there is a folder where modak keeps a file: move it away, and run the same command again"
    if error.errno == errno.ENOENT:
        return "it was removed meanwhile; modak deploy makes what is missing again"
    return "check it there"


def without_controls(text: str) -> str:
    """A text for a terminal without its escape sequences."""
    return re.sub(_CONTROLS, "", text)


def as_shown(text: str) -> list[str]:
    """The lines of a text as a terminal has them: of what a carriage return writes over, only the last is left."""
    lines = text.split("\n")
    return [line.rstrip().rsplit("\r", 1)[-1] for line in (lines if lines[-1] else lines[:-1])]


def tail(path: Path, lines: int) -> list[str]:
    """The last lines of a file, without escape sequences; empty when it cannot be read."""
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - 65536))
            text = without_controls(file.read().decode("utf-8", errors="replace"))
    except OSError:
        return []
    last_lines = [line.rstrip() for line in text.replace("\r", "\n").splitlines() if line.strip()]
    return last_lines[-lines:]


def read_on(path: Path, offset: int, *, to_end: bool) -> tuple[str, int]:
    """What a growing file holds behind an offset in bytes, at most 256 KiB of it, and the offset behind that.

    Args:
        path: the file; one that is not there yet is empty.
        to_end: whether the file grows no more, so that words without a line's end count too.
    """
    try:
        with path.open("rb") as file:
            file.seek(offset)
            data = file.read(_BLOCK)
    except OSError:
        return "", offset
    end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
    if len(data) == _BLOCK:
        end = end or len(data)
    elif to_end:
        end = len(data)
    return data[:end].decode("utf-8", errors="replace"), offset + end


class Lock:
    """A lock on a file that the kernel releases when its owner ends, however it ends.

    On a file system without locks, such as a Lustre that is mounted so, only processes of this machine are kept out, by
    a file of its own. What a lock guards is renamed into place whole: the price is work done twice, never a broken
    result.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None

    def take(self, *, wait: bool) -> bool:
        """Takes the lock, or tells that somebody else has it."""
        make_private(self._path.parent)
        path = self._path
        for _ in range(_ATTEMPTS):
            file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                os.close(file)
                return False
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    os.close(file)
                    raise
                local = _of_this_machine(self._path)
                if local and path != local:
                    os.close(file)
                    path = local
                    continue
            if _is_at(path, file):
                break
            os.close(file)  # whoever had it removed it: a lock on what is gone guards nothing
        else:
            raise BlockingIOError(errno.EAGAIN, "this lock comes and goes", str(self._path))
        os.set_inheritable(file, True)  # a command that was started under the lock keeps it to its end
        self._file = file
        return True

    def release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def remove(self) -> None:
        """Removes the file of a lock that was taken, and releases it; whoever waits for it makes a new one."""
        with suppress(OSError):
            self._path.unlink()
        self.release()

    def is_taken(self) -> bool:
        """Whether somebody else has the lock now."""
        if not self._path.exists():
            return False
        if self.take(wait=False):
            self.release()
            return False
        return True

    def __enter__(self) -> Lock:
        self.take(wait=True)
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def _is_at(path: Path, file: int) -> bool:
    """Whether an open file is the one that lies at a path."""
    try:
        at_path = path.stat()
    except OSError:
        return False
    opened = os.fstat(file)
    return (at_path.st_dev, at_path.st_ino) == (opened.st_dev, opened.st_ino)


def _of_this_machine(path: Path) -> Path | None:
    """A file in place of a lock, on this machine's own disk; None where nobody but the user can be kept out there."""
    folder = _LOCAL / f"modak-locks-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        stat_result = folder.lstat()
    except OSError:
        return None
    is_private = (
        stat.S_ISDIR(stat_result.st_mode) and stat_result.st_uid == os.getuid() and not stat_result.st_mode & 0o077
    )
    return folder / hashlib.sha256(str(path.resolve()).encode()).hexdigest() if is_private else None
