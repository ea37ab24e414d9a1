"""When how much of a job's logs was seen, by this machine's clock: lines of a log carry no time of their own."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from modak_ansible.target.core.files import tail

LOOKS = "looks.jsonl"
# Seconds between two looks that are worth noting.
_APART = 5.0


def note_look(folder: Path, job_id: str, log: str, size: int) -> None:
    """Notes in a deployment's folder how long a log of its job is now, in bytes."""
    path = folder / LOOKS
    now = time.time()
    last = next(iter(_looks(tail(path, 1))), None)
    if last and last[1:3] == (job_id, log) and now - last[0] < _APART:
        return
    line = json.dumps({"time": round(now, 1), "job": job_id, "log": log, "size": size}) + "\n"
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


def size_before(folder: Path, job_id: str, log: str, moment: float) -> int:
    """How much of a log had surely been written by a moment, in bytes: what was seen at the last look before it.

    What was written since is behind that, and so may be what was written a little before.
    """
    try:
        lines = (folder / LOOKS).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return 0
    seen = [size for at, job, name, size in _looks(lines) if (job, name) == (job_id, log) and at <= moment]
    return max(seen, default=0)


def _looks(lines: list[str]) -> list[tuple[float, str, str, int]]:
    """The looks in the file's lines; damaged ones are left out."""
    found = []
    for line in lines:
        try:
            values = json.loads(line)
            found.append((float(values["time"]), str(values["job"]), str(values["log"]), int(values["size"])))
        except (ValueError, KeyError, TypeError):
            continue
    return found
