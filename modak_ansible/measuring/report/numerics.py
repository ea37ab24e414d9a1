"""Whether the frameworks computed the same: first losses without dropout, gradients, final accuracy."""

from __future__ import annotations

from collections.abc import Iterable

from modak_ansible.measuring.report.charts import Table, number
from modak_ansible.measuring.report.runs import Comparison, Variant
from modak_ansible.measuring.statistics import summary
from modak_ansible.model.record import TrainingResult

COLUMNS = (
    "Variant",
    "First losses without dropout",
    "Largest difference",
    "Gradient error",
    "Final accuracy (least to most, n)",
)


def numerics_tables(found: Iterable[Comparison]) -> list[tuple[str, Table]]:
    """One table for each workload and way to train; a row for each variant.

    Losses are compared where dropout was 0, and data, batch, seed and learning rate were alike: with dropout every
    framework draws random numbers of its own.
    """
    groups: dict[tuple[str, ...], list[tuple[Variant, TrainingResult]]] = {}
    for comparison in found:
        for variant in comparison.variants:
            for training in variant.trainings:
                groups.setdefault(_same(comparison, training), []).append((variant, training))
    return [(_title(key), _table(members)) for key, members in sorted(groups.items())]


def _same(comparison: Comparison, training: TrainingResult) -> tuple[str, ...]:
    """What must be alike for losses to be comparable, as texts."""
    return (
        comparison.workload,
        training.dataset,
        f"{training.training_images:,}",
        f"{training.batch_size}",
        f"{training.seed}",
        f"{training.learning_rate:g}",
        f"{training.dropout:g}",
        f"{len(training.epochs)}",
    )


def _title(key: tuple[str, ...]) -> str:
    workload, dataset, images, batch, seed, rate, dropout, epochs = key
    return (
        f"{workload}: {dataset}, {images} images, batch {batch}, seed {seed}, learning rate {rate}, "
        f"dropout {dropout}, {epochs} {'epoch' if epochs == '1' else 'epochs'}"
    )


def _table(members: list[tuple[Variant, TrainingResult]]) -> Table:
    by_label: dict[str, list[TrainingResult]] = {}
    for variant, training in members:
        by_label.setdefault(variant.label, []).append(training)
    reference = next((each for each in by_label.values() if _losses(each)), None)
    rows = []
    for label, trainings in by_label.items():
        rows.append(
            (
                label,
                ", ".join(f"{loss:.5f}" for loss in _losses(trainings)) or "with dropout",
                "reference" if trainings is reference else _difference(reference, trainings),
                _gradient(trainings),
                _accuracy(trainings),
            )
        )
    return Table(COLUMNS, tuple(rows))


def _losses(trainings: list[TrainingResult]) -> tuple[float, ...]:
    """Of the first run: with one seed a variant begins alike every time."""
    return trainings[0].first_losses[:5] if trainings[0].dropout == 0 else ()


def _difference(reference: list[TrainingResult] | None, trainings: list[TrainingResult]) -> str:
    """The largest relative difference of a step's loss from the reference's."""
    pairs = list(zip(_losses(reference) if reference else (), _losses(trainings), strict=False))
    if not pairs:
        return "not compared"
    return f"{max(abs(one - other) / max(abs(one), 1e-12) for one, other in pairs):.1e}"


def _gradient(trainings: list[TrainingResult]) -> str:
    errors = [each.gradient_error for each in trainings if each.gradient_error is not None]
    return f"{max(errors):.1e}" if errors else "not given"


def _accuracy(trainings: list[TrainingResult]) -> str:
    values = [each.epochs[-1].test_accuracy for each in trainings if each.epochs]
    if not values:
        return "not measured"
    found = summary(100 * each for each in values)
    ends = f"{number(found.least)} to {number(found.most)}, " if found.n > 1 else ""
    return f"{number(found.median)} % ({ends}n = {found.n})"
