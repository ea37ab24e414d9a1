"""What is noted before a job is submitted: by it, a job is found whose submitter did not live to note its id."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from ...errors import ModakError, SchedulerAway
from ...schedulers.base import CommandRunner, Scheduler, SchedulerSilent, SubmissionRefused, has_no_room
from ..core.files import read_json, write_json

_FILE = "intent.json"


class Intents:
    """Finds what was submitted with an intent; an array is looked for once, for all of its tasks.

    Args:
        scheduler: that is asked.
        run: runs its commands.
    """

    def __init__(self, scheduler: Scheduler, run: CommandRunner) -> None:
        self._scheduler = scheduler
        self._run = run
        self._arrays: dict[str, list[str]] = {}

    def jobs(self, folder: Path, job_name: str) -> list[str]:
        """The ids of the jobs that a deployment's intent may have led to; one that cannot be read is of a single job.

        Raises:
            SchedulerSilent: the scheduler does not answer.
        """
        intent = read_json(folder / "state" / _FILE) or {}
        if "array" not in intent:
            return self._scheduler.find(self._run, job_name, str(folder.resolve()))
        array = intent["array"]
        if array not in self._arrays:
            place = str((folder.parent / array).resolve())
            self._arrays[array] = self._scheduler.find_array(self._run, intent["name"], place, intent["tasks"])
        return self._arrays[array][intent["task"] :][:1]


def write_intent(state: Path, name: str, **details: Any) -> None:
    """Notes that a job of a name is about to be submitted; of an array's with ``array``, ``task`` and ``tasks``."""
    state.mkdir(exist_ok=True)  # it went with an earlier attempt
    write_json(state / _FILE, {"name": name, "time": time.time(), **details})


def withdraw_intent(state: Path) -> None:
    """Notes that nothing was submitted."""
    (state / _FILE).unlink()


def refusal_error(scheduler: Scheduler, refusal: SubmissionRefused) -> ModakError:
    """What is said of a job that a scheduler does not take."""
    hint = f"change what {scheduler.title} refuses; nothing was submitted"
    if has_no_room(str(refusal)):
        hint = "deploy again when some of the jobs have ended; nothing was submitted"
    return ModakError(f"{scheduler.title} refuses the job: {refusal}", hint=hint)


def unreached(scheduler: Scheduler, silence: SchedulerSilent) -> ModakError:
    """What is said where a scheduler could not be asked to take a job."""
    message = f"{scheduler.title} does not answer, and the job was not submitted: {silence}"
    return SchedulerAway(message, hint="deploy again when it answers")
