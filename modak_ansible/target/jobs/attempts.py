"""Earlier attempts of a deployment's job, kept aside: nothing of theirs is lost, or taken for the next one's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Iterable

from ..core.files import NO_ROOM, read_json, read_text, write_json, write_whole
from ..core.staging import ATTEMPTS, RANKS, STATE, WRITTEN
from .markers import claimed_by, submitted_job
from .progress import PROGRESS

_JOBS = "jobs.json"
# Behind the name of a deployment that was removed: the ids of its jobs, which its next one's are not.
_GONE = ".gone"


def attempts_of(folder: Path) -> list[Path]:
    """The folders of a deployment's earlier attempts, the first one first."""
    folders = [path for path in (folder / ATTEMPTS).glob("[0-9]*") if path.name.isdecimal() and (path / STATE).is_dir()]
    return sorted(folders, key=lambda path: int(path.name))


def number_of(folder: Path) -> int:
    """The number of a deployment's present attempt; the user may have removed earlier ones."""
    return max((int(path.name) for path in attempts_of(folder)), default=0) + 1


def earlier_jobs(folder: Path) -> set[str]:
    """The ids of all jobs of a deployment that are not its present one: of earlier attempts, given up, or removed."""
    notes = (read_json(path / _JOBS) or {} for path in attempts_of(folder))
    forgotten = f"{read_text(folder / STATE / 'forgotten')} {read_text(_gone(folder))}"
    return {str(job_id) for note in notes for job_id in note.get("jobs", ())} | {*forgotten.split()}


def remember_jobs(folder: Path) -> None:
    """Notes beside a folder that is about to be removed which jobs it had: a scheduler remembers them."""
    jobs = {*earlier_jobs(folder), submitted_job(folder / STATE), claimed_by(folder / STATE)} - {""}
    try:
        if jobs:
            write_whole(_gone(folder), "".join(f"{job_id}\n" for job_id in sorted(jobs)))
    except OSError as error:
        if error.errno not in NO_ROOM:  # removing makes some
            raise


def _gone(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}{_GONE}")


def set_aside(folder: Path, jobs: Iterable[str]) -> int:
    """Moves what a job has written and noted into a folder of its own, and gives the attempt's number.

    The user's files, and what the training made of its own beside them, such as checkpoints, stay where they are.

    Args:
        jobs: the ids of the attempt's jobs.
    """
    number = number_of(folder)
    aside = folder / ATTEMPTS / str(number)
    aside.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_json(aside / _JOBS, {"jobs": sorted(jobs)})
    for name in (*WRITTEN, RANKS):
        if os.path.lexists(folder / name):
            (folder / name).replace(aside / name)
    (folder / PROGRESS).unlink(missing_ok=True)  # how far the next attempt is, only that one tells
    # the markers go last, and at once: what is cut short before is gone on with, and behind it nothing is left to do
    (folder / STATE).replace(aside / STATE)
    return number
