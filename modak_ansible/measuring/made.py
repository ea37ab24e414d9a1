"""The record of a run, from what it measured and from what its plan says."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import ValidationError

from modak_ansible.errors import ModakError
from modak_ansible.measuring.executor import Outcome
from modak_ansible.measuring.load import disturbance
from modak_ansible.measuring.variants import Variant
from modak_ansible.model.plan import Plan
from modak_ansible.model.record import (
    Allocation,
    Load,
    Measure,
    Record,
    RecordedImage,
    RecordedTarget,
    TrainingResult,
)
from modak_ansible.model.suite import Suite
from modak_ansible.model.target import Target

_MEASURES = "modak.measures/1"


@dataclass(frozen=True)
class Turn:
    """When a run had its turn.

    Attributes:
        position: its place in the order of its round, from 1.
        attempt: how often its round was begun.
    """

    round: int = 1
    position: int = 1
    attempt: int = 1


def now() -> str:
    """The present moment as records have it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _begun(outcome: Outcome) -> str:
    """When the job began by its own word, which it gives before it waits for anything."""
    started = outcome.job.get("started")
    return datetime.fromtimestamp(started, UTC).isoformat(timespec="seconds") if started else ""


def record_of(
    suite: Suite, variant: Variant, turn: Turn, date: str, plan: Plan, facts: dict[str, Any], outcome: Outcome
) -> Record:
    """What a run has to say.

    Args:
        suite: that it belongs to.
        variant: what was run.
        turn: when in its suite.
        date: when it was submitted, for a job of which nobody knows when it began.
        plan: that was carried out.
        facts: of its target, with its ``architecture``.
        outcome: how it ended.
    """
    metrics = outcome.metrics or {}
    record = Record(
        **_identity(suite, variant, turn, _begun(outcome) or date),
        outcome="measured",
        plan=plan.digest,
        image=_image(plan),
        target=_target(variant, plan.target, facts, metrics),
        allocation=_allocation(plan, outcome.job),
        load=_load(metrics),
        versions=metrics.get("versions", {}),
    )
    if outcome.problem:
        return record.model_copy(update={"outcome": "failed", "reason": outcome.problem})
    try:
        record = record.model_copy(update=_measured(metrics))
    except (ValidationError, KeyError, TypeError) as error:
        reason = f"its metrics.json is not what it must be: {error}"
        return record.model_copy(update={"outcome": "failed", "reason": reason})
    reason = disturbance(record)
    return record.model_copy(update={"outcome": "disturbed", "reason": reason}) if reason else record


def not_run(
    suite: Suite,
    variant: Variant,
    turn: Turn,
    target: Target,
    facts: dict[str, Any],
    outcome: Literal["failed", "refused"],
    reason: str,
) -> Record:
    """The record of a variant that never became a job."""
    identity = _identity(suite, variant, turn, now())
    return Record(**identity, outcome=outcome, reason=reason, target=_target(variant, target, facts, {}))


def reason_of(error: ModakError) -> str:
    """An error in one line of a record, with what to do about it."""
    return f"{error.message}; {error.hint}" if error.hint else error.message


def _identity(suite: Suite, variant: Variant, turn: Turn, date: str) -> dict[str, Any]:
    entry = variant.entry
    return {
        "date": date,
        "suite": suite.name,
        "suite_digest": suite.digest,
        "group": variant.group,
        "variant": variant.name,
        "round": turn.round,
        "position": turn.position,
        "attempt": turn.attempt,
        "workload": variant.workload.name,
        "entry": entry.name,
        "framework": entry.framework,
        "version": entry.version,
        "origin": entry.origin,
        "settings": variant.settings,
    }


def _image(plan: Plan) -> RecordedImage:
    bottom, top = plan.image.layers[0], plan.image.layers[-1]
    return RecordedImage(
        digest=plan.image.digest,
        definition_digest=hashlib.sha256(top.definition.encode()).hexdigest(),
        base="" if top.kind == "venv" else bottom.source or bottom.name,
        container=plan.image.container_runtime != "none",
    )


def _target(variant: Variant, target: Target, facts: dict[str, Any], metrics: dict[str, Any]) -> RecordedTarget:
    """The node as the job saw it; what the front end says of itself holds for nodes with the same processor only."""
    seen = metrics.get("processor") or {}
    model = seen.get("model") or facts.get("processor", "")
    alike = model == facts.get("processor")
    return RecordedTarget(
        name=variant.target,
        scheduler=target.scheduler.value,
        hostname=metrics.get("hostname") or facts.get("hostname", ""),
        processor=model,
        architecture=(facts["architecture"] if alike and "architecture" in facts else seen.get("architecture", ""))
        or target.processor.architecture,
        cores=facts.get("cores") if alike else None,
        memory=facts.get("memory") if alike else None,
        accelerator=_accelerator(target, metrics),
    )


def _accelerator(target: Target, metrics: dict[str, Any]) -> str:
    seen = metrics.get("accelerator")
    if seen:
        return str(seen)
    return target.accelerator.model or target.accelerator.vendor or "" if target.accelerator.count else ""


def _allocation(plan: Plan, job: dict[str, Any]) -> Allocation:
    return Allocation(
        job_id=job.get("job_id", ""),
        partition=plan.job.partition,
        nodes=plan.job.nodes,
        processes_per_node=plan.job.processes_per_node,
        cores_per_process=plan.job.cores_per_process,
        threads=plan.job.threads,
        accelerators=plan.job.accelerators,
        exclusive=plan.job.exclusive,
    )


def _load(metrics: dict[str, Any]) -> Load:
    """Of a training the mean over its steady epochs, by their length: what the start is slowed by is not compared."""
    if metrics.get("schema") == _MEASURES:
        return Load(foreign_cores=metrics.get("foreign_cores"), load_average=metrics.get("load_average"))
    epochs = metrics.get("epochs") or []
    known = [each for each in epochs[1:] or epochs if each.get("foreign_cores") is not None]
    seconds = sum(each["seconds"] for each in known)
    mean = sum(each["foreign_cores"] * each["seconds"] for each in known) / seconds if seconds else None
    return Load(foreign_cores=mean, load_average=metrics.get("load_average"))


def _measured(metrics: dict[str, Any]) -> dict[str, Any]:
    if metrics.get("schema") == _MEASURES:
        return {"measures": tuple(Measure(**each) for each in metrics["measures"])}
    fields = {name: metrics[name] for name in TrainingResult.model_fields if name in metrics}
    return {"training": TrainingResult(**{**fields, "dataset": _dataset(metrics["dataset"])})}


def _dataset(dataset: Any) -> str:
    return str(dataset.get("label") or dataset.get("name", "")) if isinstance(dataset, dict) else str(dataset)
