"""What a finished run says of itself, as records have it: of its plan, its job, and the metrics of its script."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from math import isfinite, log2
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
_FIRST_SLEEP = 0.01  # seconds
_SHORTEST_WAIT = 6  # of the sleeps that are added up: shorter epochs were seen to take any time
_WITHIN = 0.1  # seconds behind the last sleep, in which the next epoch begins: 0.03 to 0.09 were seen


def judged(record: Record, interruption: str = "") -> Record:
    """A record that measured something, disturbed where something kept it from being a measure of what it ran alone.

    Args:
        interruption: why its times are not those of a run at one go; empty where they are.
    """
    reason = disturbance(record) or interruption
    outcome = {"outcome": "disturbed", "reason": reason} if reason else {}
    return record.model_copy(update={"quantised_s": quantised_s(record), **outcome})


def disturbance(record: Record) -> str:
    """Why a run does not count as undisturbed; empty when it does, or when nobody knows."""
    cores = record.load.foreign_cores
    if cores is None or cores <= THRESHOLD:
        return ""
    return f"others kept {cores:.2f} cores busy while it ran, more than {THRESHOLD}"


def quantised_s(record: Record) -> float | None:
    """The seconds until which the steady epochs of a training waited for tf.data; None where they did not.

    Keras 3 on TensorFlow takes the batches of fit from arrays through tf.data, whose tuning sleeps 10 ms, 20 ms, 40 ms
    and so on; the next epoch begins when such a sleep has ended. An epoch that ends then is no measure of what it
    computes. Where several epochs waited, it is the longest.
    """
    versions, settings = record.versions, record.settings
    if "tensorflow" not in versions or int(versions.get("keras", "0").split(".")[0]) < _TUNED_FROM_KERAS:
        return None
    if record.training is None or any(settings.get(name, stock) != stock for name, stock in _TUNED.items()):
        return None
    waits = [_wait(epoch.seconds) for epoch in record.training.steady]
    return max((wait for wait in waits if wait), default=None)


def _wait(seconds: float) -> float | None:
    """The end of the sleep behind which an epoch of so many seconds ended."""
    sleeps = int(log2(max(seconds, 0.0) / _FIRST_SLEEP + 1))
    sleep_seconds = round(_FIRST_SLEEP * (2**sleeps - 1), 2)
    return sleep_seconds if sleeps >= _SHORTEST_WAIT and seconds - sleep_seconds <= _WITHIN else None


def image(plan: Plan) -> RecordedImage:
    if not plan.image.layers:
        reference = plan.image.path  # by nodes, whose container a job of theirs runs in
        return RecordedImage(digest=plan.image.digest, definition_digest="", base=reference, container=bool(reference))
    bottom, top = plan.image.layers[0], plan.image.layers[-1]
    return RecordedImage(
        digest=plan.image.digest,
        definition_digest=hashlib.sha256(top.definition.encode()).hexdigest(),
        base="" if top.kind == "venv" else bottom.source or bottom.name,
        container=plan.image.container_runtime != "none",
    )


def accelerator(target: Target, metrics: Mapping[str, Any]) -> str:
    """What computed beside the processor: as the script saw it, else as the target is described."""
    name = metrics.get("accelerator")
    if name:
        return str(name)
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
    epochs_with_load = [epoch for epoch in epochs[1:] or epochs if epoch.get("foreign_cores") is not None]
    seconds = sum(epoch["seconds"] for epoch in epochs_with_load)
    mean = sum(epoch["foreign_cores"] * epoch["seconds"] for epoch in epochs_with_load) / seconds if seconds else None
    return Load(foreign_cores=mean, load_average=metrics.get("load_average"))


def measured(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a record that a metrics.json of our form fills.

    Raises:
        ValueError, KeyError, TypeError: it is not what it must be.
    """
    if metrics.get("schema") == MEASURES:
        return {"measures": tuple(Measure(**measure) for measure in metrics["measures"])}
    fields = {name: metrics[name] for name in TrainingResult.model_fields if name in metrics}
    training = TrainingResult(**{**fields, "dataset": _dataset(metrics["dataset"])})
    if min(training.training_images, training.batch_size) < 1 or not all(isfinite(e.seconds) for e in training.epochs):
        raise ValueError("nothing can be computed of so many images, or of epochs of such a length")
    return {"training": training}


def _dataset(dataset: Any) -> str:
    return str(dataset.get("label") or dataset.get("name", "")) if isinstance(dataset, dict) else str(dataset)
