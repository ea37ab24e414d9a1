"""Whether the frameworks computed the same: first losses without dropout, gradients, final accuracy."""

from __future__ import annotations

import re
from collections.abc import Iterable

from modak_ansible.measuring.report.charts import Table, number
from modak_ansible.measuring.report.paper import paper
from modak_ansible.measuring.report.runs import Comparison
from modak_ansible.measuring.statistics import summary
from modak_ansible.model.measured.record import TrainingResult

_LOSSES = ("First losses without dropout", "Largest relative difference", "Gradient error")
_ACCURACY = "Final accuracy (least to most, n)"
_SAME = 1e-4  # of the first loss: reassociated sums differ by less, other first weights by far more
_COMPARED = 5  # steps; later ones drift apart by rounding alone

Alike = tuple[str, ...]
Group = dict[str, list[TrainingResult]]


def numerics_tables(comparisons: Iterable[Comparison]) -> list[tuple[str, Table]]:
    """One table for each workload and way to train; a row for each variant. Those with comparable losses come first.

    Losses are comparable without dropout and where data, batch, seed and learning rate were alike: with dropout every
    framework draws random numbers of its own.
    """
    groups = sorted(_groups(comparisons).items(), key=lambda item: (not _is_comparable(item[0]), item[0]))
    return [
        (_title(key), _losses_table(group) if _is_comparable(key) else _accuracy_table(group)) for key, group in groups
    ]


def agreement(comparisons: Iterable[Comparison]) -> list[str]:
    """For each workload in a sentence whether its single-precision variants begin alike, and how far they drift apart.

    Alike is judged by the first loss, which no update has changed yet.
    """
    sentences = []
    for workload, groups in _exact_groups(comparisons).items():
        apart = [_farthest(group, 1) for group in groups]
        first, label, reference = max(apart)
        drift = max(_farthest(group, _COMPARED)[0] for group in groups)
        variants = len({label for group in groups for label in group})
        if first < _SAME:
            sentences.append(
                f"{workload} begins alike in {variants} variants: without dropout, their first loss differs by at most "
                f"{first:.1e}, and none of the first {_COMPARED} by more than {drift:.1e} (relative)."
            )
        else:
            sentences.append(
                f"{workload} does not begin alike in all of {variants} variants: without dropout, the first loss of "
                f"{label} differs by {first:.1e} from that of {reference} (relative)."
            )
    return sentences


def _exact_groups(comparisons: Iterable[Comparison]) -> dict[str, list[Group]]:
    """By workload the comparable groups of more than one variant, without number formats that change the numbers."""
    exact: dict[str, list[Group]] = {}
    for key, group in _groups(comparisons).items():
        single = {label: runs for label, runs in group.items() if re.search(r"precision=(?!fp32)", label) is None}
        if _is_comparable(key) and len(single) > 1:
            exact.setdefault(key[0], []).append(single)
    return exact


def _farthest(group: Group, steps: int) -> tuple[float, str, str]:
    """The largest difference from the first variant in some first steps; whose it is, and the first variant."""
    reference, *other_labels = group
    difference, label = max((_difference(group[reference], group[other], steps), other) for other in other_labels)
    return difference, label, reference


def _groups(comparisons: Iterable[Comparison]) -> dict[Alike, Group]:
    groups: dict[Alike, Group] = {}
    for comparison in comparisons:
        for variant in comparison.variants:
            for training in variant.results:
                group = groups.setdefault(_alike(comparison, training), {})
                group.setdefault(variant.label, []).append(training)
    return groups


def _is_comparable(key: Alike) -> bool:
    workload, dropout = key[0], key[6]
    training = paper().trainings.get(workload)
    return dropout == "0" or bool(training and not training.dropout)


def _alike(comparison: Comparison, training: TrainingResult) -> Alike:
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


def _title(key: Alike) -> str:
    workload, dataset, images, batch, seed, rate, dropout, epochs = key
    return (
        f"{workload}: {dataset}, {images} images, batch {batch}, seed {seed}, learning rate {rate}, "
        f"dropout {dropout}, {epochs} {'epoch' if epochs == '1' else 'epochs'}"
    )


def _losses_table(group: Group) -> Table:
    reference = next(iter(group.values()))
    rows = (
        (
            label,
            ", ".join(f"{loss:.5f}" for loss in trainings[0].first_losses[:_COMPARED]),
            "reference" if trainings is reference else f"{_difference(reference, trainings):.1e}",
            _gradient(trainings),
            _accuracy(trainings),
        )
        for label, trainings in group.items()
    )
    return Table(("Variant", *_LOSSES, _ACCURACY), tuple(rows))


def _accuracy_table(group: Group) -> Table:
    return Table(("Variant", _ACCURACY), tuple((label, _accuracy(trainings)) for label, trainings in group.items()))


def _difference(reference: list[TrainingResult], trainings: list[TrainingResult], steps: int = _COMPARED) -> float:
    """The largest relative difference of a step's loss, of first runs: with one seed all of a variant begin alike."""
    pairs = zip(reference[0].first_losses[:steps], trainings[0].first_losses[:steps], strict=False)
    return max((abs(one - other) / max(abs(one), 1e-12) for one, other in pairs), default=0.0)


def _gradient(trainings: list[TrainingResult]) -> str:
    errors = [training.gradient_error for training in trainings if training.gradient_error is not None]
    return f"{max(errors):.1e}" if errors else "not given"


def _accuracy(trainings: list[TrainingResult]) -> str:
    values = [training.epochs[-1].test_accuracy for training in trainings if training.epochs]
    if not values:
        return "not measured"
    accuracies = summary(100 * value for value in values)
    ends = f"{number(accuracies.least)} to {number(accuracies.most)}, " if accuracies.n > 1 else ""
    return f"{number(accuracies.median)} % ({ends}n = {accuracies.n})"
