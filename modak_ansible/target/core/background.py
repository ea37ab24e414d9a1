"""Long work that outlives the connection that started it, and tells how far it is."""

from __future__ import annotations

import errno
import os
import re
import sys
import time
import traceback
from pathlib import Path
from typing import Any, Callable, Iterable, List, TypedDict, cast

from ...errors import ModakError, NotReached
from .files import Lock, lack_of_room, make_private, mend_of, read_json, tail, write_json

_TAIL = 100  # lines of the log among which one says what is being done
_FULL = OSError(errno.ENOSPC, "")
Work = Callable[["Activity"], None]
# Seconds before a new line of a log is news.
_NEWS_AFTER = 5.0


class Status(TypedDict, total=False):
    state: str  # none, running, done, failed or killed
    step: str  # what is being done
    line: str  # what the log says of that
    # message, hint: of one that failed
    message: str
    hint: str
    lacks: str  # the package of which there is no build that goes with the framework's
    is_unreached: bool  # whether it failed for an address that does not answer there
    told: List[str]  # what somebody should know of how it went
    seconds: float  # since it began, or that it took
    started: float  # in seconds since the epoch
    pid: int


class Activity:
    """One piece of work at a time under a name.

    Its lock is held as long as it lives, so a second start joins the first, and a killed one is known as such. Beside
    the lock lie a log and a status; both stay for people to read.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._status = folder / f"{name}.status.json"
        self._lock = Lock(folder / f"{name}.lock")
        self.log = folder / f"{name}.log"

    def is_alive(self) -> bool:
        return self._lock.is_taken()

    def start(self, work: Work) -> bool:
        """Starts the work in a process of its own; False when it is going on already.

        Raises:
            ModakError: there is no room even to note that it began.
        """
        make_private(self.log.parent)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            os.setsid()
            if os.fork() != 0:
                os._exit(0)
            self._live(work, writer)
        os.close(writer)
        os.waitpid(child, 0)
        started = os.read(reader, 1)
        os.close(reader)
        if not started and (lack := lack_of_room(self.log.parent)):
            raise ModakError(f"{lack} at {self.log.parent}", hint=mend_of(_FULL))
        return started == b"1"

    def note(self, step: str) -> None:
        """Tells what is being done now."""
        self._write(state="running", step=step)

    def tell(self, text: str) -> None:
        """Keeps a line that somebody should know, whenever they look."""
        print(text, flush=True)  # noqa: T201 - the log
        messages = (read_json(self._status) or {}).get("told", [])
        self._write(state="running", told=[*messages, text])

    def status(self) -> Status:
        status = cast("Status | None", read_json(self._status))
        if status is None:
            return {"state": "running" if self.is_alive() else "none"}
        if status["state"] == "running" and not self.is_alive():
            again = cast("Status", read_json(self._status) or status)  # it may have ended between the two looks
            status = again if again["state"] != "running" else {**again, **self._cut_short()}
        if status["state"] == "running":
            status["seconds"] = round(time.time() - status["started"], 1)
        status["line"] = doing(tail(self.log, _TAIL))
        return status

    def wait_for_news(self, field: str, seen: str, seconds: float) -> None:
        """Comes back at the end of the work, when it tells something new after five seconds, or when the time is over.

        Args:
            field: which value of the status is looked at, such as step.
            seen: what the caller knows of it.
        """
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            status = self.status()
            if status["state"] != "running" or (status.get(field) != seen and time.monotonic() - began > _NEWS_AFTER):
                return
            time.sleep(0.25)

    def _cut_short(self) -> Status:
        """What has become of work that was killed, or could not even note why it failed."""
        folder = self._status.parent
        if lack := lack_of_room(folder):
            return {"state": "failed", "message": f"{lack} at {folder}", "hint": mend_of(_FULL)}
        return {"state": "killed"}

    def _live(self, work: Work, started: int) -> None:
        """The life of the process; it never returns."""
        code = 1
        try:
            if not self._lock.take(wait=False):
                os.write(started, b"0")
                os._exit(0)
            self._began = time.time()
            self._write(state="running", step="beginning", told=[])
            self._redirect(started)
            code = self._work(work)
        finally:
            os._exit(code)

    def _work(self, work: Work) -> int:
        try:
            work(self)
        except ModakError as error:
            details = {"lacks": getattr(error, "lacks", ""), "is_unreached": isinstance(error, NotReached)}
            self._write(state="failed", message=error.message, hint=error.hint, **details)
        except Exception as error:  # noqa: BLE001 - whatever it was must reach the user, who waits elsewhere
            traceback.print_exc()
            self._write(state="failed", message=f"{type(error).__name__}: {error}", hint=f"see {self.log}")
        else:
            self._write(state="done")
            return 0
        return 1

    def _redirect(self, started: int) -> None:
        log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        devnull = os.open(os.devnull, os.O_RDONLY)
        for number, source in ((0, devnull), (1, log), (2, log)):
            os.dup2(source, number)
        os.write(started, b"1")
        os.close(started)
        sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
        sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)

    def _write(self, **values: Any) -> None:
        previous = read_json(self._status) or {}
        began = getattr(self, "_began", previous.get("started", time.time()))
        step = values.pop("step", previous.get("step", ""))
        status = {
            "started": began,
            "pid": os.getpid(),
            "step": step,
            "told": previous.get("told", []),
            "seconds": round(time.time() - began, 1),
            **values,
        }
        write_json(self._status, status)


_WARNING = re.compile(
    r"\b(warn(ing)?|deprecat\w*|notice|note|ignored|not found|might not|skipping)\b|^[WN]: ", re.IGNORECASE
)
# What tools put before their own steps; a shell that traces puts a + before each command.
_PREFIX = re.compile(r"^(?:INFO:\s+|I: |\++ )")
# Of apptainer's remarks those are steps that say what it does.
_STEP = re.compile(r"\w+ing\b|Build complete")
# Commands that are over at once.
_QUICK = re.compile(r"(?:cd|read|printf|echo|rm|mkdir|export|set|test|\[|for|true|cat|eval|return|:)(?: |$)")
_WORD = re.compile(r"[A-Za-z]{2}")
# A line of a program that a compiler shows, and a bar that grows.
_NO_STEP = re.compile(r"\d*\s*\||.*(?:[\u2500-\u259f#=]{3}|\beta\b)")


def doing(lines: Iterable[str]) -> str:
    """The last line that says what is being done, without what its tool puts before it; empty where none does."""
    return next((words for words in map(_words, reversed(list(lines))) if words), "")


def _words(line: str) -> str:
    text = line.strip()
    prefix = _PREFIX.match(text)
    words = text[prefix.end() :] if prefix else text
    if not _WORD.search(words) or _WARNING.search(text) or _NO_STEP.match(text):
        return ""
    if prefix and prefix[0].startswith("INFO") and not _STEP.match(words):
        return ""
    if prefix and prefix[0].startswith("+") and _QUICK.match(words):
        return ""
    return words
