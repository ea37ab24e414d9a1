"""What modak status says of a deployment: out of its plan, its record here, and its target's answer."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Required, TypedDict

from modak_ansible.deployment.searches.search_store import search_of
from modak_ansible.model.quantities import three_digits
from modak_ansible.model.target import costs_until
from modak_ansible.store.deployments import natural
from modak_ansible.store.forecasts import WAITING, RunForecast, forecasts_of, noted
from modak_ansible.store.machines import cost_so_far, hosts_of
from modak_ansible.store.record import NOT_RUN, latest, mapping, run_of, trains
from modak_ansible.target.jobs.situation import LIVING, PENDING, UNKNOWN
from modak_ansible.transport.ssh import Way

if TYPE_CHECKING:
    from pathlib import Path

    from modak_ansible.deployment.searches.search_store import SearchState
    from modak_ansible.stages.jobs.query import QueriedJob
    from modak_ansible.store.deployment import DeploymentStore
    from modak_ansible.store.record import JobNote, RecordData
    from modak_ansible.target.core.plan import Plan
    from modak_ansible.target.jobs.situation import Progress

# What is looked at first comes first: what runs, what waits, what is in doubt, what is over.
_ORDER = ("RUNNING", "ENDING", "SUSPENDED", "QUEUED", "HELD", "UNKNOWN", "DAMAGED", "NONE")
_OVER = ("UNDEPLOYED",)


@dataclass
class StatusEntry:
    """A deployment, and what is known of it now."""

    store: DeploymentStore
    answer: QueriedJob | None = None  # what its target says; None before it was asked
    asked: float = field(default_factory=time.monotonic)  # when that was, by the monotonic clock
    problem: str = ""  # why its target does not answer; empty where it does

    @property
    def name(self) -> str:
        return self.store.folder.name

    @property
    def job(self) -> JobNote:
        """What its target says of the job, or what is known of it here; empty where none was submitted."""
        return self.answer["situation"] if self.answer else self.store.job

    @property
    def state(self) -> str:
        """Of the job, as far as it is known by now."""
        return str(self.job.get("state", "NONE"))


def may_live(store: DeploymentStore) -> bool:
    """Whether only the target knows how a deployment is: its job is not known to have ended, and may have begun."""
    record = store.record
    if record.get("undeployed"):
        return False
    if is_damaged(store):
        return True
    state = (record.get("job") or {}).get("state", "NONE")
    stages = record.get("stages", {}).values()
    # a deploy that was killed may have submitted a job that it has not noted
    has_begun = bool(stages) and all(stage.get("state") == "done" for stage in stages)
    return state in LIVING or (state == "NONE" and has_begun)


def may_tell(store: DeploymentStore) -> bool:
    """Whether its target has news of a deployment: of its job, or how far one that has ended had come."""
    if may_live(store):
        return True
    record = store.record
    job = record.get("job") or {}
    is_known = run_of(job) in (record.get("brought"), record.get("seen"))
    return bool(job.get("started")) and not is_known and not record.get("undeployed")


def is_damaged(store: DeploymentStore) -> bool:
    """Whether there is a record, and it cannot be read."""
    return not store.record and store.has_record


class ToldStart(TypedDict):
    """When the job was expected to begin; times in seconds since the epoch."""

    when: str
    said: float
    starts: float
    error_seconds: float | None  # by which it began later; below 0 earlier


class StatusRow(TypedDict, total=False):
    """One line of the answer, as ``modak status --json`` prints it; of a damaged deployment there are the first few.

    Times are in seconds; None stands for what nobody knows.
    """

    deployment: Required[str]
    state: Required[str]
    explanation: Required[str]
    training: str
    target: str
    stage: str
    job_id: str
    reason: str
    position: int | None
    starts: str
    nodes: str
    exit_code: int | None
    elapsed_seconds: float | None
    predicted_seconds: float | None
    step: int | None
    epoch: int | None
    epochs_requested: int | None
    loss: float | None
    accuracy: float | None
    numbers: dict[str, float]
    remarks: list[str]
    epochs: int | None
    results: str
    forecasts: list[ToldStart]
    search: SearchState  # of a trial how its search is
    machine: str
    answered: bool
    digest: str


def row_of(entry: StatusEntry) -> StatusRow:
    """One line of the answer.

    Raises:
        KeyError, TypeError: the plan lacks what every plan has.
    """
    plan, record, answer = entry.store.plan, entry.store.record, entry.answer
    job = _job(entry)
    is_noted = job.get("job_id") == (record.get("job") or {}).get("job_id")
    answered = answer["progress"] if answer else None
    progress: Progress = answered or (record.get("progress") if is_noted else None) or {}
    metrics: dict[str, Any] = dict(record.get("metrics") or {})
    reasons = (entry.problem, _explanation(entry, job))
    # the last look may have been before the end, of which all was brought; or what was brought before the last look
    is_brought = job.get("state") not in LIVING and record.get("brought", run_of(job)) == run_of(job)
    sources = (metrics, progress) if is_brought else (progress, metrics)
    numbers = sources[0].get("numbers") or sources[1].get("numbers") or {}

    def latest(name: str) -> Any:
        return next(
            (value for source in (sources[0], numbers, sources[1]) if (value := source.get(name)) is not None), None
        )

    return {
        "deployment": entry.name,
        "training": plan["training"],
        "target": plan["target"]["name"],
        "stage": _stage(record, job),
        "job_id": job.get("job_id", ""),
        "state": _state(entry, job),
        "reason": "" if record.get("undeployed") else job.get("reason", ""),
        "explanation": next(filter(None, reasons if may_live(entry.store) else reversed(reasons)), "")
        or progress.get("slow")
        or progress.get("crowded", ""),
        "position": answer["position"] if answer else None,
        "starts": answer["starts"] if answer else "",
        "nodes": job.get("nodes", ""),
        "exit_code": job.get("exit_code"),
        "elapsed_seconds": _elapsed(entry, job),
        "predicted_seconds": _predicted(plan, record),
        "step": progress.get("step"),
        "epoch": progress.get("epoch", metrics.get("epochs")),
        "epochs_requested": progress.get("epochs", metrics.get("epochs_requested")) or _planned_epochs(plan),
        "loss": latest("loss"),
        "accuracy": latest("accuracy"),
        "numbers": numbers,
        "remarks": [*(progress.get("remarks") or ()), *entry.store.unread],
        "epochs": metrics.get("epochs"),
        "results": record.get("results", ""),
        "forecasts": [
            {"when": start.when, "said": start.said, "starts": start.starts, "error_seconds": start.error}
            for start in starts_of(entry)
        ],
        "machine": _machine(entry),
        "answered": entry.answer is not None and not entry.problem,
        "digest": plan["digest"],
    }


def _machine(entry: StatusEntry) -> str:
    """The machines made for it, since when, and what they have cost; empty elsewhere, and once they are gone."""
    store = entry.store
    target = store.plan["target"]
    if not target.get("cloud") or store.record.get("undeployed"):
        return ""
    notes = [store.note for store in hosts_of(store.folder.parent.parent, target["address"], Way.of(target).machines)]
    machines = [note for note in notes if note is not None]
    if not machines:
        return ""
    predicted, predicted_words = (store.plan.get("cost") or {}).get("predicted"), ""
    if predicted:
        low, high = (three_digits(predicted[end]) for end in ("low", "high"))
        predicted_words = f", {low} to {high} predicted for the training"
    names, started_times = ", ".join(note["id"] for note in machines), [note["since"] for note in machines]
    cost = cost_so_far(started_times, machines[0]["price_per_hour"], machines[0]["currency"])
    return f"{names} {cost}{predicted_words}{costs_until(machines[0]['provider'])}"


def starts_of(entry: StatusEntry) -> list[RunForecast]:
    """When the job was expected to begin, and when it did."""
    record, job = entry.store.record, _job(entry)
    forecast = entry.answer["forecast"] if entry.answer else None
    forecasts = noted(record, job, WAITING, forecast, entry.store.plan) if forecast else None
    return forecasts_of({**record, "job": job, "forecasts": forecasts or record.get("forecasts") or []})


def _job(entry: StatusEntry) -> JobNote:
    """What its target says of the job, or what was known last."""
    noted_job: JobNote = entry.store.record.get("job") or {}
    if entry.answer is None or (not entry.answer["there"] and not may_live(entry.store)):  # its folder was cleared
        return noted_job
    job = entry.answer["situation"]
    return latest(noted_job, job) if job.get("state") == UNKNOWN else job


def damaged_row(folder: Path, why: str) -> StatusRow:
    """The line of a deployment whose files here cannot be read."""
    return {"deployment": folder.name, "state": "DAMAGED", "explanation": why}


def rows_of(entries: list[StatusEntry]) -> list[StatusRow]:
    """All lines, in the order in which they are shown; a damaged deployment hides no other."""
    rows = []
    searches: dict[str, SearchState | None] = {}
    for entry in sorted(entries, key=lambda entry: -entry.store.updated):
        if not entry.store.plan.get("digest"):
            rows.append(damaged_row(entry.store.folder, "plan.json cannot be read; deploy its blueprint again"))
            continue
        try:
            rows.append(row_of(entry))
            if trial := entry.store.record.get("trial"):
                name = trial["search"]
                if name not in searches:
                    searches[name] = search_of(entry.store)
                if state := searches[name]:
                    rows[-1]["search"] = state
        except (KeyError, TypeError) as error:
            rows.append(damaged_row(entry.store.folder, f"plan.json is damaged ({error}); deploy its blueprint again"))
    return sorted(rows, key=_place)


def most_telling(rows: list[StatusRow], *, is_followed: bool) -> StatusRow:
    """The row whose log is looked at first: one that has failed before one that runs, unless it is to be followed.

    Of those that are alike it is the first by its training's name.
    """
    ended_first = ("failed", "running", "completed", "waits", "void")
    order = ("running", "waits", "failed", "completed", "void") if is_followed else ended_first

    def place(row: StatusRow) -> tuple[int, list[tuple[float, str]]]:
        is_void = not row.get("job_id") or str(row["explanation"]).startswith(NOT_RUN) or row["state"] in _OVER
        living = "running" if row.get("elapsed_seconds") else "waits"
        ended = "completed" if row["state"] == "COMPLETED" else "failed"
        rank = order.index("void" if is_void else living if row["state"] in LIVING else ended)
        return rank, natural(row.get("training", ""))

    return min(rows, key=place)


def _place(row: StatusRow) -> tuple[int, float]:
    state = row["state"]
    over = len(_ORDER) + (state in _OVER)
    return _ORDER.index(state) if state in _ORDER else over, row.get("position") or float("inf")


def _state(entry: StatusEntry, job: JobNote) -> str:
    if entry.store.record.get("undeployed"):
        return "UNDEPLOYED"
    if entry.answer is None and is_damaged(entry.store):
        return "DAMAGED"
    return "PRUNED" if _pruned(entry, job) else str(job.get("state", "NONE"))


def _pruned(entry: StatusEntry, job: JobNote) -> str:
    """Why a trial of a search was cancelled; empty where it was not."""
    trial = entry.store.record.get("trial")
    return trial["pruned"] if trial and job.get("state") == "CANCELLED" else ""


def _explanation(entry: StatusEntry, job: JobNote) -> str:
    if pruned := _pruned(entry, job):
        return pruned
    if entry.answer is None and is_damaged(entry.store):
        return "its record here cannot be read; the target was not asked"
    if entry.answer and not entry.answer["there"] and (entry.store.record.get("job") or {}).get("job_id"):
        return "its folder on the target is gone"
    stages = entry.store.record.get("stages", {}).values()
    if entry.store.record.get("undeployed") and (not job.get("job_id") or job.get("state") in LIVING):
        return ""
    if not job.get("job_id") and job.get("state") != "DAMAGED":
        messages = [str(stage.get("message", "")) for stage in stages if stage.get("state") == "failed"]
        return messages[-1].partition("\n")[0] if messages else ""
    return str(job.get("explanation", ""))


def _stage(record: RecordData, job: JobNote) -> str:
    """Where the deployment is: at its job while that may live, and else at the last stage that it came to."""
    if record.get("undeployed"):
        return "undeployed"
    if job.get("job_id") and job.get("state") in LIVING:
        return "job"
    stage = str(record.get("stage", "planned"))
    return "results" if stage == "report" else stage


def _elapsed(entry: StatusEntry, job: JobNote) -> float | None:
    """Seconds that the job has run, or ran; by the target's own clock."""
    if job.get("state") in PENDING:  # it may have run before, and is queued again
        return None
    if entry.answer and entry.answer["elapsed"] is not None:
        seconds_since_answer = time.monotonic() - entry.asked if job.get("state") == "RUNNING" else 0.0
        return round(entry.answer["elapsed"] + seconds_since_answer, 1)
    started, ended = job.get("started"), job.get("ended")
    return round(max(0.0, ended - started), 1) if started and ended else None


