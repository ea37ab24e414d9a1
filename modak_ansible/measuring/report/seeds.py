"""Whole trainings from several seeds: whether one way to compute them learns as well as another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev

from modak_ansible.measuring.report.charts import Table
from modak_ansible.measuring.report.runs import Run
from modak_ansible.measuring.report.trainings import slug
from modak_ansible.model.measured.record import TrainingResult

LEAST_SEEDS = 3


@dataclass(frozen=True)
class Mean:
    """A mean over seeds with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Curve:
    """One variant: means over its seeds by epoch, and each seed's last accuracy."""

    label: str
    training_loss: tuple[Mean, ...]
    test_loss: tuple[Mean, ...]
    accuracies: dict[int, float]  # by seed, 0 to 1


@dataclass(frozen=True)
class Seeds:
    """The variants of one suite, workload and machine, trained on the same images; the first is the baseline."""

    name: str
    title: str
    caption: str
    curves: tuple[Curve, ...]

    @property
    def table(self) -> Table:
        """Final accuracies, and by how much they differ from the first variant's, seed by seed."""
        first = self.curves[0]
        rows = []
        for curve in self.curves:
            pairs = [
                curve.accuracies[seed] - first.accuracies[seed] for seed in curve.accuracies if seed in first.accuracies
            ]
            apart = "" if curve is first else _text(mean(pairs), signed=True)
            last = mean(curve.accuracies.values())
            losses = (
                f"{curve.test_loss[-1].value:.4f} ({curve.test_loss[-1].low:.4f} to {curve.test_loss[-1].high:.4f})"
            )
            rows.append((curve.label, f"{len(curve.accuracies)}", losses, f"{_text(last)} %", apart))
        columns = (
            "Variant",
            "Seeds",
            "Last test loss (95 %)",
            "Last accuracy (95 %)",
            "Difference, paired by seed, in points (95 %)",
        )
        return Table(columns, tuple(rows))


def seeds(runs: Iterable[Run]) -> list[Seeds]:
    """Whole trainings of which several seeds are on record; how busy the machine was has no part in what they learn."""
    groups: dict[tuple[str, ...], dict[str, dict[int, TrainingResult]]] = {}
    for run in sorted(runs, key=lambda run: (run.record.date, run.record.position)):
        record, training = run.record, run.record.training
        if training is not None and training.epochs and record.outcome in ("measured", "disturbed"):
            key = (record.suite, record.workload, record.target.processor, training.dataset, *_alike(training))
            groups.setdefault(key, {}).setdefault(record.variant, {})[training.seed] = training
    charts = []
    for (suite, workload, processor, dataset, images, epochs, *_), variants in groups.items():
        several = {label: by_seed for label, by_seed in variants.items() if len(by_seed) >= LEAST_SEEDS}
        if len(several) > 1:
            caption = f"{processor}. {epochs} epochs of {images} images of {dataset}."
            charts.append(
                Seeds(
                    slug(f"{suite} {workload}"),
                    f"{workload}: whole trainings",
                    caption,
                    tuple(map(_curve, several.items())),
                )
            )
    return charts


def mean(values: Iterable[float]) -> Mean:
    """With the interval of Student's t."""
    numbers = list(values)
    middle = fmean(numbers)
    if len(numbers) < 2:
        return Mean(middle, middle, middle)
    from scipy.stats import t  # noqa: PLC0415 - only the report needs it

    reach = float(t.ppf(0.975, len(numbers) - 1)) * stdev(numbers) / sqrt(len(numbers))
    return Mean(middle, middle - reach, middle + reach)


def _alike(training: TrainingResult) -> tuple[str, ...]:
    return (
        f"{training.training_images:,}", f"{len(training.epochs)}", f"{training.batch_size}",
        f"{training.learning_rate:g}", f"{training.dropout:g}",
    )  # fmt: skip


def _curve(variant: tuple[str, dict[int, TrainingResult]]) -> Curve:
    label, by_seed = variant
    return Curve(
        label,
        _means([[epoch.training_loss for epoch in training.epochs] for training in by_seed.values()]),
        _means([[epoch.test_loss for epoch in training.epochs] for training in by_seed.values()]),
        {seed: training.epochs[-1].test_accuracy for seed, training in sorted(by_seed.items())},
    )


def _means(rows: Sequence[Sequence[float]]) -> tuple[Mean, ...]:
    return tuple(mean(column) for column in zip(*rows, strict=True))


def _text(interval: Mean, *, signed: bool = False) -> str:
    """In per cent."""
    sign = "+" if signed else ""
    value, low, high = (f"{100 * number:{sign}.2f}" for number in (interval.value, interval.low, interval.high))
    return f"{value} ({low} to {high})"
