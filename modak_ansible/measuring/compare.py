"""Variants held against the first of their group: medians, spread, and ratios paired by round."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from modak_ansible.measuring.report.runs import speed, steady_seconds
from modak_ansible.measuring.statistics import Ratio, Summary, paired_ratio, summary
from modak_ansible.model.measured.record import Record, TrainingResult

BlockKey = tuple[str, int]  # the suite's digest, the round


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
    """A group of a suite on one target."""

    suite: str
    group: str
    target: str
    workload: str
    lines: tuple[Line, ...]
    quantities: tuple[Quantity, ...]


def newest(records: Iterable[Record]) -> list[Record]:
    """What counts: of every suite the text that was run last, and of every round its last beginning."""
    known = list(records)
    digests = {record.suite: record.suite_digest for record in sorted(known, key=lambda each: each.date)}
    current = [each for each in known if each.suite_digest == digests[each.suite]]
    last: dict[tuple[str, str, int], int] = {}
    for each in current:
        if each.plan:
            key = (each.suite, each.group, each.round)
            last[key] = max(last.get(key, 0), each.attempt)
    return [each for each in current if not each.plan or each.attempt == last[each.suite, each.group, each.round]]


def compare(records: Iterable[Record]) -> list[Table]:
    """A table for every group and target, in the order of the records."""
    found: dict[tuple[str, str, str, str], list[Record]] = {}
    for record in newest(records):
        found.setdefault((record.suite, record.group, record.target.name, record.workload), []).append(record)
    return [
        Table(*key, lines=_lines(members), quantities=tuple(_quantities(members))) for key, members in found.items()
    ]


def _lines(records: list[Record]) -> tuple[Line, ...]:
    runs = _by_variant(records)
    baseline = next(iter(runs.values()))
    return tuple(_line(name, members, baseline) for name, members in runs.items())


def _by_variant(records: list[Record]) -> dict[str, list[Record]]:
    """The runs by variant, in the suite's own order, which every other round has reversed.

    A variant that never ran has the place 1, behind the one that did.
    """

    def place(record: Record) -> tuple[bool, int, bool, int]:
        is_reversed = record.round % 2 == 0
        return is_reversed, record.round, not record.plan, -record.position if is_reversed else record.position

    found: dict[str, list[Record]] = {}
    for each in sorted(records, key=place):
        found.setdefault(each.variant, []).append(each)
    return found


def _line(name: str, runs: list[Record], baseline: list[Record]) -> Line:
    measured = [run.training for run in runs if run.outcome == "measured" and run.training]
    counted = [run for run in runs if run.outcome == "measured" and run.joules is not None]
    ignored = [run for run in runs if run.outcome != "measured"]
    outcomes = [each.outcome for each in ignored]
    own = _steady(runs)
    parts = {title: [value for each in measured if (value := part(each)) is not None] for title, part in PARTS.items()}
    rates = [rate for each in measured if (rate := speed(each)) is not None]
    return Line(
        variant=name,
        steady=summary(own.values()) if own else None,
        images_per_second=summary(rates) if rates else None,
        ratio=None if runs is baseline else paired_ratio(_steady(baseline), own),
        parts={title: summary(values) for title, values in parts.items() if values},
        tick=None if runs is baseline else _tick([*baseline, *runs]),
        joules=summary(run.joules for run in counted if run.joules is not None) if counted else None,
        energy_sources=tuple(dict.fromkeys(run.energy_source for run in counted)),
        left_out={outcome: outcomes.count(outcome) for outcome in dict.fromkeys(outcomes)},
        reason=ignored[-1].reason if ignored else "",
    )


def _tick(runs: list[Record]) -> float | None:
    ticks = (run.quantised_s for run in runs if run.outcome == "measured")
    return max((tick for tick in ticks if tick), default=None)


def _steady(runs: list[Record]) -> dict[BlockKey, float]:
    """Seconds of a steady epoch by round."""
    medians = {
        (run.suite_digest, run.round): steady_seconds(run.training)
        for run in runs
        if run.outcome == "measured" and run.training
    }
    return {block: value for block, value in medians.items() if value is not None}


def _excess(result: TrainingResult) -> float | None:
    """What the first epoch took longer than a steady one: the tracing, and the filling of caches."""
    steady = steady_seconds(result)
    return None if steady is None else result.epochs[0].seconds - steady


PARTS: dict[str, Callable[[TrainingResult], float | None]] = {
    "first epoch": _excess,
    "import": lambda result: result.seconds.imports,
    "compile": lambda result: result.seconds.compile,
}


def _quantities(records: list[Record]) -> Iterable[Quantity]:
    samples: dict[tuple[str, str, str, str], list[float]] = {}
    for name, runs in _by_variant(records).items():
        for each in (run for run in runs if run.outcome == "measured"):
            for measure in each.measures:
                about = ", ".join(f"{key} {value}" for key, value in sorted(measure.about.items()))
                samples.setdefault((name, measure.name, about, measure.unit), []).extend(measure.samples)
    for (variant, name, about, unit), values in samples.items():
        yield Quantity(variant, name, about, unit, summary(values))
