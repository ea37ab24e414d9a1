"""What is kept of a deployment's logs: what its stages did and when, and how long its job's logs were at which moment.

Lines of a job's log carry no time of their own, so that each look at them is noted, by this machine's clock.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from modak_ansible.target.core.files import tail

STAGE_LOG = "stages.jsonl"
LOOKS = "looks.jsonl"
# What is kept of a text, in characters: a line is written whole, or not at all.
_TEXT = 2000
# Seconds between two looks that are worth noting.
_APART = 5.0


class LogEntry(NamedTuple):
    """a line of the stage log; the time is in seconds since the epoch."""

    time: float
    stage: str
    text: str


def note(folder: Path, stage: str, text: str) -> None:
    """Adds an entry to a deployment's stage log, unless it says the same as the last one."""
    path = folder / STAGE_LOG
    previous = next(iter(_entries(tail(path, 1))), None)
    text = text[:_TEXT]
    if previous is None or (previous.stage, previous.text) != (stage, text):
        _add(path, {"time": round(time.time(), 1), "stage": stage, "text": text})


def read_stage_log(folder: Path) -> list[LogEntry]:
    """The entries of a deployment's stage log, the oldest first; damaged lines are left out."""
    return list(_entries(_lines(folder / STAGE_LOG)))


def note_look(folder: Path, job_id: str, log: str, size: int) -> None:
    """Notes in a deployment's folder how long a log of its job is now, in bytes."""
    path = folder / LOOKS
    now = time.time()
    previous = next(iter(_looks(tail(path, 1))), None)
    if previous is None or previous[1:3] != (job_id, log) or now - previous[0] >= _APART:
        _add(path, {"time": round(now, 1), "job": job_id, "log": log, "size": size})


def size_before(folder: Path, job_id: str, log: str, moment: float) -> int:
    """How much of a log had surely been written by a moment, in bytes: what was seen at the last look before it.

    What was written since is behind that, and so may be what was written a little before.
    """
    sizes = (
        size
        for looked_at, job, name, size in _looks(_lines(folder / LOOKS))
        if (job, name) == (job_id, log) and looked_at <= moment
    )
    return max(sizes, default=0)


def _entries(lines: list[str]) -> Iterator[LogEntry]:
    for values in _parse_lines(lines):
        try:
            moment = float(values["time"])
            time.localtime(moment)  # which there is none of for some numbers
            yield LogEntry(moment, str(values["stage"]), str(values["text"]))
        except (ValueError, KeyError, TypeError, OverflowError, OSError):
            continue


def _looks(lines: list[str]) -> Iterator[tuple[float, str, str, int]]:
    for values in _parse_lines(lines):
        try:
            yield float(values["time"]), str(values["job"]), str(values["log"]), int(values["size"])
        except (ValueError, KeyError, TypeError):
            continue


def _parse_lines(lines: list[str]) -> Iterator[Any]:
    for line in lines:
        try:
            yield json.loads(line)
        except ValueError:
            continue


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _add(path: Path, values: dict[str, object]) -> None:
    """Adds a line at once, so that those of two commands do not mix."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(file, (json.dumps(values) + "\n").encode())
    finally:
        os.close(file)
