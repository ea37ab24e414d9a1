"""What the stages of a deployment did and when, a line each: modak logs DEPLOYMENT stage shows it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from modak_ansible.target.core.files import tail

STAGE_LOG = "stages.jsonl"
# What is kept of a text, in characters: a line is written whole, or not at all.
_TEXT = 2000


@dataclass(frozen=True)
class Entry:
    """a line of the log; the time is in seconds since the epoch."""

    time: float
    stage: str
    text: str


def note(folder: Path, stage: str, text: str) -> None:
    """Adds an entry to a deployment's stage log, unless it says the same as the last one."""
    path = folder / STAGE_LOG
    last = next(iter(_entries(tail(path, 1))), None)
    text = text[:_TEXT]
    if last and (last.stage, last.text) == (stage, text):
        return
    line = json.dumps({"time": round(time.time(), 1), "stage": stage, "text": text}) + "\n"
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(file, line.encode())  # at once, so that lines of two commands do not mix
    finally:
        os.close(file)


def read_stage_log(folder: Path) -> list[Entry]:
    """The entries of a deployment's stage log, the oldest first; damaged lines are left out."""
    try:
        lines = (folder / STAGE_LOG).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    return list(_entries(lines))


def _entries(lines: list[str]) -> Iterator[Entry]:
    for line in lines:
        try:
            values = json.loads(line)
            yield Entry(float(values["time"]), str(values["stage"]), str(values["text"]))
        except (ValueError, KeyError, TypeError):
            continue
