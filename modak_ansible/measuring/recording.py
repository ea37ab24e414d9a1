"""The record of a run, from what it measured and from what its plan says."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from modak_ansible.errors import ModakError
from modak_ansible.measuring.executor import NodeFacts, RunOutcome
from modak_ansible.measuring.suites.variants import Variant
from modak_ansible.model.measured.finished_run import accelerator, allocation, image, judged, load, measured
from modak_ansible.model.measured.record import Record, RecordedTarget
from modak_ansible.model.measured.suite import Suite
from modak_ansible.model.plan import Plan
from modak_ansible.model.target import Target
from modak_ansible.store.record import told_by


@dataclass(frozen=True)
class Turn:
    round: int = 1
    position: int = 1  # its place in the order of its round, from 1
    attempt: int = 1  # how often its round was begun


def now() -> str:
    """The present moment as records have it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _start_date(outcome: RunOutcome) -> str:
    """When the job began by its own word, which it gives before it waits for anything."""
    started = outcome.job.get("started")
    return datetime.fromtimestamp(started, UTC).isoformat(timespec="seconds") if started else ""


def record_of(
    suite: Suite, variant: Variant, turn: Turn, date: str, plan: Plan, facts: NodeFacts | None, outcome: RunOutcome
) -> Record:
    """What a run has to say.

    Args:
        date: when it was submitted, for a job of which nobody knows when it began.
    """
    metrics = outcome.metrics or {}
    record = Record(
        **_identity(suite, variant, turn, _start_date(outcome) or date),
        outcome="measured",
        plan=plan.digest,
        image=image(plan),
        target=_target(variant, plan.target, facts, metrics),
        allocation=allocation(plan, outcome.job.get("job_id", "")),
        load=load(metrics),
        versions=metrics.get("versions", {}),
        **told_by(outcome.energy),
    )
    if outcome.problem:
        return record.model_copy(update={"outcome": "failed", "reason": outcome.problem})
    try:
        return judged(record.model_copy(update=measured(metrics)))
    except (ValueError, KeyError, TypeError) as error:
        reason = f"its metrics.json is not valid: {error}"
        return record.model_copy(update={"outcome": "failed", "reason": reason})


def not_run(
    suite: Suite,
    variant: Variant,
    turn: Turn,
    target: Target,
    facts: NodeFacts | None,
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


def _target(variant: Variant, target: Target, facts: NodeFacts | None, metrics: dict[str, Any]) -> RecordedTarget:
    """The node as the job saw it; what the front end says of itself holds for nodes with the same processor only."""
    processor = metrics.get("processor") or {}
    model = processor.get("model") or (facts["processor"] if facts else "")
    node_facts = facts if facts and model == facts["processor"] else None
    return RecordedTarget(
        name=variant.target,
        scheduler=target.scheduler.value,
        hostname=metrics.get("hostname") or (facts["hostname"] if facts else ""),
        processor=model,
        architecture=(node_facts["architecture"] if node_facts else processor.get("architecture", ""))
        or target.processor.architecture,
        cores=node_facts["cores"] if node_facts else None,
        memory=node_facts["memory"] if node_facts else None,
        accelerator=accelerator(target, metrics),
    )
