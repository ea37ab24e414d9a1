"""Variants held against the first of their group: medians, spread, and ratios paired by round."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from modak_ansible.measuring.report.runs import Run, by_block, by_machine, speed, steady_seconds, tick_of
from modak_ansible.measuring.statistics import Ratio, Summary, paired_ratio, summary
from modak_ansible.model.measured.record import Record, TrainingResult


@dataclass(frozen=True)
class Line:
    variant: str
    steady: Summary | None = None  # seconds of a steady epoch, the median of each run
    images_per_second: Summary | None = None  # of a steady epoch
    # its steady seconds by those of the group's first variant; None for that one, and where no round has both
    ratio: Ratio | None = None
    # seconds of what is no steady epoch: the first epoch's excess, the imports, the compilation
    parts: dict[str, Summary] = field(default_factory=dict)
    # seconds of a known clock that its steps, or those that it is held against, waited for; None: no clock
    tick: float | None = None
    joules: Summary | None = None  # of each run as a whole, of those of which something counts them
    energy_sources: tuple[str, ...] = ()  # what counted, in words
    left_out: dict[str, int] = field(default_factory=dict)  # how many runs do not count, by how they ended
    reason: str = ""  # of the newest run that does not count

    @property
    def is_noise(self) -> bool:
        """Whether it may be as fast as the first one: the interval of the ratio covers 1, or it says nothing."""
        if self.ratio is None:
            return False
        if self.tick is not None or self.ratio.low is None or self.ratio.high is None:
            return True
        return self.ratio.low <= 1 <= self.ratio.high


@dataclass(frozen=True)
class Quantity:
    """A quantity of the infrastructure, of one variant: all samples of all its runs."""

    variant: str
    name: str
    about: str
    unit: str
    values: Summary


@dataclass(frozen=True)
class Table:
    """A group of a suite on one machine, which its target names; where several have that name, the processor, too."""

    suite: str
    group: str
    target: str
    workload: str
    lines: tuple[Line, ...]
    quantities: tuple[Quantity, ...]


def compare(*files: Iterable[Record]) -> list[Table]:
    """A table for every group and machine, in the order of the records of some files."""
    runs = [Run(record, str(number)) for number, records in enumerate(files) for record in records]
    groups: dict[tuple[str, str, str, str], list[Run]] = {}
    for run in _newest(runs):
        record = run.record
        groups.setdefault((record.suite, record.group, record.target.name, record.workload), []).append(run)
    tables = []
    for (suite, group, target, workload), group_runs in groups.items():
        machines = by_machine(group_runs)
        for (processor, accelerator), members in machines.items():
            name = f"{target} ({accelerator or processor})" if len(machines) > 1 else target
            tables.append(Table(suite, group, name, workload, _lines(members), tuple(_quantities(members))))
    return tables


def _newest(runs: list[Run]) -> list[Run]:
    """What counts: of every suite the text that was run last, and of every round of a file its last beginning."""
    digests = {run.record.suite: run.record.suite_digest for run in sorted(runs, key=lambda run: run.record.date)}
    current = [run for run in runs if run.record.suite_digest == digests[run.record.suite]]

    def begun(run: Run) -> tuple[str, str, str, int]:
        return run.source, run.record.suite, run.record.group, run.record.round

    last: dict[tuple[str, str, str, int], int] = {}
    for run in current:
        if run.record.plan:
            last[begun(run)] = max(last.get(begun(run), 0), run.record.attempt)
    return [run for run in current if not run.record.plan or run.record.attempt == last[begun(run)]]


def _lines(runs: list[Run]) -> tuple[Line, ...]:
    variants = _by_variant(runs)
    baseline = next(iter(variants.values()))
    return tuple(_line(name, members, baseline) for name, members in variants.items())


def _by_variant(runs: list[Run]) -> dict[str, list[Run]]:
    """The runs by variant, in the suite's own order, which every other round has reversed.

    A variant that never ran has the place 1, behind the one that did.
    """

    def place(run: Run) -> tuple[bool, int, bool, int]:
        record = run.record
        is_reversed = record.round % 2 == 0
        return is_reversed, record.round, not record.plan, -record.position if is_reversed else record.position

    variants: dict[str, list[Run]] = {}
    for run in sorted(runs, key=place):
        variants.setdefault(run.record.variant, []).append(run)
    return variants


def _line(name: str, runs: list[Run], baseline: list[Run]) -> Line:
    trainings = [run.training for run in runs if run.training]
    counted = [run.record for run in runs if run.record.outcome == "measured" and run.record.joules is not None]
    ignored = [run.record for run in runs if run.record.outcome != "measured"]
    outcomes = [record.outcome for record in ignored]
    seconds = by_block(runs, steady_seconds)
    parts = {
        title: [value for training in trainings if (value := part(training)) is not None]
        for title, part in PARTS.items()
    }
    rates = [rate for training in trainings if (rate := speed(training)) is not None]
    return Line(
        variant=name,
        steady=summary(seconds.values()) if seconds else None,
        images_per_second=summary(rates) if rates else None,
        ratio=None if runs is baseline else paired_ratio(by_block(baseline, steady_seconds), seconds),
        parts={title: summary(values) for title, values in parts.items() if values},
        tick=None if runs is baseline else tick_of([*baseline, *runs]),
        joules=summary(record.joules for record in counted if record.joules is not None) if counted else None,
        energy_sources=tuple(dict.fromkeys(record.energy_source for record in counted)),
        left_out={outcome: outcomes.count(outcome) for outcome in dict.fromkeys(outcomes)},
        reason=ignored[-1].reason if ignored else "",
    )


def _excess(result: TrainingResult) -> float | None:
    """What the first epoch took longer than a steady one: the tracing, and the filling of caches."""
    steady = steady_seconds(result)
    return None if steady is None else result.epochs[0].seconds - steady


PARTS: dict[str, Callable[[TrainingResult], float | None]] = {
    "first epoch": _excess,
    "import": lambda result: result.seconds.imports,
    "compile": lambda result: result.seconds.compile,
}


def _quantities(runs: list[Run]) -> Iterable[Quantity]:
    samples: dict[tuple[str, str, str, str], list[float]] = {}
    for name, members in _by_variant(runs).items():
        for record in (run.record for run in members if run.record.outcome == "measured"):
            for measure in record.measures:
                about = ", ".join(f"{key} {value}" for key, value in sorted(measure.about.items()))
                samples.setdefault((name, measure.name, about, measure.unit), []).extend(measure.samples)
    for (variant, name, about, unit), values in samples.items():
        yield Quantity(variant, name, about, unit, summary(values))
