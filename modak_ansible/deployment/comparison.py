"""Trainings held against each other: what they were given that differs, how they went, and which was best."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from modak_ansible.deployment.searches.search_store import searches_of
from modak_ansible.errors import ModakError, UsageError, nearest
from modak_ansible.model.quantities import some_of
from modak_ansible.store.deployment import DeploymentStore
from modak_ansible.store.record import RecordData
from modak_ansible.target.core.plan import Plan
from modak_ansible.target.core.staging import CODE
from modak_ansible.target.jobs.numbers import numbers_of
from modak_ansible.target.jobs.situation import LIVING
from modak_ansible.target.metrics.curves import Curve, Curves, is_rising, read_curves
from modak_ansible.target.metrics.files import kind_of

# What is compared by where nobody says: the first that the most trainings have.
_USUAL = ("val_loss", "eval_loss", "valid_loss", "validation_loss", "test_loss", "loss", "train_loss")
_NO_HISTORY = "point"  # the axis of a number that was written once


@dataclass(frozen=True)
class ComparedRun:
    deployment: str
    training: str
    state: str
    given: dict[str, str]  # its arguments and what else its plan chose, by name
    seconds: float | None  # how long its job ran; None where nobody knows
    joules: float | None  # that its nodes used; None where nothing counts it
    numbers: dict[str, float]  # the last of each that is a finite number
    curves: Curves

    def curve(self, name: str) -> Curve | None:
        """One of its numbers; of one of which there is no history a curve of one point."""
        curve = self.curves.by_name.get(name)
        if curve is None and name in self.numbers:
            return Curve(_NO_HISTORY, {1.0: self.numbers[name]})
        return curve

    def best(self, name: str, *, rising: bool) -> tuple[float, float] | None:
        """Place and value of its best; None where it has no finite one."""
        curve = self.curve(name)
        return curve.best(rising=rising) if curve else None


@dataclass(frozen=True)
class Comparison:
    """Trainings, the best one first, and those without a number at the end."""

    by: str  # the name of the number that they are compared by
    rising: bool  # whether more of it is better
    names: tuple[str, ...]  # of all numbers, those that most have first
    differs: tuple[str, ...]  # names of what they were given that is not the same for all
    runs: tuple[ComparedRun, ...]
    remarks: tuple[str, ...]  # what is wrong with their numbers, in words
    axis: str  # what the places of most curves are, such as epoch: only these are drawn beside each other

    def label(self, run: ComparedRun) -> str:
        """What tells a training from the others: ``lr=0.1, batch-size=64``."""
        settings = ", ".join(f"{name}={run.given[name]}" for name in self.differs if name in run.given)
        return settings or run.training

    def best(self, run: ComparedRun) -> tuple[float, float] | None:
        return run.best(self.by, rising=self.rising)

    def drawn(self) -> list[tuple[int, ComparedRun, Curve]]:
        """The curves that share the axis, with the places of their trainings, from 0."""
        curves = ((place, run, run.curve(self.by)) for place, run in enumerate(self.runs))
        return [(place, run, curve) for place, run, curve in curves if curve and curve.by == self.axis]


def compare(
    stores: Sequence[DeploymentStore],
    by: str | None = None,
    *,
    rising: bool | None = None,
    fetch: Callable[..., object] | None = None,
) -> Comparison:
    """Compares trainings by one of their numbers.

    Args:
        by: the number's name; without it a loss, or whatever the most of them have.
        rising: whether higher is better; by default judged by its name.
        fetch: brings what is not here yet; none for what is here alone.

    Raises:
        UsageError: none has a number of that name, or any.
    """
    remarks = fetched(stores, fetch)
    searches = searches_of(stores)
    if searches and by in (None, searches[0]["objective"]):  # which is best is what it was told
        by, rising = searches[0]["objective"], searches[0]["rising"] if rising is None else rising
    runs = [run_of(store) for store in stores]
    counted = Counter(name for run in runs for name in {*run.curves.by_name, *run.numbers})
    order = {name: place for place, name in enumerate(numbers_of(dict.fromkeys(sorted(counted), 0.0)))}
    names = sorted(counted, key=lambda name: (-counted[name], order.get(name, len(order)), name))
    if not names:
        hint = (
            "a script gives them to modak_runtime.log, or writes metrics.json, metrics.jsonl, metrics.csv or "
            "TensorBoard's event files"
        )
        trainings = some_of([store.name for store in stores], 3)
        raise UsageError(f"no numbers are known for {trainings}", hint=hint)
    if by is not None and by not in counted:
        hint = nearest(by, names) or f"there are {', '.join(names[:12])}, and {len(names) - 12} more"
        raise UsageError(f"none of these trainings has a number {by}", hint=hint)
    by = by or next((name for name in _USUAL if counted[name] == counted[names[0]]), names[0])
    is_better_above = is_rising(by) if rising is None else rising
    remarks += [f"{run.training}: {line}" for run in runs for line in [*run.curves.lost, *run.curves.remarks]]

    def place(run: ComparedRun) -> tuple[bool, float]:
        best = run.best(by, rising=is_better_above)
        return best is None, (-best[1] if is_better_above else best[1]) if best else 0.0

    ordered = tuple(sorted(runs, key=place))
    axes = Counter(curve.by for run in ordered if (curve := run.curve(by)))
    axis = max(axes, key=lambda candidate: (candidate != _NO_HISTORY, axes[candidate]))
    for other in set(axes) - {axis, _NO_HISTORY}:
        remarks.append(f"{by} by {axis} is drawn, and the curves of {axes[other]} that have it by {other} are not")
    return Comparison(by, is_better_above, tuple(names), _differing(runs), ordered, tuple(remarks), axis)


def fetched(stores: Sequence[DeploymentStore], fetch: Callable[..., object] | None) -> list[str]:
    """Brings what is not here; what stands in the way is a remark, for what is here can be compared."""
    on_target = [store for store in stores if not store.record_now().get("undeployed") and store.job.get("job_id")]
    unfetched = [store for store in on_target if not store.is_brought]
    if not unfetched or fetch is None:
        return []
    try:
        fetch(*unfetched)
    except ModakError as error:
        return [f"what is on the target could not be fetched: {error.message}"]
    return []


def curves_of(store: DeploymentStore) -> Curves:
    """All numbers that the files of metrics of a deployment's training hold that are here."""
    return read_curves(store.results, [file.path for file in store.files if (store.results / file.path).is_file()])


