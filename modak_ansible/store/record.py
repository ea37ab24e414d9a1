"""A deployment's record: what each stage did, for status, summary and the next run.

The truth about the target is on the target; this is the controller's memory of it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, cast

from modak_ansible.store.logs import note
from modak_ansible.store.shapes import fitted
from modak_ansible.target.core.files import Lock, read_json, write_json
from modak_ansible.target.jobs.situation import LIVING, UNKNOWN, Forecast, LeftFiles, Progress

if TYPE_CHECKING:
    from modak_ansible.target.core.plan import Plan
    from modak_ansible.target.core.probe import TargetFacts
    from modak_ansible.target.images.image import ImageFacts

NAME = "state.json"
# How the explanation of a job begins that was not submitted, for what it comes after.
NOT_RUN = "not run: "
# What one run of a job came to, and what a deployment has no more once it was undeployed and is deployed again.
_OF_A_RUN = ("progress", "metrics", "energy")
_OF_A_DEPLOYMENT = ("undeployed", "job", *_OF_A_RUN)
# As they follow each other in a deployment.
STAGES = ("target", "dataset", "image", "job", "results", "report")


class JobNote(TypedDict, total=False):
    """What is known of a job, as target.jobs.situation has it; where its files there are damaged the first few."""

    state: str
    job_id: str
    explanation: str
    exit_code: int | None
    signal: int | None
    reason: str
    nodes: str
    started: float | None
    ended: float | None
    attempt: int
    run: int
    held_by: str
    down: str
    error_tail: list[str]


class Worked(TypedDict, total=False):
    """The last run of a stage that changed something; in seconds."""

    seconds: float
    message: str


class StageNote(TypedDict, total=False):
    """How a stage ended, or that it failed: ``state`` is done or failed."""

    state: str
    seconds: float
    changed: bool
    message: str
    worked: Worked


class Metrics(TypedDict, total=False):
    """What a summary says of a training; None stands for what its script does not tell, seconds are a median."""

    epochs: int | None
    epochs_requested: float | None
    accuracy: float | None
    loss: float | None
    epoch_seconds: float | None
    images_per_second: float | None
    numbers: dict[str, float]  # of a script that writes them as it likes all, by their names


class AppliedChoice(TypedDict):
    """What became of a choice that acts in the script's own code."""

    name: str
    planned: str
    applied: str | None  # the value; None where it was not applied, or where nobody knows
    known: bool  # whether somebody does
    how: str
    reason: str


class ForecastNote(Forecast):
    """When a run of a job was expected to begin."""

    run: str  # as :func:`run_of` has it
    when: str  # it was said, in words
    machine: str  # it is about


class EnergyNote(TypedDict):
    """What a run of a job used."""

    joules: float
    seconds: float | None  # in which; None where nobody knows
    source: str  # what counted, in words


def mapping(value: Any) -> dict[str, Any]:
    """The value itself, where it is a mapping: a file may have been written by anybody."""
    return value if isinstance(value, dict) else {}


def told_by(energy: EnergyNote | None) -> dict[str, Any]:
    """What a record of a run says of its energy, by the names of the record's fields."""
    if not energy:
        return {}
    return {"joules": energy["joules"], "energy_seconds": energy["seconds"] or None, "energy_source": energy["source"]}


class TrialNote(TypedDict):
    """Of which search a deployment is a trial, and why it was cancelled; empty where it was not."""

    search: str
    pruned: str


class RecordData(TypedDict, total=False):
    stage: str  # the last one that began
    stages: dict[str, StageNote]
    target: TargetFacts
    image: ImageFacts
    data: str  # the label of the source that the data came from
    job: JobNote | None  # None where none was submitted
    progress: Progress
    results: str
    # brought, seen: which job's results were brought after its end, and how far which one had come was asked then, as
    # :func:`run_of` has them; empty where none were
    brought: str
    seen: str
    metrics: Metrics | None
    missing_outputs: list[str]  # declared outputs that no file fits
    unnamed_outputs: list[str]  # files that were left on the target, for their names
    left: LeftFiles | None  # what the job wrote and no output names; None as long as it runs
    more_outputs: list[str]  # patterns of what is brought back besides the plan's outputs
    applied: list[AppliedChoice]
    tuning: list[tuple[str, str]]  # what that amounts to, as pairs of a title and a text
    trial: TrialNote  # where it is one
    energy: EnergyNote | None  # None where nothing counts it
    forecasts: list[ForecastNote]  # the first of each kind for each run
    undeployed: float | bool | str | None  # when that was, in seconds since the epoch; in any form it was
    updated: float  # when it was written, likewise


def trains(plan: Plan) -> bool:
    """Whether the job of a plan trains, and does not only tune."""
    return (plan.get("tuning") or {}).get("trains", True)


def run_of(job: JobNote) -> str:
    """What tells a run of a job from those before it; each attempt and each time that it is queued again is one."""
    return f"{job.get('job_id', '')} {job.get('attempt', 1)} {job.get('run', 1)}"


