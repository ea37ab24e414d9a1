"""Records put in order: what was compared with what, and how fast each ran."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from modak_ansible.measuring.statistics import summary
from modak_ansible.model.measured.record import Record, TrainingResult

Block = tuple[str, str, int]  # the records' file, the suite's digest, the round
NATIVE = ("native", "none")  # values of the switch container
Quantity = Callable[[TrainingResult], float | None]


@dataclass(frozen=True)
class Run:
    """A record and the file that it was read from: rounds of two files are never the same round."""

    record: Record
    source: str

    @property
    def block(self) -> Block:
        return (self.source, self.record.suite_digest, self.record.round)

    @property
    def training(self) -> TrainingResult | None:
        """What it measured of a training; None where it measured nothing that counts."""
        return self.record.training if self.record.outcome == "measured" else None


@dataclass(frozen=True, eq=False)
class Variant:
    """One build with one set of switches, in all the rounds that have it; measured or not."""

    entry: str
    settings: tuple[tuple[str, str], ...]
    runs: tuple[Run, ...]

    @property
    def label(self) -> str:
        return " ".join((self.entry, *(f"{name}={value}" for name, value in self.settings)))

    @property
    def record(self) -> Record:
        """One of its records, for what they all say alike."""
        return self.runs[0].record

    @property
    def compiler(self) -> str:
        """The graph compiler that was on; one that an entry always carries is in the entry's name."""
        named = next((compiler for compiler in ("ngraph", "glow") if compiler in self.entry), "none")
        return dict(self.settings).get("compiler", named)

    @property
    def container(self) -> bool:
        image = next((run.record.image for run in self.runs if run.record.image), None)
        return image.container if image else dict(self.settings).get("container") not in NATIVE

    @property
    def trainings(self) -> list[TrainingResult]:
        return [run.training for run in self.runs if run.training]

    @property
    def results(self) -> list[TrainingResult]:
        """What was computed, however busy the machine was: for losses and accuracies, and not for times."""
        counted = ("measured", "disturbed")
        return [run.record.training for run in self.runs if run.record.training and run.record.outcome in counted]

    @property
    def tick(self) -> float | None:
        return tick_of(self.runs)

    def by_block(self, quantity: Quantity) -> dict[Block, float]:
        return by_block(self.runs, quantity)


@dataclass(frozen=True, eq=False)
class Comparison:
    """The variants of one group of a suite on one kind of machine; the first is what others are held against."""

    suite: str
    group: str
    workload: str
    target: str
    processor: str
    accelerator: str
    variants: tuple[Variant, ...]

    @property
    def machine(self) -> str:
        return f"{self.accelerator} and {self.processor}" if self.accelerator else self.processor

    @property
    def measured(self) -> list[Variant]:
        return [variant for variant in self.variants if variant.by_block(speed)]

    @property
    def is_timed(self) -> bool:
        """Whether its speeds are of interest: runs without dropout are there for their numbers."""
        trainings = [training for variant in self.variants for training in variant.trainings]
        return not trainings or any(training.dropout for training in trainings)

    @property
    def native_pairs(self) -> Comparison:
        """The variants that ran both natively and in a container, those two side by side."""
        by_build: dict[tuple[object, ...], list[Variant]] = {}
        for variant in self.measured:
            rest = tuple(pair for pair in variant.settings if pair[0] != "container")
            by_build.setdefault((variant.entry, rest), []).append(variant)
        pairs = [pair for pair in by_build.values() if len({variant.container for variant in pair}) == 2]
        ordered = (variant for pair in pairs for variant in sorted(pair, key=lambda variant: variant.container))
        return replace(self, variants=tuple(ordered))

    @property
    def is_native(self) -> bool:
        """Whether it is about containers and nothing else."""
        return bool(self.measured) and len(self.native_pairs.variants) == len(self.measured)

    @property
    def baseline(self) -> Variant | None:
        return next(iter(self.measured), None)


def by_block(runs: Iterable[Run], quantity: Quantity) -> dict[Block, float]:
    """A quantity of trainings by round; of two runs in one round the later one stands."""
    values = ((run.block, quantity(run.training)) for run in runs if run.training)
    return {block: value for block, value in values if value is not None}


def tick_of(runs: Iterable[Run]) -> float | None:
    """Seconds until which epochs of runs that count waited, the longest; None: they did not."""
    ticks = (run.record.quantised_s for run in runs if run.record.outcome == "measured")
    return max((tick for tick in ticks if tick), default=None)


def speed(training: TrainingResult) -> float | None:
    """Images per second of the median steady epoch; None where there was only the first epoch."""
    rates = [epoch.images_per_second for epoch in training.steady]
    return summary(rates).median if rates else None


def steady_seconds(training: TrainingResult) -> float | None:
    """Of the median steady epoch; None where there was only the first."""
    return summary(epoch.seconds for epoch in training.steady).median if training.steady else None


def imports_per_second(training: TrainingResult) -> float | None:
    """How often Python and the framework could be loaded in a second: more is better, as for speeds."""
    return 1 / training.seconds.imports if training.seconds.imports > 0 else None


def comparisons(runs: Iterable[Run]) -> list[Comparison]:
    """The trainings by suite, group, workload and machine, in the order in which they ran first."""
    groups: dict[tuple[str, ...], list[Run]] = {}
    for run in sorted(runs, key=lambda run: run.record.date):
        record = run.record
        if record.training or not record.measures:
            groups.setdefault((record.suite, record.group, record.workload, record.target.name), []).append(run)
    return [
        Comparison(suite, group, workload, target, processor, accelerator, _variants(members))
        for (suite, group, workload, target), group_runs in groups.items()
        for (processor, accelerator), members in by_machine(group_runs).items()
    ]


def by_machine(runs: list[Run]) -> dict[tuple[str, str], list[Run]]:
    """The runs of one target by processor and accelerator.

    What never ran may not know the node's processor; it is counted to the first machine that measured something.
    """
    measured = list(dict.fromkeys(_machine(run) for run in runs if run.record.outcome == "measured"))
    machine_runs: dict[tuple[str, str], list[Run]] = {machine: [] for machine in measured}
    for run in runs:
        machine = _machine(run)
        machine_runs.setdefault(machine if machine in machine_runs or not measured else measured[0], []).append(run)
    return machine_runs


def _machine(run: Run) -> tuple[str, str]:
    return run.record.target.processor, run.record.target.accelerator


def _variants(runs: list[Run]) -> tuple[Variant, ...]:
    """The order of the first round is the suite's own; later rounds are reversed."""
    by_build: dict[tuple[str, tuple[tuple[str, str], ...]], list[Run]] = {}
    for run in sorted(runs, key=lambda run: (run.record.round, run.record.position)):
        key = (run.record.entry, tuple(sorted(run.record.settings.items())))
        by_build.setdefault(key, []).append(run)
    return tuple(
        Variant(entry, settings, tuple(sorted(members, key=lambda member: (member.record.date, member.record.attempt))))
        for (entry, settings), members in by_build.items()
    )
