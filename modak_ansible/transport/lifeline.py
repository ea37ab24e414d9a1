"""What a deployment has running here ends with the command that it works for."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from modak_ansible.target.core.files import Lock

# The environment variable with the process id of the modak command that a playbook works for.
OWNER = "MODAK_PID"
# That with the folder for what is kept in passing while it goes on.
PASSING = "MODAK_PASSING"
_PREFIX = "modak-run-"
_LOCK = ".lock"
_PR_SET_PDEATHSIG = 1  # prctl(2), Linux


def end_with_parent() -> None:
    """Has the kernel kill this process when its parent ends, however that ends; elsewhere than on Linux nothing."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        parent = os.getppid()
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def run_folder() -> Iterator[str]:
    """A folder for what a command keeps in passing. Those of commands that were killed are removed."""
    place = Path(tempfile.gettempdir())
    for stale_folder in place.glob(f"{_PREFIX}*"):
        with suppress(OSError):  # one that has just gone
            is_ours = stale_folder.lstat().st_uid == os.getuid()
            if is_ours and (stale_folder / _LOCK).exists() and not Lock(stale_folder / _LOCK).is_taken():
                shutil.rmtree(stale_folder, ignore_errors=True)
    unseen = Path(tempfile.mkdtemp(prefix=f".{_PREFIX}"))
    lock = Lock(unseen / _LOCK)
    lock.take(wait=False)
    folder = unseen.with_name(unseen.name[1:])  # the lock is held before anybody looks for it
    unseen.rename(folder)
    try:
        yield str(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        lock.release()


def passing_folder(prefix: str) -> tempfile.TemporaryDirectory[str]:
    """A temporary folder that is removed with the command that it serves, should that be killed."""
    return tempfile.TemporaryDirectory(prefix=prefix, dir=os.environ.get(PASSING) or None)


@contextmanager
def own_signals() -> Iterator[None]:
    """Puts back the handlers that are set within of the signals that end a command; ansible-runner keeps its own."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    is_main = threading.current_thread() is threading.main_thread()
    handlers = [(number, signal.getsignal(number) or signal.SIG_DFL) for number in numbers] if is_main else []
    try:
        yield
    finally:
        for number, handler in handlers:
            signal.signal(number, handler)


@contextmanager
def signals_as_interrupts() -> Iterator[None]:
    """A terminal that is closed and a polite kill end what goes on, as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with own_signals():
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, signal.default_int_handler)
        yield
