"""A picture of a plan after its job ran: what was predicted, with its interval, against what was measured."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from modak_ansible.commands.compare.picture import save
from modak_ansible.commands.plan import facts
from modak_ansible.errors import ModakError
from modak_ansible.measuring.records import read_records
from modak_ansible.model.measured.prediction import Interval
from modak_ansible.model.measured.record import Record
from modak_ansible.model.plan import Plan
from modak_ansible.planning.costs.energy import RECORDS

_SIZE, _DPI = (8.0, 3.2), 150  # inches, dots an inch
_PREDICTED, _MEASURED = "#2f6fb7", "#c2570c"


def draw(plan: Plan, state: Path, file: Path) -> list[str]:
    """Draws the picture, in the format that the file's name ends with; gives what it shows, a line for each part.

    Args:
        state: the state folder of its project, where every finished job leaves a record.

    Raises:
        UsageError: the file's name does not end as a picture's.
        ModakError: no job of the plan has ended, nothing was predicted of it, or the file cannot be written.
    """
    record = _record(plan, state)
    rows = compared(plan, record)
    notes = [*_of_other_samples(plan, record), *_of_no_whole(plan)]
    _write(plan, rows, notes, file)
    lines = [
        f"{name}: {measured:.3g} s measured, {_interval(predicted)} predicted" for name, predicted, measured in rows
    ]
    return [*lines, *notes]


def compared(plan: Plan, record: Record) -> list[tuple[str, Interval, float]]:
    """Every part that was predicted and measured, in seconds, and the whole run where its training was predicted.

    What was predicted is that of as many samples as the job had.

    Raises:
        ModakError: nothing was predicted of the plan's run, or nothing measured of its parts.
    """
    prediction = plan.prediction
    if prediction is None:
        raise ModakError("nothing was predicted of this plan", hint="modak model show lists what is known")
    measured, predicted = _measured(record), dict(prediction.parts)
    if training := predicted.get("training"):
        missing = 1.0 - _share(plan, record)
        predicted["whole"] = prediction.seconds
        predicted.update({name: _less(predicted[name], training, missing) for name in ("training", "whole")})
    rows = [(name, predicted[name], measured[name]) for name in predicted if name in measured]
    if not rows:
        raise ModakError("the job measured nothing of what was predicted")
    return rows


def _samples(record: Record) -> int | None:
    """Of an epoch of the job."""
    if record.training is not None:
        return record.training.training_images
    return record.steps.samples if record.steps is not None else None


def _share(plan: Plan, record: Record) -> float:
    """Samples that the job had of those that were planned with, as where drawn digits take MNIST's place."""
    had, planned = _samples(record), plan.application.work.samples
    return had / planned if had and planned else 1.0


def _of_other_samples(plan: Plan, record: Record) -> Iterator[str]:
    if _share(plan, record) != 1.0:
        planned = plan.application.work.samples
        yield f"predictions are for the {_samples(record):,} samples that the job had; {planned:,} were planned"


def _of_no_whole(plan: Plan) -> Iterator[str]:
    if plan.prediction and not plan.prediction.known:
        yield f"the whole run: {facts.predicted(plan)}"


def _less(whole: Interval, part: Interval, share: float) -> Interval:
    """A time without a share of one of its parts."""
    ends = {end: getattr(whole, end) - share * getattr(part, end) for end in ("middle", "low", "high")}
    return Interval(middle=ends["middle"], low=min(ends.values()), high=max(ends.values()))


def _interval(predicted: Interval) -> str:
    return f"{predicted.middle:.3g} s ({predicted.low:.3g} to {predicted.high:.3g})"


def _record(plan: Plan, state: Path) -> Record:
    path = state / RECORDS
    records = [record for record in read_records(path) if record.plan == plan.digest] if path.exists() else []
    ended = [record for record in records if record.outcome in ("measured", "disturbed")]
    if records and not ended:
        raise ModakError("no job of this plan was measured", hint=records[-1].reason or "modak logs shows why")
    if not ended:
        raise ModakError(
            "no job of this plan has ended yet", hint="modak deploy carries it out, modak status looks at it"
        )
    return ended[-1]


def _measured(record: Record) -> dict[str, float]:
    """Seconds of the parts that a prediction has; what a first step takes longer is in the training."""
    result, steps = record.training, record.steps
    parts: dict[str, float | None] = {}
    if result is not None:
        training = sum(epoch.seconds for epoch in result.epochs)
        parts = {"start": result.seconds.to_first_step, "training": training, "whole": result.seconds.total}
    elif steps is not None:
        first, to_first = steps.first_seconds, steps.to_first_step_seconds
        start = to_first - first if first is not None and to_first is not None else None
        parts = {"start": start, "training": steps.all_seconds, "whole": steps.total_seconds}
    return {name: seconds for name, seconds in parts.items() if seconds}


def _write(plan: Plan, rows: list[tuple[str, Interval, float]], notes: list[str], file: Path) -> None:
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogFormatter

    figure = Figure(figsize=_SIZE)
    axes = figure.add_subplot()
    places = range(len(rows), 0, -1)
    middles = [predicted.middle for _, predicted, _ in rows]
    below = [max(predicted.middle - predicted.low, 0) for _, predicted, _ in rows]
    above = [max(predicted.high - predicted.middle, 0) for _, predicted, _ in rows]
    axes.errorbar(
        middles,
        list(places),
        xerr=[below, above],
        fmt="o",
        color=_PREDICTED,
        capsize=4,
        label="predicted, with 90 % interval",
    )
    axes.plot([measured for _, _, measured in rows], list(places), "D", color=_MEASURED, label="measured")
    axes.set_yticks(list(places), [name.replace("_", " ") for name, _, _ in rows])
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(LogFormatter())  # plain numbers; the log scale's own would be powers of ten
    axes.xaxis.set_minor_formatter(LogFormatter(minor_thresholds=(2, 0.4)))
    axes.set_xlabel("\n".join(["seconds", *notes]), fontsize=8, parse_math=False, wrap=True)
    axes.set_title(f"{plan.name}: {plan.training}, plan {plan.digest[:12]}", fontsize=10)
    axes.legend(fontsize=8)
    axes.grid(axis="x", alpha=0.3)
    figure.tight_layout()
    save(figure, file, dpi=_DPI)
