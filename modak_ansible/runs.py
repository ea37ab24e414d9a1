"""What a finished run says of itself, as records have it: of its plan, its job, and the metrics of its script."""

from __future__ import annotations

import hashlib
from typing import Any

from modak_ansible.model.plan import Plan
from modak_ansible.model.record import Allocation, Load, Measure, Record, RecordedImage, TrainingResult
from modak_ansible.model.target import Target

MEASURES = "modak.measures/1"
# Cores that others may keep busy while a run is measured: more than a system's own housekeeping and the controller that
# waits for the job (0.02 of a core on the machine of the testbed), and far less than a busy neighbour, who doubled the
# time of an epoch (optimisations/wait_policy.md).
THRESHOLD = 0.25


def disturbance(record: Record) -> str:
    """Why a run does not count as undisturbed; empty when it does, or when nobody knows."""
    cores = record.load.foreign_cores
    if cores is None or cores <= THRESHOLD:
        return ""
    return f"others kept {cores:.2f} cores busy while it ran, more than {THRESHOLD}"


def image(plan: Plan) -> RecordedImage:
    """What the run ran in."""
    if not plan.image.layers:
        return RecordedImage(digest="", definition_digest="", base="", container=False)
    bottom, top = plan.image.layers[0], plan.image.layers[-1]
    return RecordedImage(
        digest=plan.image.digest,
        definition_digest=hashlib.sha256(top.definition.encode()).hexdigest(),
        base="" if top.kind == "venv" else bottom.source or bottom.name,
        container=plan.image.container_runtime != "none",
    )


def accelerator(target: Target, metrics: dict[str, Any]) -> str:
    """What computed beside the processor: as the script saw it, else as the target is described."""
    seen = metrics.get("accelerator")
    if seen:
        return str(seen)
    return target.accelerator.model or target.accelerator.vendor or "" if target.accelerator.count else ""


def allocation(plan: Plan, job: dict[str, Any]) -> Allocation:
    """What the scheduler gave the run."""
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


def load(metrics: dict[str, Any]) -> Load:
    """Of a training the mean over its steady epochs, by their length: what the start is slowed by is not compared."""
    if metrics.get("schema") == MEASURES:
        return Load(foreign_cores=metrics.get("foreign_cores"), load_average=metrics.get("load_average"))
    epochs = metrics.get("epochs") or []
    known = [each for each in epochs[1:] or epochs if each.get("foreign_cores") is not None]
    seconds = sum(each["seconds"] for each in known)
    mean = sum(each["foreign_cores"] * each["seconds"] for each in known) / seconds if seconds else None
    return Load(foreign_cores=mean, load_average=metrics.get("load_average"))


def measured(metrics: dict[str, Any]) -> dict[str, Any]:
    """The fields of a record that a metrics.json of our form fills.

    Raises:
        ValidationError, KeyError, TypeError: it is not what it must be.
    """
    if metrics.get("schema") == MEASURES:
        return {"measures": tuple(Measure(**each) for each in metrics["measures"])}
    fields = {name: metrics[name] for name in TrainingResult.model_fields if name in metrics}
    return {"training": TrainingResult(**{**fields, "dataset": _dataset(metrics["dataset"])})}


def _dataset(dataset: Any) -> str:
    return str(dataset.get("label") or dataset.get("name", "")) if isinstance(dataset, dict) else str(dataset)
