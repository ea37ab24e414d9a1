"""What a job, and whoever submits it, note of it in its deployment's folder: what is damaged there says nothing."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

from .files import NO_ROOM, changed_at, read_json, read_text, tail

# Of Slurm, Torque or a process. Whatever else stands where an id belongs is no word for a command line.
_JOB_ID = re.compile(r"\d[\w.\[\]-]{0,200}", re.ASCII)
_CODE = re.compile(r"-?\d{1,9}", re.ASCII)
_MEMORY = re.compile(r"exceeded (job )?memory limit|oom[-_ ]kill", re.IGNORECASE)
_TIME = re.compile(r"\d{1,12}", re.ASCII)


def submitted_job(state: Path) -> str:
    """The id of the job that was submitted, by the folder of its markers; empty before that."""
    return _job_id((read_json(state / "submitted.json") or {}).get("job_id", ""))


def claimed_by(state: Path) -> str:
    """The id of the job that has begun; empty before that."""
    return _job_id(read_text(state / "claim"))


def known_job(state: Path) -> str:
    """The id of the deployment's job: of two that were submitted the one that has claimed it; empty before that.

    The one that goes on for another is known before it has claimed anything.
    """
    submitted, claimed = submitted_job(state), claimed_by(state)
    is_another = submitted.partition(".")[0] != claimed.partition(".")[0]
    return claimed if claimed and is_another and not (state / "requeued").exists() else submitted or claimed


def noted_code(state: Path) -> int | None:
    """The exit code that the job has noted at its end; None before that."""
    text = read_text(state / "finished")
    return int(text) if _CODE.fullmatch(text) else None


def noted_start(state: Path) -> tuple[float | None, str]:
    """When the job began, in seconds since the epoch, and on which node; None and empty before that.

    The time is by the clock that dates files, as that of its end is; the node's own may be another.
    """
    words = read_text(state / "started").split()
    if len(words) < 3 or not _TIME.fullmatch(words[0]):
        return None, ""
    return changed_at(state / "started"), words[2]


def missed_for(state: Path) -> float:
    """For how many seconds the job has been missed; that it is now is noted where nobody missed it before."""
    path, now = state / "missed", time.time()
    is_noted = path.exists()
    if not is_noted:
        try:
            path.touch(mode=0o600)
        except OSError as error:
            if error.errno in NO_ROOM:  # nor has the job any, for a word that could come late
                return float("inf")
            raise
    if not is_noted or path.stat().st_mtime > now:
        os.utime(path, (now, now))  # by this clock: else the file system's server sets the date, by its own
    return max(0.0, now - path.stat().st_mtime)


def outgrew_memory(folder: Path) -> bool:
    """Whether a job that failed was killed for its memory: without cgroups, Slurm says so in its output only."""
    lines = [*tail(folder / "scheduler.log", 20), *tail(folder / "error.log", 20)]
    return any(_MEMORY.search(line) for line in lines)


def _job_id(value: object) -> str:
    text = str(value)
    return text if _JOB_ID.fullmatch(text) else ""
