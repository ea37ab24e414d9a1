"""Files between controller and target, with rsync: resumable, over the connection that is open already."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from modak_ansible.errors import ModakError
from modak_ansible.target.core.files import lack_in, make_private
from modak_ansible.transport.retry import patiently
from modak_ansible.transport.ssh import Connection

Say = Callable[[str], None]

# Paths reach the target's rsync as they are (--protect-args): whether its shell reads them, too, changed with 3.2.4.
_OPTIONS = (
    "--partial", "--append-verify", "--times", "--copy-links", "--no-motd", "--info=progress2", "--outbuf=L",
    "--protect-args",
)  # fmt: skip

# rsync's exit code where a file went away meanwhile; who pulls looks at what arrived.
_VANISHED = 24
# What the target's shell says last where the folder there cannot be entered: of its exit code rsync may not know.
_NO_FOLDER = "modak: no folder to work in"
# Its exit codes where the connection broke: of its sockets and its protocol, after too long a silence, and ssh's own.
_BROKEN = (10, 12, 30, 35, 255)

# Shorter transfers are over before anybody wonders.
_QUIET_SECONDS = 2


def push(connection: Connection, files: Sequence[Path], folder: str, say: Say) -> None:
    """Brings files into a folder of the target; what is there of them already is not sent again.

    Raises:
        ModakError: rsync is missing, or the disk is full.
        TargetUnreachable: the connection broke, and stayed so.
    """
    arguments = [*_rsync_path(connection, folder, make=True), *map(str, files), _rsync_folder(connection, folder)]
    _rsync(connection, arguments, say, f"on the target, at {folder}")


def push_below(connection: Connection, root: Path, names: Sequence[str], folder: str, say: Say) -> None:
    """Brings files below a folder here into a folder of the target, keeping their relative paths.

    What is there of them already is neither sent again nor changed, whatever its date is.

    Raises:
        ModakError, TargetUnreachable: as :func:`push`.
    """
    options = ["--no-times", "--chmod=D700,F600", "--from0", "--files-from=-"]
    arguments = [*options, *_rsync_path(connection, folder, make=True), f"{root}/", _rsync_folder(connection, folder)]
    _rsync(connection, arguments, say, f"on the target, at {folder}", _file_list(names))


def pull(connection: Connection, folder: str, paths: Sequence[str], destination: Path, say: Say) -> None:
    """Fetches files below a folder of the target into a folder here, keeping their relative paths.

    Raises:
        ModakError, TargetUnreachable: as :func:`push`.
    """
    make_private(destination)
    options = ["--ignore-missing-args", "--from0", "--files-from=-"]
    arguments = [*options, *_rsync_path(connection, folder), _rsync_folder(connection, folder), f"{destination}/"]
    _rsync(connection, arguments, say, f"on this machine, at {destination}", _file_list(paths))


def _file_list(names: Sequence[str]) -> bytes:
    """Names for ``--files-from``, which takes one that begins with ``#`` or ``;`` for a comment."""
    return "\0".join(f"./{name}" for name in names).encode()


def _rsync_path(connection: Connection, folder: str, *, make: bool = False) -> list[str]:
    """Has the target's rsync work in a folder: in a path of it, ``[``, ``*`` and ``?`` would be a pattern.

    In words that sh, csh and fish have alike; a user's own cd may write, which rsync would take for its answer.
    """
    if connection.is_local:
        return []
    quoted = shlex.quote(folder)
    mkdir = f"mkdir -p {quoted} && " if make else ""
    return ["--rsync-path", f"{mkdir}cd {quoted} > /dev/null || exec sh -c 'echo {_NO_FOLDER} >&2; exit 73'; rsync"]


def _rsync_folder(connection: Connection, folder: str) -> str:
    """That folder as rsync takes it; it wants brackets around an address of IPv6."""
    address = connection.address
    host = f"[{address}]:" if ":" in address else f"{address}:"
    return f"{folder}/" if connection.is_local else f"{host}./"


def require_rsync() -> None:
    """
    Raises:
        ModakError: this machine has none.
    """
    if shutil.which("rsync") is None:
        raise _no_rsync()


def _no_rsync() -> ModakError:
    return ModakError("rsync is not installed on this machine", hint="install rsync")


class _Broken(Exception):
    """The connection broke on the way; the message is rsync's last word."""


def _rsync(connection: Connection, arguments: list[str], say: Say, place: str, file_list: bytes | None = None) -> None:
    """Runs rsync, which writes at some place."""
    patiently(lambda: _rsync_once(connection, arguments, say, place, file_list), _Broken, say)


def _rsync_once(connection: Connection, arguments: list[str], say: Say, place: str, file_list: bytes | None) -> None:
    shell = [] if connection.is_local else ["--rsh", shlex.join(connection.ssh_command())]
    # in a file, of which no length stops rsync while its progress is read
    with tempfile.TemporaryFile() as errors:
        code = _run(["rsync", *_OPTIONS, *shell, *arguments], errors, say, file_list)
        errors.seek(0)
        text = errors.read().decode(errors="replace")
    if code not in (0, _VANISHED):
        _raise_transfer_error(connection, code, text, place)


def _run(command: list[str], errors: IO[bytes], say: Say, file_list: bytes | None) -> int:
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE if file_list is not None else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
    except FileNotFoundError:
        raise _no_rsync() from None
    with process:
        try:
            if process.stdin and file_list is not None:
                with suppress(BrokenPipeError):  # rsync has ended, and says why
                    process.stdin.write(file_list)
                    process.stdin.close()
            _show_progress(process, say)
        except BaseException:  # such as Ctrl-C: nothing is brought for nobody
            process.kill()
            raise
    return process.returncode


def _show_progress(process: subprocess.Popen[bytes], say: Say) -> None:
    percent, began = 0, time.monotonic()
    for raw in process.stdout or ():
        line = raw.decode(errors="replace").replace("\r", "\n").strip().splitlines()
        progress = re.search(r"(\S+)\s+(\d+)%\s+(\S+/s)", line[-1]) if line else None
        if progress and int(progress.group(2)) >= percent + 20 and time.monotonic() - began > _QUIET_SECONDS:
            percent = int(progress.group(2))
            say(f"{percent} % transferred, {progress.group(3)}")


def _raise_transfer_error(connection: Connection, code: int, errors: str, place: str) -> None:
    is_remote = not connection.is_local
    if lack := lack_in(errors):
        hint = "make room there, and run the same command again: the transfer continues"
        raise ModakError(f"{lack} {place}", hint=hint)
    if "command not found" in errors.lower():  # with a capital where it is csh's
        raise ModakError("rsync is not on the target", hint="install rsync there")
    if "is your shell clean" in errors:
        hint = "let ~/.bashrc and the like write only where there is a terminal: [ -t 1 ] && echo ..."
        raise ModakError(
            "the shell on the target prints text of its own, which rsync mistakes for its answer", hint=hint
        )
    lines = [line for line in errors.splitlines() if line.strip()]
    if _NO_FOLDER in lines:
        reason = [place, *lines[: lines.index(_NO_FOLDER)]][-1]
        raise ModakError(f"the transfer did not start: {reason}", hint="check that folder on the target")
    message = next((line for line in lines if line.startswith("rsync:")), lines[-1] if lines else f"code {code}")
    if is_remote and (refusal := connection.refused(errors)):
        raise refusal
    if is_remote and code in _BROKEN:
        raise _Broken(message)
    raise ModakError(f"the transfer was interrupted: {message}", hint="deploy again: it continues where it stopped")
