"""The runs of a job that its scheduler starts anew after it was stopped, by what the job notes of them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from ...schedulers.base import JobRecord, JobState
from ..core.files import changed_at, clock_of, read_text

# A job in one of these notes nothing: what it noted is of a run that was before.
WAITING = (JobState.QUEUED, JobState.HELD)
_OF_A_RUN = ("started", "finished", "ended")
# Seconds: what was noted since may be younger than the scheduler's answer.
_FRESH = 60.0


def run_of(state: Path) -> int:
    """How often a job that may be queued again has begun, by the folder of its markers; 0 where nobody counts."""
    return len(read_text(state / "runs").splitlines())


def living_state(state: Path, finished: int | None, record: JobRecord) -> JobState:
    """The state of a job that the scheduler has, and that may have noted its end, or that it is to run again.

    Args:
        state: the folder of its markers.
        finished: the exit code that it noted.
    """
    if record.state in WAITING:
        noted = changed_at(state / "finished")
        if finished is not None and noted is not None and clock_of(state) - noted > _FRESH:
            # the scheduler runs it again: what its earlier life noted no longer counts
            for name in _OF_A_RUN:
                with suppress(FileNotFoundError):
                    (state / name).unlink()
        return record.state
    if (state / "requeued").exists():
        return JobState.QUEUED
    return record.state if finished is None else JobState.ENDING


def own(record: JobRecord | None, name: str, folder: Path) -> JobRecord | None:
    """The scheduler's word of a deployment's job; None where it is of a stranger's, as where ids have begun anew.

    Args:
        folder: the deployment's; the task of an array was submitted from a folder beside it.
    """
    if record is None or not (record.name and record.folder) or record.name == name:
        return record
    place = Path(record.folder).name
    return record if place == folder.name or place.startswith(".array-") else None


def explained(state: Path, living: JobState, reason: str) -> str:
    """Which of a job's runs comes next or goes on, where there are several, and the scheduler's reason."""
    run = run_of(state)
    words = f"queued again for run {run + 1}" if living in WAITING and run else f"run {run}" if run > 1 else ""
    return ", ".join(part for part in (words, reason) if part)
