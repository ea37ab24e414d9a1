"""The parts of the page, in their order: what is shown where, and what is said where nothing was measured."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count

from modak_ansible.measuring.report.charts import Chart, Table, bar_table
from modak_ansible.measuring.report.drawing import Drawable
from modak_ansible.measuring.report.infrastructure import (
    NETWORK,
    PEAKS,
    STARTS,
    STORAGE,
    TITLES,
    Sample,
    measure_charts,
    measures,
)
from modak_ansible.measuring.report.numerics import numerics_tables
from modak_ansible.measuring.report.paper import figure_of, paper
from modak_ansible.measuring.report.roofline import achieved_chart, best, of_machine, precision_of, roofline
from modak_ansible.measuring.report.runs import Comparison, Quantity, Run, imports_per_second
from modak_ansible.measuring.report.seeds import seeds
from modak_ansible.measuring.report.trainings import how_much, slug, speed_chart, training_bar
from modak_ansible.model.measured.record import TrainingResult

TODAY_SUITE = "modak bench run benchmarks/suites/today-cpu.yaml"
NUMERICS_SUITE = "modak bench run benchmarks/suites/numerics.yaml"
SEEDS_SUITE = "modak bench run benchmarks/suites/seeds.yaml"
Titles = Mapping[tuple[str, str], str]


@dataclass(frozen=True)
class Section:
    name: str
    title: str
    lead: str = ""
    figures: tuple[Drawable, ...] = ()
    tables: tuple[tuple[str, Table], ...] = ()
    missing: str = ""  # the command that would measure it; empty where it was measured


def sections(
    runs: Sequence[Run], comparisons: Sequence[Comparison], work: Mapping[str, float], titles: Titles | None = None
) -> list[Section]:
    """Every part of the page, those without measurements too.

    Args:
        comparisons: the trainings among them, put in order.
        work: GFLOP of one training step for each image, by workload.
        titles: of groups, by the names of suite and group; a group's name stands for one that is missing.
    """
    titles = titles or {}
    samples = measures(runs)
    timed = [comparison for comparison in comparisons if comparison.is_timed and not comparison.is_native]
    apart = {workload: training for workload, training in paper().trainings.items() if training.lead}
    todays = [
        comparison for comparison in timed if not figure_of(comparison.group) and comparison.workload not in apart
    ]
    parts = [
        *(
            Section(
                group,
                figure.title,
                figure.lead,
                _speed_charts(
                    (
                        comparison
                        for comparison in timed
                        if figure_of(comparison.group) == group and comparison.workload not in apart
                    ),
                    titles,
                ),
                missing=paper().command,
            )
            for group, figure in paper().figures.items()
        ),
        Section(
            "today",
            "Today's frameworks and switches",
            "Against the first variant of each group, whose bars are grey.",
            _speed_charts(todays, titles, with_paper=False),
            missing=TODAY_SUITE,
        ),
        *(
            Section(
                workload,
                training.title,
                training.lead,
                _speed_charts((comparison for comparison in timed if comparison.workload == workload), titles),
                missing=TODAY_SUITE,
            )
            for workload, training in apart.items()
        ),
        Section(
            "native",
            "Native against container",
            "The same training in the machine's own Python and in a container.",
            (*_native_charts(comparisons), *_measured(samples, STARTS)),
            missing=TODAY_SUITE,
        ),
        Section("storage", "Storage classes", "", _measured(samples, STORAGE), missing=TODAY_SUITE),
        Section("network", "Network between nodes", "", _measured(samples, NETWORK), missing=TODAY_SUITE),
        _peaks(timed, work, samples),
        Section(
            "more", "Other measures", "", _measured([sample for sample in samples if sample.measure.name not in TITLES])
        ),
        Section(
            "numerics",
            "Same numerics",
            "Without dropout and from the same first weights every framework should begin with the same losses; later "
            "steps drift apart by rounding alone. Gradients are held against double precision where a framework can.",
            tables=tuple(numerics_tables(comparisons)),
            missing=NUMERICS_SUITE,
        ),
        Section(
            "seeds",
            "Whole trainings",
            "From several seeds to the end, with dropout: whether what computes them has a part in what they learn.",
            tuple(seeds(runs)),
            missing=SEEDS_SUITE,
        ),
        _not_measured(runs),
    ]
    return list(_named_apart(parts))


def _named_apart(parts: Iterable[Section]) -> Iterator[Section]:
    """The parts with figures of which no two have one name."""
    taken: set[str] = set()
    for part in parts:
        figures = []
        for figure in part.figures:
            names = chain([figure.name], (f"{figure.name}-{number}" for number in count(2)))
            figures.append(replace(figure, name=next(name for name in names if name not in taken)))
            taken.add(figures[-1].name)
        yield replace(part, figures=tuple(figures))


def _speed_charts(members: Iterable[Comparison], titles: Titles, with_paper: bool = True) -> tuple[Chart, ...]:
    return tuple(speed_chart(member, _title(member, titles), with_paper) for member in members if member.measured)


def _title(comparison: Comparison, titles: Titles) -> str:
    title = titles.get((comparison.suite, comparison.group), comparison.group.replace("-", " "))
    return f"{title}: {comparison.workload} on {comparison.accelerator or comparison.target}"


def _native_charts(comparisons: Iterable[Comparison]) -> list[Chart]:
    """Steady speed, import and time to the first step, of groups that have both."""
    charts = []
    for comparison in (comparison.native_pairs for comparison in comparisons if comparison.is_timed):
        if comparison.variants:
            starts = (
                _start_chart(comparison, "process start to framework imported", _imports),
                _start_chart(
                    comparison, "process start to first step", lambda training: training.seconds.to_first_step
                ),
            )
            charts.append(speed_chart(comparison, f"{comparison.workload}: steady epochs", with_paper=False))
            charts += [chart for chart in starts if chart.bars]  # not every script says when it had its framework
    return charts


def _start_chart(comparison: Comparison, what: str, quantity: Quantity) -> Chart:
    bars = tuple(
        training_bar(
            variant, quantity, is_baseline=not variant.container, label=_where(variant.container, variant.label)
        )
        for variant in comparison.measured
        if variant.by_block(quantity)
    )
    return Chart(
        name=slug(f"native {comparison.group} {comparison.workload} {comparison.target} {what}"),
        title=f"{comparison.workload}: {what}",
        unit="s",
        bars=bars,
        interval="least to most of the rounds; n counts rounds",
        table=bar_table(bars, "s"),
        caption=f"{comparison.machine}. {how_much(comparison)}",
        more_is_better=False,
    )


def _where(container: bool, label: str) -> str:
    return (
        f"{label} in a container"
        if container
        else f"{label.replace(' container=none', '').replace(' container=native', '')} natively"
    )


def _imports(training: TrainingResult) -> float | None:
    return training.seconds.imports if imports_per_second(training) else None


def _measured(samples: Iterable[Sample], names: Collection[str] = ()) -> tuple[Chart, ...]:
    return tuple(measure_charts(sample for sample in samples if not names or sample.measure.name in names))


def _peaks(comparisons: Sequence[Comparison], work: Mapping[str, float], samples: Sequence[Sample]) -> Section:
    """Peaks, what was made of them, and a roofline for each machine that has both."""
    charts: list[Chart] = list(_measured(samples, PEAKS))
    roofs = []
    for machine in dict.fromkeys((comparison.processor, comparison.accelerator) for comparison in comparisons):
        machine_comparisons = [
            comparison for comparison in comparisons if (comparison.processor, comparison.accelerator) == machine
        ]
        machine_samples = of_machine(samples, *machine)
        computable = [
            comparison for comparison in machine_comparisons if comparison.workload in work and comparison.measured
        ]
        for workload in dict.fromkeys(comparison.workload for comparison in computable):
            members = [comparison for comparison in computable if comparison.workload == workload]
            for precision in dict.fromkeys(precision_of(variant) for member in members for variant in member.measured):
                peaks = best(machine_samples, ("sgemm", "convolution"), precision)
                chart = achieved_chart(members, work[workload], peaks, precision) if peaks else None
                charts += [chart] if chart else []
        roof = roofline(machine_comparisons, work, machine_samples)
        roofs += [roof] if roof else []
    lead = "Work achieved is a workload's GFLOP for each image times images per second; peaks were measured here."
    return Section("peaks", "Peaks and the roofline", lead, (*roofs, *charts), missing=TODAY_SUITE)


def _not_measured(runs: Sequence[Run]) -> Section:
    """What was refused, failed or disturbed, each with its reason and how often."""
    counted: dict[tuple[str, ...], int] = {}
    for run in runs:
        record = run.record
        if record.outcome != "measured":
            settings = [f"{name}={value}" for name, value in sorted(record.settings.items())]
            key = (" ".join([record.entry, *settings]), record.workload, record.outcome, record.reason)
            counted[key] = counted.get(key, 0) + 1
    rows = tuple((*key, str(count)) for key, count in counted.items())
    columns = ("Variant", "Workload", "Outcome", "Reason", "Runs")
    tables = (("", Table(columns, rows)),) if rows else ()
    lead = "" if rows else "Nothing failed, nothing was refused, nothing was disturbed."
    return Section("refused", "Refused, failed, disturbed", lead, tables=tables)
