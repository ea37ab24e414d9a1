"""How many jobs of a target are: asked for together, noted in their records, and handed to whoever waits."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from modak_ansible.errors import ModakError
from modak_ansible.stages.base import words_of_disk
from modak_ansible.stages.jobs.direct import ask
from modak_ansible.store.deployment import DeploymentStore
from modak_ansible.store.forecasts import WAITING, noted
from modak_ansible.store.record import DeploymentRecord, ForecastNote, JobNote, RecordData, latest, living_jobs, run_of
from modak_ansible.target.jobs.query import JobsQuestion, queried
from modak_ansible.target.jobs.situation import LIVING, Progress
from modak_ansible.transport.ssh import Connection

if TYPE_CHECKING:
    from modak_ansible.target.core.plan import Plan
    from modak_ansible.target.jobs.query import NodeUsage, Way
    from modak_ansible.target.jobs.situation import Forecast

# Between two looks, in seconds, while nothing changes.
LONGEST = 30.0
_GROWTH = 1.5
# Records that are written at once: each waits for the disk, and more only wait for one another (1,000 of them on two
# cores: 1.2 s one by one, 0.6 s by four, 0.9 s by sixteen).
_AT_ONCE = 4
# What is no change of a job: all that moves on by itself.
_MOVING = ("elapsed", "starts", "forecast", "progress", "usage")


class QueriedJob(TypedDict):
    """How a job is, as target.jobs.query has it."""

    deployment: str
    there: bool
    situation: JobNote
    elapsed: float | None
    position: int | None
    starts: str
    forecast: Forecast | None
    progress: Progress
    usage: list[NodeUsage]
    way: Way


class NotNoted(UserWarning):
    """What targets say is shown, and cannot be written down."""


Take = Callable[[dict[str, QueriedJob], str], None]  # the jobs by deployment, and what stands in the way


@dataclass
class Asking:
    """What is asked of one target."""

    connection: Connection
    plan: Plan  # of any of the deployments
    folder: Path  # in which theirs are, on this machine
    deployments: list[str]  # their names
    every: float = 0.0  # seconds until the next look while something changes; 0 to look once
    # ``usage`` where it is measured what the jobs use, which changes always; ``way`` where it is told how they are
    # entered, ``way=3`` into rank 3
    inside: str = ""
    # the records that were read just now: a thousand take a tenth of a second
    records: Mapping[str, RecordData] = field(default_factory=dict)


def ask_for_jobs(asking: Asking, take: Take, wait: Callable[[float], object]) -> None:
    """Asks until all jobs have ended, where it is measured until none runs, or once.

    A target that does not answer is no error: its answer says so, and it is asked again.

    Args:
        take: is given every answer.
        wait: lets so many seconds pass; where it says that it was told to end, nobody is asked again.
    """
    latest_jobs: dict[str, QueriedJob] = {}
    records = asking.records
    states = ("RUNNING",) if asking.inside else LIVING

    def goes_on(job: QueriedJob) -> bool:
        return job["situation"]["state"] in states

    pause, before = asking.every, None
    while True:
        living = [name for name in asking.deployments if name not in latest_jobs or goes_on(latest_jobs[name])]
        living_records = {
            name: records.get(name) or DeploymentStore(asking.folder / name).record_now() for name in living
        }
        jobs, problem = _look(asking, living_records)
        latest_jobs.update(jobs)
        take(dict(latest_jobs), problem)
        try:
            note_jobs(asking.folder, jobs, asking.plan, living_records)  # while whoever asked reads it
            for name in asking.deployments if problem else ():
                store = DeploymentStore(asking.folder / name)
                if store.has_ended:  # it is asked for once: its target may be gone for good
                    DeploymentRecord(store.folder).update(seen=run_of(store.job))
        except OSError as error:  # a project may be somebody else's, or on a full disk, and is looked at all the same
            warnings.warn(f"what is new is not noted: {words_of_disk(error)}", NotNoted, stacklevel=2)
        records = {}
        if not asking.every or not (problem or any(map(goes_on, latest_jobs.values()))):
            return
        now = [problem, {name: _steady(job) for name, job in latest_jobs.items()}]
        pause = asking.every if now != before or asking.inside else min(pause * _GROWTH, max(LONGEST, asking.every))
        before = now
        if wait(pause):
            return


def _look(asking: Asking, records: Mapping[str, RecordData]) -> tuple[dict[str, QueriedJob], str]:
    """How the jobs of deployments with such records are, by name; and what stands in the way."""
    question: JobsQuestion = {
        "workspace": asking.plan["target"]["workspace"],
        "scheduler": asking.plan["job"]["scheduler"],
        "deployments": [*records],
        "job_ids": living_jobs(records),
        "inside": asking.inside,
    }
    try:
        answer = ask(asking.connection, queried, question)
    except ModakError as error:
        return {}, f"{error.message} ({error.hint})" if error.hint else error.message
    return {job["deployment"]: job for job in answer["jobs"]}, ""


def note_jobs(
    deployments: Path, jobs: dict[str, QueriedJob], plan: Plan, records: Mapping[str, RecordData] | None = None
) -> None:
    """Notes in the deployments' records what has become of their jobs, where that is news.

    Args:
        records: those that were read just now.
    """

    def record_of(name: str) -> RecordData:
        return (records or {}).get(name) or DeploymentStore(deployments / name).record_now()

    forecasts = {
        name: _forecasts(record_of(name), job, plan) if job["forecast"] else None for name, job in jobs.items()
    }
    news = [name for name, job in jobs.items() if forecasts[name] or _is_news(deployments / name, record_of, job)]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(lambda name: _update(deployments / name, jobs[name], forecasts[name]), news))


def _is_news(folder: Path, record_of: Callable[[str], RecordData], job: QueriedJob) -> bool:
    situation = job["situation"]
    is_cleared = not job["there"] and DeploymentStore(folder).has_ended  # how it ended, its record alone knows
    if situation["state"] == "DAMAGED" or is_cleared:
        return False
    record = record_of(folder.name)
    note = record.get("job")
    if situation["state"] not in ("NONE", *LIVING) and record.get("seen") != run_of(situation):
        return True
    return bool(note != latest(note, situation) if note else situation["state"] != "NONE")


def _forecasts(record: RecordData, job: QueriedJob, plan: Plan) -> list[ForecastNote] | None:
    """When a job is expected to begin, with what was known of that before; None where there is nothing new."""
    forecasts = noted(record, job["situation"], WAITING, job["forecast"], plan)
    return forecasts if forecasts != record.get("forecasts") else None


def _update(folder: Path, job: QueriedJob, forecasts: list[ForecastNote] | None) -> None:
    news: RecordData = {"progress": job["progress"]}
    if job["situation"]["state"] not in LIVING:
        news["seen"] = run_of(job["situation"])
    DeploymentRecord(folder).note_job(
        job["situation"], **news if forecasts is None else {**news, "forecasts": forecasts}
    )


def _steady(job: QueriedJob) -> dict[str, object]:
    """What tells whether a job has changed; of its progress that is the epoch."""
    steady = {name: value for name, value in job.items() if name not in _MOVING}
    return {**steady, "epoch": job["progress"].get("epoch")}