def latest(previous: JobNote | None, now: JobNote) -> JobNote:
    """What is known of a job: how it is now, or the end that was known before, where nobody says how it is now."""
    if not previous or now["state"] != UNKNOWN or previous.get("job_id") != now["job_id"]:
        return now
    return now if previous.get("state") in (None, "NONE", *LIVING) else previous


def living_job(record: RecordData) -> str:
    """The id of a deployment's job as far as its record knows it to live; empty where it does not."""
    job = record.get("job") or {}
    return "" if record.get("undeployed") or job.get("state") not in LIVING else job.get("job_id", "")


def living_jobs(records: Mapping[str, RecordData]) -> dict[str, str]:
    """The same of several deployments, by their names; of those alone that have one."""
    return {name: job_id for name, record in records.items() if (job_id := living_job(record))}


class DeploymentRecord:
    """The file of the record in a deployment's folder, which two commands may write in turn."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self._lock_path = folder / ".state.lock"  # two deploys of one plan note in turn

    def read(self, lost: list[str] | None = None) -> RecordData:
        """What it holds; what is not of its form is left out, and named in a list."""
        try:
            return fitted(read_json(self.path) or {}, RecordData, [] if lost is None else lost)
        except ValueError:
            return RecordData()

    def update(self, **values: Unpack[RecordData]) -> None:
        """Sets top-level values."""
        with Lock(self._lock_path):
            self._write({**self.read(), **values})

    def begin(self, name: str) -> None:
        """Forgets how this stage, and those behind it, failed before: all of it is being tried again.

        A deployment that comes to it for the first time is known to be there from now on.
        What was undeployed has neither a job nor its metrics any more when its first stage begins.
        """
        behind = STAGES[STAGES.index(name) :]
        state = self.read()
        if name in state.get("stages", {}) and not _is_stale(state, behind):
            return
        with Lock(self._lock_path):
            state = self.read()
            if behind == STAGES and state.get("undeployed"):
                state = cast(RecordData, {key: state.get(key) for key in state if key not in _OF_A_DEPLOYMENT})
            failed_stages = [
                stage for stage in behind if state.get("stages", {}).get(stage, {}).get("state") == "failed"
            ]
            stages = {key: stage for key, stage in state.get("stages", {}).items() if key not in failed_stages}
            self._write({**state, "stages": stages, "stage": name})

    def note_job(self, situation: JobNote, **values: Unpack[RecordData]) -> JobNote:
        """Sets what is known of the job, and other top-level values; gives what is known now.

        A known end stays: that its scheduler does not answer any more is no news of a job. What another run came to
        goes.
        """
        with Lock(self._lock_path):
            state = self.read()
            job = latest(state.get("job"), situation)
            if run_of(job) != run_of(state.get("job") or {}):
                state = cast(RecordData, {key: state.get(key) for key in state if key not in _OF_A_RUN})
            if {**state, **values, "job": job} != state:
                self._write({**state, **values, "job": job})
        return job

    def note_stage(self, name: str, **values: Unpack[StageNote]) -> None:
        """Sets values of one stage; those of its last run that changed something are kept beside it."""
        with Lock(self._lock_path):
            state = self.read()
            stages = state.get("stages", {})
            if values.get("changed"):
                values["worked"] = {"seconds": values.get("seconds", 0.0), "message": values.get("message", "")}
            elif worked := stages.get(name, {}).get("worked"):
                values["worked"] = worked
            stages[name] = values
            self._write({**state, "stages": stages, "stage": name})
        prefix = "failed: " if values.get("state") == "failed" else ""
        note(self.path.parent, name, f"{prefix}{values.get('message', '')}")

    def note_unchanged(self, *names: str) -> None:
        """Notes that nothing had to be done now in stages that were done before."""
        with Lock(self._lock_path):
            state = self.read()
            stages = state.get("stages", {})
            unchanged: dict[str, StageNote] = {
                name: {**stages[name], "changed": False, "seconds": 0.0} for name in names if name in stages
            }
            if {**stages, **unchanged} != stages:
                self._write({**state, "stages": {**stages, **unchanged}})

    def take_over(self, name: str, other: RecordData) -> None:
        """Sets what another deployment's record says of a stage that was done for both, unless nothing is new in it.

        What it knows of the target, the image and the data counts for both.
        """
        stage = other.get("stages", {}).get(name)
        with Lock(self._lock_path):
            state = self.read()
            own_stage = state.get("stages", {}).get(name, {})
            if stage and (stage.get("changed") or own_stage.get("state") != stage.get("state")):
                facts = cast(RecordData, {key: other.get(key) for key in ("target", "image", "data") if key in other})
                stages = {**state.get("stages", {}), name: stage}
                self._write({**state, **facts, "stages": stages, "stage": name})

    def _write(self, state: RecordData) -> None:
        write_json(self.path, {**state, "updated": time.time()})


def _is_stale(state: RecordData, behind: tuple[str, ...]) -> bool:
    stages = state.get("stages", {})
    has_failed = any(stages.get(name, {}).get("state") == "failed" for name in behind)
    return has_failed or (behind == STAGES and bool(state.get("undeployed")))