def _predicted(plan: Plan, record: RecordData) -> float | None:
    """Seconds that the whole run was predicted to take; None where nothing similar was measured, or where it trains on
    other data than was counted on, of which nobody knows how much it is."""
    prediction = next(
        (candidate.get("prediction") for candidate in plan.get("candidates", ()) if candidate.get("chosen")), None
    )
    if not prediction or not prediction.get("known") or not trains(plan):
        return None
    share, seconds = _share_of_data(plan, record), float(prediction["seconds"]["middle"])
    if share == 1.0:
        return round(seconds, 1)
    training = mapping(prediction.get("parts")).get("training")
    return round(seconds - (1.0 - share) * float(training["middle"]), 1) if share and training else None


def _share_of_data(plan: Plan, record: RecordData) -> float | None:
    """How much of the samples that were counted on it trains with; None where it has other data than that."""
    data = plan.get("dataset")
    sources = data.get("sources") if data else None
    if not sources or record.get("data", sources[0].get("label")) == sources[0].get("label"):
        return 1.0
    from modak_ansible.model.dataset import DIGITS_LABEL, DIGITS_SAMPLES  # noqa: PLC0415 - pydantic is slow to import

    samples = mapping(plan["application"].get("work")).get("samples")
    return min(1.0, DIGITS_SAMPLES / samples) if record.get("data") == DIGITS_LABEL and samples else None


def _planned_epochs(plan: Plan) -> int | None:
    work = plan["application"].get("work")
    return work.get("epochs") if work else None
