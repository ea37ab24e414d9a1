"""How good the model is where it has not been: runs are left out of the fit, and predicted.

Left out are single configurations, whole workloads and whole machines. Of a workload that was left out the plain run's
steps are told, too, as a short job times them on the target; and a machine that was left out is given back run by
run: how fast the model learns it. The error is that of a step's seconds. The regret of a table (a group of a suite
that was measured as a whole) is the time of the configuration that the model takes, by the planner's own rule, over
that of the best one there.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log, sqrt
from statistics import fmean, median, stdev

from modak_ansible.model.measured.prediction import SIGMAS, Question
from modak_ansible.model.measured.record import Record
from modak_ansible.model.measured.timed_steps import TimedSteps
from modak_ansible.model.measured.work import Work
from modak_ansible.performance.fit.calibration import LEFT_OUT, left_out_once
from modak_ansible.performance.fit.cases import Case, cases, configuration_of, label_of
from modak_ansible.performance.fit.fitting import Spreads, fit_cases, spreads_of
from modak_ansible.performance.fit.machines import machines
from modak_ansible.performance.model import PerformanceModel
from modak_ansible.performance.stored import Stored

# What is left out, in words.
TITLES = {
    "configurations": "configurations left out",
    "workloads": "workloads left out",
    "timed": "workloads left out, but for the plain run's steps",
    "machines": "machines left out",
}
CLASSES = ("up to reassociation", "any numerics")
_NOTICED = 0.03  # a regret
_LEAST_TABLE = 3  # variants: with two there is hardly a choice
_GIVEN = (0, 1, 2, 3, 5, 10, 20, 40)  # runs of a machine that are given back
_ORDERS = 4  # in which they are, each beginning with another configuration
_OFTEN = 3  # runs of a configuration, after which its prediction is to lie within their noise

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Predicted:
    """One configuration that the model was not told of."""

    left_out: str
    workload: str
    label: str
    runs: int
    # seconds of a step, the median of its runs; ``low`` and ``high`` bound the 90 % interval of a new run
    measured: float
    predicted: float
    low: float
    high: float
    known: bool  # whether the model says that it knows the matter
    why: str  # what it does not know

    @property
    def error(self) -> float:
        """Relative: 0.1 is ten per cent off."""
        return abs(self.predicted / self.measured - 1)

    @property
    def is_covered(self) -> bool:
        return self.low <= self.measured <= self.high


@dataclass(frozen=True)
class Regret:
    """What the model would have taken of a table, and what that would have cost."""

    table: str
    numerics: str
    left_out: str  # what of the table the model had not been told of; empty: nothing
    variants: int
    taken: str
    best: str
    stock: str
    regret: float  # time of what it takes over that of the best, less 1
    over_stock: float  # time of what it takes over that of stock, less 1; nought where it takes stock
    noise: float | None  # standard deviation of one paired ratio of two runs, as far as the rounds of the table show it


@dataclass(frozen=True)
class Regrets:
    """The regret of many tables in short."""

    tables: int
    median: float
    mean: float
    most: float
    over: int  # how many are over 3 %
    slower: int  # how many of what is taken are slower than stock


@dataclass(frozen=True)
class Learned:
    """What the model says of a machine of which it was given some runs alone; medians over all orders."""

    machine: str
    given: int  # runs
    others: float | None  # relative error of configurations of which none was given; None where all were
    # of those with three runs or more among the given: the error, and the noise that such a median has; None for none
    own: float | None
    noise: float | None


@dataclass(frozen=True)
class Validation:
    predicted: tuple[Predicted, ...]
    regrets: tuple[Regret, ...]
    learned: tuple[Learned, ...] = ()
    skipped: tuple[str, ...] = ()

    def error(self, left_out: str) -> float | None:
        """Mean relative error of what the model says it knows; None where there is nothing."""
        errors = [each.error for each in self.predicted if each.left_out == left_out and each.known]
        return fmean(errors) if errors else None

    def regret(self, left_out: str) -> Regrets | None:
        """Of the tables whose workload was left out (``workload``), or that were in the fit (empty); None for none."""
        tables = [regret for regret in self.regrets if regret.left_out == left_out]
        if not tables:
            return None
        values = [table.regret for table in tables]
        over, slower = sum(value > _NOTICED for value in values), sum(table.over_stock > 0 for table in tables)
        return Regrets(len(values), median(values), fmean(values), max(values), over, slower)

    def coverage(self, left_out: str) -> float | None:
        """How many of those lie in their 90 % interval."""
        found = [each.is_covered for each in self.predicted if each.left_out == left_out and each.known]
        return fmean(found) if found else None


def validate(records: Iterable[Record], works: Mapping[str, Work], say: Progress = lambda _: None) -> Validation:
    """Cross-validates the model on some records.

    The groups' standard deviations, and how wide intervals have to be, are found anew where a workload or a machine is
    left out, and once for all single configurations: each of those hardly counts for them.

    Raises:
        ModakError: there is nothing to fit.
    """
    every = list(records)
    known = machines(every)
    found = cases(every, works, known)
    whole = fit_cases(found, known, works, names=("step",))
    make = _Maker(found, works, whole)
    models: dict[str, PerformanceModel] = {}
    skipped: list[str] = []
    predicted: list[Predicted] = []
    for kind, key in LEFT_OUT.items():
        if len({key(case) for case in found}) < 2:
            skipped.append(f"no {kind} can be left out: the records have one alone")
            continue
        say(f"{kind} are left out, one after the other")
        spreads = spreads_of(whole) if kind == "configurations" else None
        predicted += make.left_out(kind, key, spreads, models if kind == "workloads" else None)
    predicted += make.timed(models)
    learned: list[Learned] = []
    if any(each.left_out == "machines" for each in predicted):
        say("machines are given back, run by run")
        learned = [each for name in dict.fromkeys(map(LEFT_OUT["machines"], found)) for each in make.learned(str(name))]
    in_sample = PerformanceModel(whole)
    regrets = [
        each
        for left_out in ("workload", "")  # what was told nothing of it comes first: the other knows the answer
        for table in _tables(found)
        for numerics in CLASSES
        for model in (models.get(table[0].facts.workload) if left_out else in_sample,)
        if model is not None and (each := _regret(table, numerics, left_out, model)) is not None
    ]
    return Validation(tuple(predicted), tuple(regrets), tuple(learned), tuple(skipped))


class _Maker:
    def __init__(self, found: Sequence[Case], works: Mapping[str, Work], whole: Stored) -> None:
        self._found, self._works, self._whole = found, works, whole

    def left_out(
        self,
        kind: str,
        key: Callable[[Case], Hashable],
        spreads: Mapping[str, Spreads] | None,
        models: dict[str, PerformanceModel] | None,
    ) -> Iterable[Predicted]:
        """Fits the model once without every key's runs, and predicts their configurations.

        The models are kept, by what was left out, where somebody wants them: hundreds of them take gigabytes.

        Where machines are left out, those of works that the framework ran elsewhere: others would be left out twice.
        """
        for left in dict.fromkeys(map(key, self._found)):
            kept = [each for each in self._found if key(each) != left]
            model = self._fitted(kept, spreads)
            if model is None:
                continue
            if models is not None:
                models[str(left)] = model
            for members in _by_configuration(each for each in self._found if key(each) == left).values():
                if left_out_once(kind, members[0].facts, kept):
                    yield _predicted(kind, members, model)

    def timed(self, models: Mapping[str, PerformanceModel]) -> Iterable[Predicted]:
        """Predicts a workload from the time of its plain run's steps, by the model that knows nothing else of it.

        The plain one has the fewest switches of those on a machine with as many threads, by one framework.
        """
        places: dict[Hashable, list[Case]] = {}
        for each in self._found:
            facts = each.facts
            places.setdefault((facts.workload, facts.machine, facts.threads, facts.framework), []).append(each)
        for members in places.values():
            model = models.get(members[0].facts.workload)
            (_, plain), *others = _by_label(members).items()
            if model is not None:
                yield from (_predicted("timed", runs, model, _timed(plain)) for _, runs in others)

    def _fitted(self, kept: Sequence[Case], spreads: Mapping[str, Spreads] | None) -> PerformanceModel | None:
        if not kept:
            return None
        stored = fit_cases(kept, self._whole.machines, self._works, names=("step",), spreads=spreads)
        return PerformanceModel(stored) if "step" in stored.parts else None

    def learned(self, machine: str) -> Iterable[Learned]:
        """Fits the model with more and more runs of a machine, with the spreads that the others' gave."""
        here = [each for each in self._found if each.facts.machine == machine]
        others = [each for each in self._found if each.facts.machine != machine]
        first = self._fitted(others, None)
        if first is None:
            return
        groups = _by_configuration(here)
        for given in (each for each in _GIVEN if each < len(here)):
            unseen, own, noises = [], [], []
            for order in _orders(groups) if given else [here]:
                back = order[:given]
                model = self._fitted([*others, *back], spreads_of(first.stored)) if back else first
                counts = {name: len(runs) for name, runs in _by_configuration(back).items()}
                for name, runs in groups.items():
                    error = _predicted("", runs, model or first).error
                    if name not in counts:
                        unseen.append(error)
                    elif counts[name] >= _OFTEN:
                        own.append(error)
                        noises.append(stdev(log(run.step_seconds) for run in runs))
            seen = (median(own), median(noises)) if own else (None, None)
            yield Learned(machine, given, median(unseen) if unseen else None, *seen)


