"""How jobs are now, with how long they run, when they start and how far they are: what modak status asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterable

from ...schedulers.base import JobRecord, SchedulerSilent
from ..core.files import clock_of, read_text
from ..core.staging import STATE
from ..core.workspace import Workspace
from .campaign import Campaign
from .job import Deployment
from .judgement import Ask
from .progress import Progress, progress_of
from .situation import LIVING, Situation

# What damaged files of a deployment make of reading them.
_DAMAGED = (KeyError, TypeError, ValueError, OSError)


@dataclass
class QueriedJob:
    """How a deployment's job is.

    Attributes:
        there: whether the deployment's folder is.
        elapsed: seconds that the job has run; None where nobody knows.
        position, starts: as the scheduler's record has them.
        progress: what the training says of itself.
    """

    deployment: str
    there: bool
    situation: Situation
    elapsed: float | None
    position: int | None
    starts: str
    progress: Progress


def query(workspace: Workspace, campaign: Campaign, names: Iterable[str]) -> list[QueriedJob]:
    """How the jobs of some deployments are, in their order; a damaged one hides no other.

    A job whose own marker says that it succeeded needs no scheduler; for the others it is asked together.
    """
    deployments = [campaign.deployment(name) for name in names]
    ask = campaign.asked(sorted({_known_job(each) for each in deployments if each.finished() != 0} - {""}))
    now = clock_of(workspace.deployments)
    return [_query(deployment, ask, now) for deployment in deployments]


def has_completed(workspace: Workspace, name: str) -> bool:
    """Whether a deployment's job has completed, by the marker that it writes itself."""
    return read_text(workspace.deployments / name / STATE / "finished") == "0"


def _known_job(deployment: Deployment) -> str:
    try:
        return deployment.known_job()
    except _DAMAGED:  # which _query says
        return ""


def _query(deployment: Deployment, ask: Ask, now: float) -> QueriedJob:
    there = deployment.path.is_dir()
    try:
        situation = deployment.situation(ask)
        if not situation.job_id and (deployment.state / "submitted.json").exists():
            words = "submitted.json on the target holds no job's id; deploy again, and the job is looked for"
            situation = Situation("DAMAGED", explanation=words)
    except _DAMAGED as error:
        words = f"its files on the target cannot be read: {type(error).__name__}: {error}"
        situation = Situation("DAMAGED", explanation=words)
    started = situation.started
    # one whose end is not dated ran for nobody knows how long
    until = situation.ended or (now if situation.state in LIVING else None)
    record = _noted(ask, situation.job_id)
    return QueriedJob(
        deployment.path.name,
        there,
        situation,
        elapsed=max(0.0, until - started) if started and until else None,
        position=record.position if record else None,
        starts=record.starts if record else "",
        progress=progress_of(deployment.path) if started else {},
    )


def _noted(ask: Ask, job_id: str) -> JobRecord | None:
    """What the scheduler said of a job, if anything."""
    try:
        return ask(job_id)
    except SchedulerSilent:
        return None
