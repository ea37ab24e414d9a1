"""What a job, and whoever submits it, note of it in its deployment's folder: what is damaged there says nothing."""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator

from ...schedulers.base import JobState
from ...schedulers.lsf.records import reason_of
from ..core.files import NO_ROOM, changed_at, read_json, read_text, tail
from ..core.staging import LOGS, STATE
from .progress import PROGRESS

# Of Slurm, Torque or a process. Whatever else stands where an id belongs is no word for a command line.
_JOB_ID = re.compile(r"\d[\w.\[\]-]{0,200}", re.ASCII)
_CODE = re.compile(r"-?\d{1,9}", re.ASCII)
_MEMORY = re.compile(r"exceeded (job )?memory limit|oom[-_ ]kill", re.IGNORECASE)
_KILLED = re.compile(r"=>> PBS: job killed: (.+)")
# "cput 12 exceeded limit 10", "pvmem exceeded limit 10", "mem job total 12 kb exceeded limit 10 kb"
_LIMIT = re.compile(r"(\w+)(?: job total)?(?: (\d+)\w*)?(?: \w+)? exceeded limit", re.ASCII)
_SISTER = re.compile(r"node \d+ \(.*\) requested job (terminate|die)", re.ASCII)
# A job's number, and the task's of one of an array.
_NUMBER = re.compile(r"(\d+)(?:\[(\d*)\])?", re.ASCII)
_CANCELLED = re.compile(r"\*\*\* JOB \S+ ON \S+ CANCELLED AT \S+ DUE TO (TIME LIMIT|NODE FAILURE|PREEMPTION)")
_REPORTED = re.compile(r"TERM_[A-Z_]+: (.+?)\.?$")
_CAUSES = {
    "TIME LIMIT": (JobState.TIMEOUT, "it reached its wall time"),
    "NODE FAILURE": (JobState.NODE_FAIL, "its node failed"),
    "PREEMPTION": (JobState.PREEMPTED, "it was preempted for another job"),
}
# The last lines of an output in which a scheduler's word is looked for: the job's own may follow it.
_LINES = 1000
# What happened to a job that was ended for a limit.
LIMITS = {
    "walltime": "it reached its wall time",
    "cput": "it used up its cpu time",
    "deadline": "its deadline passed",
    "mem": "it used more memory than it was given",
}
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


# Why ranks give up another, by the word that they leave.
_LOST = {
    "silent": "was no longer heard from: it hangs or was stopped, or its node or network is down",
    "awaited": "was alive, and all others waited for it: it hangs, or computes for longer than they wait",
    "stuck": "was alive but no longer did anything, and neither did the others",
    "crossed": "was alive, and all ranks waited for each other",
}


@dataclass(frozen=True)
class FailedRank:
    """The rank of a training that failed before any other."""

    number: int
    code: int
    node: str
    how: str = ""  # one of _LOST, where the others gave it up

    @property
    def words(self) -> str:
        how = _LOST.get(self.how, f"failed first, with exit code {self.code}")
        return f"rank {self.number} on {self.node} {how}"


def failed_rank(state: Path) -> FailedRank | None:
    """Which rank failed first; None where none did, and where the training is one process."""
    words = read_text(state / "failed_rank").split()
    how = words[3] if words[3:] else ""
    if len(words) != (4 if how in _LOST else 3) or not all(_CODE.fullmatch(word) for word in words[:2]):
        return None
    return FailedRank(int(words[0]), int(words[1]), words[2], how)


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


@dataclass(frozen=True)
class Kill:
    """Why a scheduler ended a job, by what it wrote into the job's output."""

    state: JobState  # how the job ended for that
    words: str  # what happened
    elapsed: float | None = None  # for how many seconds it had run; None where that is not said


def kill_of(folder: Path, job_id: str) -> Kill | None:
    """Why a job was ended, as its scheduler wrote it into the job's output; None where nothing is written of that.

    Torque's mom writes ``=>> PBS: job killed: walltime 32 exceeded limit 30`` and the like, Slurm
    ``*** JOB 12 ON node01 CANCELLED AT 2026-11-22T01:10:00 DUE TO TIME LIMIT ***``, and in LSF's report stands
    ``TERM_RUNLIMIT: job killed after reaching LSF run time limit.``
    """
    began = changed_at(folder / STATE / "started") or 0.0
    for path in _outputs(folder, job_id):
        for line in reversed(tail(path, _LINES)):
            if match := _KILLED.search(line):
                return _killed_for(match.group(1).strip())
            if (changed_at(path) or 0.0) < began:  # it is of a run before this one
                continue
            if match := _CANCELLED.search(line):
                return Kill(*_CAUSES[match.group(1)])
            if (match := _REPORTED.match(line)) and (reason := reason_of(line)):
                return Kill(reason[0], f"{LIMITS.get(reason[1], 'its scheduler ended it')}, {match.group(1)}")
    return None


def _killed_for(reason: str) -> Kill:
    match = _LIMIT.match(reason)
    name, seconds = match.groups() if match else ("", None)
    if name == "walltime":
        return Kill(JobState.TIMEOUT, f"{LIMITS[name]}, {reason}", float(seconds) if seconds else None)
    if name.endswith("cput"):
        return Kill(JobState.TIMEOUT, f"{LIMITS['cput']}, {reason}")
    if name.endswith("mem") or "memory" in reason:  # also "swap rate due to memory oversubscription is too high"
        return Kill(JobState.OUT_OF_MEMORY, f"{LIMITS['mem']}, {reason}")
    if _SISTER.match(reason):
        return Kill(JobState.NODE_FAIL, f"one of its nodes failed, {reason}")
    return Kill(JobState.FAILED, f"its scheduler ended it, {reason}")


def _outputs(folder: Path, job_id: str) -> Iterator[Path]:
    """The files that a scheduler writes a job's output into: ours, and those that Torque names itself."""
    match = _NUMBER.match(job_id)
    number, task = match.groups() if match else ("", "")
    end = f"-{task}" if task else ""
    yield folder / f"scheduler.log{end}"
    for kind in "eo" if number else "":
        yield from sorted(folder.glob(f"*.{kind}{number}{end}"))
    yield folder / "error.log"


def outgrew_memory(folder: Path) -> bool:
    """Whether a job that failed was killed for its memory: without cgroups, Slurm says so in its output only."""
    lines = [*tail(folder / "scheduler.log", 20), *tail(folder / "error.log", 20)]
    return any(_MEMORY.search(line) for line in lines)


def last_sign(folder: Path) -> float | None:
    """When a job last wrote something, by the clock that dates its files; None where it has written nothing."""
    times = [changed_at(folder / name) for name in (*LOGS, PROGRESS, "metrics.json")]
    return max((time_ for time_ in times if time_ is not None), default=None)


def _job_id(value: object) -> str:
    text = str(value)
    return text if _JOB_ID.fullmatch(text) else ""
