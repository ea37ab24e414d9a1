"""The jobs of many deployments at once: the scheduler is asked for all of them together."""

from __future__ import annotations

from typing import Any, Sequence

from ...schedulers import SCHEDULERS
from ...schedulers.base import LIVING, AccountingSilent, JobRecord, SchedulerSilent
from ..core.commands import TimedRun
from ..core.files import clock_of, read_text
from ..core.staging import STATE
from ..core.workspace import Workspace
from .job import Deployment
from .progress import progress_of

# What damaged files of a deployment make of reading them.
_DAMAGED = (KeyError, TypeError, ValueError, OSError)


def look_at_jobs(workspace: Workspace, scheduler: str, names: Sequence[str]) -> list[dict[str, Any]]:
    """What has become of the jobs of some deployments.

    A job whose own marker says that it succeeded needs no scheduler; for the others it is asked together.

    Args:
        workspace: where the deployments lie.
        scheduler: slurm, torque or none; of all of them.
        names: the deployments'.

    Returns:
        For each, in that order: ``name``; ``there``, whether its folder is; ``situation``; ``elapsed``, seconds that
        the job has run, or None; ``position`` and ``starts`` as the scheduler's record has them; ``progress``.
    """
    deployments = [Deployment(workspace, name, scheduler, name) for name in names]
    word = _Word(scheduler, workspace, deployments)
    now = clock_of(workspace.deployments)
    return [_look(deployment, word, now) for deployment in deployments]


def has_completed(workspace: Workspace, name: str) -> bool:
    """Whether a deployment's job has completed, by the marker that it writes itself."""
    return read_text(workspace.deployments / name / STATE / "finished") == "0"


class _Word:
    """The scheduler's word of all jobs that may still live."""

    def __init__(self, scheduler: str, workspace: Workspace, deployments: Sequence[Deployment]) -> None:
        self._silence: SchedulerSilent | None = None
        self._records: dict[str, JobRecord] = {}
        open_ones = [deployment for deployment in deployments if read_text(deployment.path / STATE / "finished") != "0"]
        known = {_known_job(open_one) for open_one in open_ones} - {""}
        try:
            folder = workspace.path if workspace.path.is_dir() else None
            self._records = SCHEDULERS[scheduler].statuses(TimedRun(folder), sorted(known))
        except AccountingSilent as error:
            self._silence, self._records = error, error.known
        except SchedulerSilent as error:
            self._silence = error

    def of(self, job_id: str) -> JobRecord | None:
        """
        Raises:
            SchedulerSilent: it did not answer.
        """
        if self._silence and job_id not in self._records:
            raise self._silence
        return self._records.get(job_id)

    def noted(self, job_id: str) -> JobRecord | None:
        """What it said, if anything."""
        return self._records.get(job_id)


def _known_job(deployment: Deployment) -> str:
    try:
        return deployment.known_job()
    except _DAMAGED:  # which _look says
        return ""


def _look(deployment: Deployment, word: _Word, now: float) -> dict[str, Any]:
    there = deployment.path.is_dir()
    try:
        situation = deployment.situation(word.of).as_dict()
        if not situation["job_id"] and (deployment.path / STATE / "submitted.json").exists():
            words = "submitted.json on the target holds no job's id; deploy again, and the job is looked for"
            situation = {"state": "DAMAGED", "job_id": "", "explanation": words}
    except _DAMAGED as error:
        words = f"its files on the target cannot be read: {type(error).__name__}: {error}"
        situation = {"state": "DAMAGED", "job_id": "", "explanation": words}
    started, ended = situation.get("started"), situation.get("ended")
    # one whose end is not dated ran for nobody knows how long
    until = ended or (now if situation["state"] in LIVING else None)
    record = word.noted(situation["job_id"])
    return {
        "name": deployment.path.name,
        "there": there,
        "situation": situation,
        "elapsed": max(0.0, until - started) if started and until else None,
        "position": record.position if record else None,
        "starts": record.starts if record else "",
        "progress": progress_of(deployment.path) if started else {},
    }
