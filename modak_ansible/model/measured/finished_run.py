"""What a finished run says of itself, as records have it: of its plan, its job, and the metrics of its script."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from math import log2
from typing import Any

from modak_ansible.model.measured.record import Allocation, Load, Measure, Record, RecordedImage, TrainingResult
from modak_ansible.model.plan import Plan
from modak_ansible.model.target import Target

MEASURES = "modak.measures/1"
# Cores that others may keep busy while a run is measured: more than a system's own housekeeping and the controller that
# waits for the job (0.02 of a core on the machine of the testbed), and far less than a busy neighbour, who doubled the
# time of an epoch (optimisations/process/wait_policy.md).
THRESHOLD = 0.25
_TUNED_FROM_KERAS = 3
_TUNED = {"pipeline_tuning": "stock", "step_loop": "plain", "input": "memory"}  # values where arrays go through it
_SHORTEST_TICK = 2**16 * 1e-6  # seconds: shorter steps were seen to take any time
_OFF_TICK = 0.025  # of the tick: an epoch's last step, and what is done between two sleeps


def disturbance(record: Record) -> str:
    """Why a run does not count as undisturbed; empty when it does, or when nobody knows."""
    cores = record.load.foreign_cores
    if cores is None or cores <= THRESHOLD:
        return ""
    return f"others kept {cores:.2f} cores busy while it ran, more than {THRESHOLD}"


def quantised_s(record: Record) -> float | None:
    """The tick in seconds of the clock of tf.data that a steady step stands on; None where none is seen.

    Keras 3 on TensorFlow takes the batches of fit from arrays through tf.data, for whose tuning each epoch waits until
    0.01 s x (2^k - 1) have passed. Of an epoch of 5, 10, 20 or 40 steps each then stands on a power of two of a
    microsecond, and is no measure of what it computes. Where several epochs stand on different ticks, it is the
    longest. Epochs of other lengths are not told from those that do not wait.
    """
    versions, settings = record.versions, record.settings
    if "tensorflow" not in versions or int(versions.get("keras", "0").split(".")[0]) < _TUNED_FROM_KERAS:
        return None
    if any(settings.get(name, stock) != stock for name, stock in _TUNED.items()):
        return None
    ticks = [_tick(seconds) for seconds in _step_seconds(record)]
    return max((tick for tick in ticks if tick), default=None)


def _tick(seconds: float) -> float | None:
    """The power of two of a microsecond that a step stands on."""
    tick = 2.0 ** round(log2(seconds / 1e-6)) * 1e-6
    return round(tick, 6) if tick >= _SHORTEST_TICK and abs(seconds / tick - 1) <= _OFF_TICK else None


def _step_seconds(record: Record) -> list[float]:
    """Of the steps of each steady epoch the mean; of a script that says nothing of its epochs the median of all."""
    if record.training is not None:
        steps = -(-record.training.training_images // record.training.batch_size)
        return [epoch.seconds / steps for epoch in record.training.steady if epoch.seconds > 0]
    return [record.steps.median_seconds] if record.steps and record.steps.median_seconds else []


def image(plan: Plan) -> RecordedImage:
    if not plan.image.layers:
        pulled = plan.image.path  # by nodes, whose container a job of theirs runs in
        return RecordedImage(digest=plan.image.digest, definition_digest="", base=pulled, container=bool(pulled))
    bottom, top = plan.image.layers[0], plan.image.layers[-1]
    return RecordedImage(
        digest=plan.image.digest,
        definition_digest=hashlib.sha256(top.definition.encode()).hexdigest(),
        base="" if top.kind == "venv" else bottom.source or bottom.name,
        container=plan.image.container_runtime != "none",
    )


def accelerator(target: Target, metrics: Mapping[str, Any]) -> str:
    """What computed beside the processor: as the script saw it, else as the target is described."""
    seen = metrics.get("accelerator")
    if seen:
        return str(seen)
    return target.accelerator.model or target.accelerator.vendor or "" if target.accelerator.count else ""


def allocation(plan: Plan, job_id: str) -> Allocation:
    return Allocation(
        job_id=job_id,
        partition=plan.job.partition,
        nodes=plan.job.nodes,
        processes_per_node=plan.job.processes_per_node,
        cores_per_process=plan.job.cores_per_process,
        threads=plan.job.threads,
        accelerators=plan.job.accelerators,
        exclusive=plan.job.exclusive,
    )


def load(metrics: Mapping[str, Any]) -> Load:
    """Of a training the mean over its steady epochs, by their length: what the start is slowed by is not compared."""
    if metrics.get("schema") == MEASURES:
        return Load(foreign_cores=metrics.get("foreign_cores"), load_average=metrics.get("load_average"))
    epochs = metrics.get("epochs") or []
    known = [epoch for epoch in epochs[1:] or epochs if epoch.get("foreign_cores") is not None]
    seconds = sum(each["seconds"] for each in known)
    mean = sum(each["foreign_cores"] * each["seconds"] for each in known) / seconds if seconds else None
    return Load(foreign_cores=mean, load_average=metrics.get("load_average"))


def measured(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a record that a metrics.json of our form fills.

    Raises:
        ValidationError, KeyError, TypeError: it is not what it must be.
    """
    if metrics.get("schema") == MEASURES:
        return {"measures": tuple(Measure(**measure) for measure in metrics["measures"])}
    fields = {name: metrics[name] for name in TrainingResult.model_fields if name in metrics}
    return {"training": TrainingResult(**{**fields, "dataset": _dataset(metrics["dataset"])})}


def _dataset(dataset: Any) -> str:
    return str(dataset.get("label") or dataset.get("name", "")) if isinstance(dataset, dict) else str(dataset)