def run_of(store: DeploymentStore) -> ComparedRun:
    record, plan = store.record_now(), store.plan
    job, curves = record.get("job") or {}, curves_of(store)
    metrics: dict[str, Any] = dict(record.get("metrics") or {})
    measured = {name: metrics[name] for name in ("accuracy", "loss") if metrics.get(name) is not None}
    numbers = {**measured, **(metrics.get("numbers") or {}), **curves.last}
    curves.remarks += store.damage
    left_files = record.get("left")
    for name in filter(kind_of, left_files["names"] if left_files else ()):  # too large to be brought unasked
        if not (store.results / CODE / name).exists():
            curves.remarks.append(f"{name} stays on the target: modak results {store.name} --also {name} fetches it")
    started, ended = job.get("started"), job.get("ended")
    return ComparedRun(
        deployment=store.name,
        training=str(plan.get("training", store.name)),
        state=_state(record, str(job.get("state", "NONE"))),
        given=_given(plan),
        seconds=round(ended - started, 1) if started and ended and job.get("state") not in LIVING else None,
        joules=energy["joules"] if (energy := record.get("energy")) else None,
        numbers={name: float(value) for name, value in numbers.items() if math.isfinite(value)},
        curves=curves,
    )


def _state(record: RecordData, state: str) -> str:
    trial = record.get("trial")
    is_pruned = state == "CANCELLED" and trial is not None and trial["pruned"]
    return "UNDEPLOYED" if record.get("undeployed") else "PRUNED" if is_pruned else state


def _given(plan: Plan) -> dict[str, str]:
    """What a training was given: its arguments, where it ran, and what its plan chose."""
    arguments: dict[str, str] = {}
    for name, value in plan.get("application", {}).get("arguments", []):
        text = str(value).lower() if isinstance(value, bool) else str(value)
        arguments[name] = f"{arguments[name]} {text}" if name in arguments else text
    beside = {
        "target": plan.get("target", {}).get("name", ""),
        **{choice.get("name", ""): str(choice.get("value", "")) for choice in plan.get("choices", [])},
    }
    return {**beside, **arguments}


def _differing(runs: Iterable[ComparedRun]) -> tuple[str, ...]:
    """Names of what is not the same for all; arguments first, as the first training has them."""
    run_list = list(runs)
    names = list(dict.fromkeys(name for run in run_list for name in reversed(run.given)))
    return tuple(name for name in reversed(names) if len({run.given.get(name) for run in run_list}) > 1)