def _orders(groups: Mapping[Hashable, Sequence[Case]]) -> list[list[Case]]:
    """Orders of a machine's runs: shuffled, yet the same every time."""
    found = []
    for seed in range(_ORDERS):
        runs = [run for members in groups.values() for run in members]
        random.Random(seed).shuffle(runs)  # noqa: S311 - nothing is secret
        found.append(runs)
    return found


def _by_configuration(found: Iterable[Case]) -> dict[Hashable, list[Case]]:
    groups: dict[Hashable, list[Case]] = {}
    for each in found:
        groups.setdefault(configuration_of(each), []).append(each)
    return groups


def _timed(plain: Sequence[Case]) -> TimedSteps:
    """A configuration's steps as a short job would have timed them."""
    facts, seconds = plain[0].facts, _seconds(plain)
    return TimedSteps(
        key="",
        target="",
        address="",
        training="",
        date="",
        count=len(plain) + 1,
        seconds=seconds,
        low=seconds,
        high=seconds,
        start=0.0,
        batch_size=plain[0].work.batch_size,
        entry=facts.entry,
        version=facts.version,
        settings=dict(facts.switches),
        container=facts.container,
        threads=facts.threads or 1,
    )


def _seconds(members: Iterable[Case]) -> float:
    return median(member.step_seconds for member in members)


