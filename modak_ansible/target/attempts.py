"""Earlier attempts of a deployment's job, kept aside: nothing of theirs is lost, or taken for the next one's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Iterable

from .files import read_json, write_json
from .progress import PROGRESS
from .staging import ATTEMPTS, STATE, WRITTEN

_JOBS = "jobs.json"


def attempts_of(folder: Path) -> list[Path]:
    """The folders of a deployment's earlier attempts, the first one first."""
    found = [path for path in (folder / ATTEMPTS).glob("[0-9]*") if (path / STATE).is_dir()]
    return sorted(found, key=lambda path: int(path.name))


def earlier_jobs(folder: Path) -> set[str]:
    """The ids of all jobs of a deployment's earlier attempts."""
    known = (read_json(path / _JOBS) or {} for path in attempts_of(folder))
    return {str(job_id) for each in known for job_id in each.get("jobs", ())}


def set_aside(folder: Path, jobs: Iterable[str]) -> int:
    """Moves what a job has written and noted into a folder of its own, and gives the attempt's number.

    The user's files, and what the training made of its own beside them, such as checkpoints, stay where they are.

    Args:
        folder: the deployment's.
        jobs: the ids of the attempt's jobs.
    """
    number = len(attempts_of(folder)) + 1
    aside = folder / ATTEMPTS / str(number)
    aside.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_json(aside / _JOBS, {"jobs": sorted(jobs)})
    for name in WRITTEN:
        if os.path.lexists(folder / name):
            (folder / name).replace(aside / name)
    (folder / PROGRESS).unlink(missing_ok=True)  # how far the next attempt is, only that one tells
    # the markers go last, and at once: what is cut short before is gone on with, and behind it nothing is left to do
    (folder / STATE).replace(aside / STATE)
    return number
