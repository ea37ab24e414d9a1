"""Charts of trainings: images per second of the steady epochs, beside what the paper's ratios would make of them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from modak_ansible.measuring.report.charts import Bar, Chart, Table, number, spread
from modak_ansible.measuring.report.paper import PaperTraining, figure_of, paper
from modak_ansible.measuring.report.runs import Comparison, Quantity, Variant, speed, steady_seconds
from modak_ansible.measuring.report.verdicts import longest_tick, verdicts, waits
from modak_ansible.measuring.statistics import Ratio, paired_ratio, summary
from modak_ansible.model.measured.record import TrainingResult
from modak_ansible.model.quantities import format_seconds

ROUNDS = "least to most of the rounds' medians; n counts rounds"


@dataclass(frozen=True)
class Held:
    """What a variant is held against, and the ratio that the paper states for such a pair."""

    baseline: Variant
    paper: float | None = None
    newer: bool = False  # the pair is newer than the paper's


def speed_chart(comparison: Comparison, title: str, with_paper: bool = True) -> Chart:
    """Images per second of every variant that was measured.

    ``with_paper`` puts the paper's ratios beside those that a finding speaks of. The comparison must have measured
    something.
    """
    held = _held(comparison, with_paper)
    measured = comparison.measured
    baselines = {comparison.baseline, *(reference.baseline for reference in held.values())}
    bars = [_speed_bar(variant, held[variant], is_baseline=variant in baselines) for variant in measured]
    rows = tuple(_row(comparison, variant, held[variant], with_paper) for variant in measured)
    return Chart(
        name=slug(f"{comparison.group} {comparison.workload} {comparison.target} {comparison.accelerator}"),
        title=title,
        unit="images/s",
        bars=tuple(bars),
        interval=ROUNDS,
        table=Table(_columns(comparison, with_paper), rows),
        caption=f"{comparison.machine}. {how_much(comparison)}",
    )


def training_bar(variant: Variant, quantity: Quantity, is_baseline: bool = False, label: str = "") -> Bar:
    """A variant's median over its rounds, which must have measured the quantity."""
    rounds = summary(variant.by_block(quantity).values())
    low, high = (rounds.least, rounds.most) if rounds.n > 1 else (None, None)
    return Bar(label or variant.label, rounds.median, low, high, rounds.n, is_baseline)


def how_much(comparison: Comparison) -> str:
    """Whether the paper's whole training ran or less of it, from what the records say."""
    trainings = [training for variant in comparison.variants for training in variant.trainings]
    if not trainings:
        return ""
    images, epochs = (
        {training.training_images for training in trainings},
        {len(training.epochs) for training in trainings},
    )
    full = paper().trainings.get(comparison.workload)
    full_images, full_epochs = (full.images, full.epochs) if full else (None, None)
    ran = (
        f"{_span(epochs)} epochs of {_span(images)} images, "
        f"batch {_span({training.batch_size for training in trainings})}, "
        f"data {', '.join(sorted({training.dataset for training in trainings}))}"
    )
    if full_images and images == {full_images} and epochs == {full_epochs}:
        return f"Run in full: {ran}. The first epoch is kept apart."
    papers = f" (the paper: {full_epochs} epochs" if full_epochs else ""
    papers += f" of {full_images:,})" if full_images else ")" if papers else ""
    return f"Scaled down: {ran}{papers}. The first epoch is kept apart."


def ratio_text(ratio: Ratio | None) -> str:
    if ratio is None:
        return "not measured"
    if ratio.low is None or ratio.high is None:
        return f"{ratio.median:.2f} (one round, no interval)"
    return f"{ratio.median:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"


def slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "chart"


def wall_clock(training: TrainingResult, full: PaperTraining) -> float | None:
    """Seconds of all epochs of the paper's, with as many images, computed from a shorter run.

    The start, the first epoch's extra (compiling, tracing) and steady epochs of full length. None without a steady one.
    """
    steady = steady_seconds(training)
    if steady is None:
        return None
    epochs = full.epochs * steady * (full.images or training.training_images) / training.training_images
    return training.seconds.to_first_step + (training.epochs[0].seconds - steady) + epochs


def first_epoch_extra(training: TrainingResult) -> float | None:
    """Seconds by which the first epoch, and compiling ahead of it, took longer than a steady one."""
    steady = steady_seconds(training)
    if steady is None:
        return None
    return max(training.epochs[0].seconds - steady, 0.0) + training.seconds.compile


def _held(comparison: Comparison, with_paper: bool) -> dict[Variant, Held]:
    """What each variant is held against: what the figure's findings name, and otherwise the group's first."""
    figure = paper().figures.get(figure_of(comparison.group))
    held: dict[Variant, Held] = {}
    for finding in paper().findings if with_paper else ():
        if finding.source.startswith(figure.source if figure else "Fig."):
            for verdict in verdicts(finding, [comparison]):
                if verdict.ratio:
                    held.setdefault(verdict.other, Held(verdict.baseline, finding.ratio, verdict.today))
    first = comparison.measured[0]
    return {variant: held.get(variant, Held(first)) for variant in comparison.measured}


def _speed_bar(variant: Variant, held: Held, is_baseline: bool) -> Bar:
    bar = training_bar(variant, speed, is_baseline)
    papers = held.paper * _median(held.baseline, speed) if held.paper else None
    return replace(bar, paper=papers, newer=held.newer)


def _columns(comparison: Comparison, with_paper: bool) -> tuple[str, ...]:
    columns = ["Variant", "Images/s (least to most, n)", "Held against", "Speed ratio (95 % interval, rounds)"]
    columns += ["Paper's ratio"] if with_paper else []
    columns += ["Steady epoch", "Extra in the first epoch"]
    full = _stated(comparison)
    return (*columns, f"{full.epochs} full epochs, computed") if full else tuple(columns)


def _row(comparison: Comparison, variant: Variant, held: Held, with_paper: bool) -> tuple[str, ...]:
    bar = training_bar(variant, speed)
    cells = [variant.label, f"{number(bar.value)} ({spread(bar)})"]
    if held.baseline is variant:
        cells += ["", "1"]
    else:
        ratio = paired_ratio(held.baseline.by_block(speed), variant.by_block(speed))
        tick = longest_tick(held.baseline, variant)
        note = f"; no measure: {waits(tick)}" if tick else ""
        cells += [held.baseline.label, ratio_text(ratio) + (f", {ratio.n}" if ratio else "") + note]
    if with_paper:
        older = ", of older versions" if held.newer else ""
        cells.append(f"{held.paper:g}{older}" if held.paper else "none stated")
    cells += [_seconds(variant, steady_seconds), _seconds(variant, first_epoch_extra)]
    full = _stated(comparison)
    return (*cells, _seconds(variant, lambda training: wall_clock(training, full))) if full else tuple(cells)


def _stated(comparison: Comparison) -> PaperTraining | None:
    """The paper's training, where it states the whole of it."""
    full = paper().trainings.get(comparison.workload)
    return full if full and full.images else None


def _seconds(variant: Variant, quantity: Quantity) -> str:
    return format_seconds(_median(variant, quantity))


def _median(variant: Variant, quantity: Quantity) -> float:
    return summary(variant.by_block(quantity).values()).median


def _span(values: set[int]) -> str:
    least, most = min(values), max(values)
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"