def _predicted(
    kind: str, members: Sequence[Case], model: PerformanceModel, timed: TimedSteps | None = None
) -> Predicted:
    first = members[0]
    question = question_of(first).model_copy(update={"timed": timed})
    run = model.runs.of(question)
    step = model.step_seconds(run) or float("nan")
    deviation = sqrt(model.step_variance(run))
    factor = exp(SIGMAS * deviation)
    seen = model.known.run(run, question)
    return Predicted(
        left_out=kind,
        workload=first.facts.workload,
        label=label_of(first),
        runs=len(members),
        measured=_seconds(members),
        predicted=step,
        low=step / factor,
        high=step * factor,
        known=not seen.unknown and model.known.has_entry(first.facts.entry),
        why="; ".join(seen.unknown or seen.notes),
    )


def question_of(case: Case) -> Question:
    """The question whose answer a run is: steady steps alone, so that it is not said how long it runs."""
    facts, target = case.facts, case.record.target
    return Question(
        work=case.work.model_copy(update={"epochs": None}),
        framework=facts.framework,
        version=case.record.version,
        entry=facts.entry,
        origin=case.record.origin,
        container=facts.container,
        settings={**facts.switches},
        architecture=target.architecture,
        processor=target.processor,
        node_cores=target.cores,
        threads=facts.threads,
        accelerator=target.accelerator,
    )


# --- regret


def _tables(found: Sequence[Case]) -> list[list[Case]]:
    """The groups of suites, each on one machine and of one workload, with enough variants to choose among."""
    tables: dict[Hashable, list[Case]] = {}
    for case in found:
        *table, _, _ = case.block
        tables.setdefault((*table, case.facts.workload), []).append(case)
    return [members for members in tables.values() if len(_by_label(members)) >= _LEAST_TABLE]


def _by_label(members: Iterable[Case]) -> dict[str, list[Case]]:
    """The runs by configuration, stock first: without a switch, and of the entry that the table begins with."""
    found: dict[str, list[Case]] = {}
    for member in sorted(members, key=lambda member: len(label_of(member).split())):
        found.setdefault(label_of(member), []).append(member)
    return found


def _regret(table: Sequence[Case], numerics: str, left_out: str, model: PerformanceModel) -> Regret | None:
    members = [case for case in table if numerics == CLASSES[1] or "precision" not in case.facts.switches]
    has_precision = len(members) < len(table) or any("precision" in case.facts.switches for case in table)
    variants = _by_label(members)
    if len(variants) < _LEAST_TABLE or (numerics == CLASSES[1] and not has_precision):
        return None
    stock, *others = variants
    question = question_of(variants[stock][0])
    taken, ratio = stock, 1.0
    for label in others:
        gain = model.gain(question, question_of(variants[label][0]))
        if gain.is_faster() and gain.surely() > ratio:
            taken, ratio = label, gain.surely()
    times, noise = _times(variants)
    best = min(times, key=lambda time_: times[time_])
    record = table[0].record
    return Regret(
        table=f"{record.suite} {record.group} ({table[0].facts.workload})",
        numerics=numerics,
        left_out=left_out,
        variants=len(variants),
        taken=taken,
        best=best,
        stock=stock,
        regret=times[taken] / times[best] - 1,
        over_stock=times[taken] / times[stock] - 1,
        noise=noise,
    )


def _times(variants: Mapping[str, Sequence[Case]]) -> tuple[dict[str, float], float | None]:
    """Time of every variant over the first one's, paired by round, and how much one such ratio varies."""
    stock = next(iter(variants.values()))
    rounds: dict[Hashable, list[float]] = {}
    for each in stock:
        rounds.setdefault(each.block, []).append(log(each.step_seconds))
    base = {block: fmean(logarithms) for block, logarithms in rounds.items()}
    times, deviations = {}, []
    for label, members in variants.items():
        ratios = [log(member.step_seconds) - base[member.block] for member in members if member.block in base]
        if not ratios:  # never in one round with stock
            ratios = [log(median(member.step_seconds for member in members)) - median(base.values())]
        times[label] = exp(fmean(ratios))
        if len(ratios) > 1 and members is not stock:
            deviations.append(stdev(ratios))
    return times, sqrt(fmean(deviation**2 for deviation in deviations)) if deviations else None
