"""Why a prediction is what it is, and what the model has learnt: coefficients as factors, with intervals."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import exp, fsum, sqrt

from modak_ansible.model.measured.need import Need
from modak_ansible.model.measured.prediction import SIGMAS, Interval, Prediction, Question
from modak_ansible.performance.features import DAY, FEATURES_OF, Feature, group_of
from modak_ansible.performance.model import PerformanceModel
from modak_ansible.performance.regression import Regression
from modak_ansible.performance.run import Run


@dataclass(frozen=True)
class Contribution:
    """What one matter does to the seconds of a part: a factor, over 1 where it makes the part longer."""

    part: str
    name: str
    factor: Interval
    records: int | None  # measured runs of it; None for what is no matter of counting, such as the size of a step


@dataclass(frozen=True)
class OperatorTime:
    """What all calls of one operator would take in a step: at the peak, or at the memory's bandwidth."""

    name: str
    calls: int
    gflop: float
    gigabytes: float
    seconds: float


@dataclass(frozen=True)
class Explanation:
    question: Question
    prediction: Prediction
    step: float | None  # seconds of a steady step; None where the work or the peak is not known
    ideal: float | None  # seconds of a step at the target's peak, which the factors of ``training`` multiply
    peak: float | None
    contributions: tuple[Contribution, ...]
    operators: tuple[OperatorTime, ...] = ()  # of a step that was traced, those that take longest first


@dataclass(frozen=True)
class Coefficient:
    """One coefficient as a factor of the part's seconds."""

    part: str
    group: str
    name: str
    factor: Interval
    records: int


def explain(model: PerformanceModel, question: Question, need: Need | None = None) -> Explanation:
    """Why the model predicts what it does: every matter's factor, all that belongs to a switch taken together.

    Args:
        need: the training's trace, where there is one.
    """
    run = model.runs.of(question)
    step = model.step_seconds(run)
    ideal = run.facts.step_gflop / run.peak if run.facts.step_gflop and run.peak else None
    contributions: list[Contribution] = []
    for part in ("step", "first_step", "start"):
        regression = model.regressions.get(part)
        if regression is not None:
            features = FEATURES_OF[part](model.counted(run.facts) if part == "step" else run.facts)
            contributions += _contributions("training" if part == "step" else part, regression, features, run)
    times = operator_times(need, run) if need else ()
    return Explanation(question, model.predict(question), step, ideal, run.peak, tuple(contributions), times)


def operator_times(need: Need, run: Run) -> tuple[OperatorTime, ...]:
    """The roofline of a traced step by operators; none where the machine's peak or bandwidth is not known."""
    if not run.peak or not run.facts.balance:
        return ()
    bandwidth = run.peak / run.facts.balance
    by_name: dict[str, list[OperatorTime]] = {}
    for operator in need.operators or ():
        gflop, size = operator.flop / 1e9, operator.bytes / 1e9
        operator_time = OperatorTime(
            operator.name, operator.count, gflop, size, max(gflop / run.peak, size / bandwidth)
        )
        by_name.setdefault(operator.name, []).append(operator_time)
    times = (
        OperatorTime(
            name,
            sum(member.calls for member in members),
            fsum(member.gflop for member in members),
            fsum(member.gigabytes for member in members),
            fsum(member.seconds for member in members),
        )
        for name, members in by_name.items()
    )
    return tuple(sorted(times, key=lambda time: (-time.seconds, time.name)))


def coefficients(model: PerformanceModel, part: str = "step") -> list[Coefficient]:
    """What the model has learnt of a part: every coefficient."""
    stored = model.regressions[part].part
    rows = zip(stored.groups, stored.names, stored.mean, stored.deviations, stored.counts, strict=True)
    return [
        Coefficient(part, group, name, _factor(mean, deviation), count) for group, name, mean, deviation, count in rows
    ]


def switch_effects(model: PerformanceModel) -> list[Coefficient]:
    """What each switch does to a steady step, with all that belongs to it taken together.

    For every version in work that is not on record, and for the version with the most runs in each workload; nothing
    of a model that too few runs were there for.
    """
    regression = model.regressions.get("step")
    if regression is None:
        return []
    groups = dict(zip(regression.part.names, regression.part.groups, strict=True))
    effects = []
    for switch in (name for name, group in groups.items() if group == "switch"):
        entries, workloads, machines = (
            sorted(name for name in groups if name.startswith(f"{switch} {word} ")) for word in ("with", "in", "on")
        )
        of_workloads = group_of("switch in workload", switch)
        in_all = [
            ("switch", switch, 1.0),
            *((of_workloads, machine, 1.0) for machine in machines if len(machines) == 1),
        ]
        unmeasured = (of_workloads, f"{switch} in", 1.0)
        for entry in entries:
            features = [*in_all, ("switch in version", entry, 1.0), unmeasured]
            effects.append(
                Coefficient("step", "switch", entry, _together(regression, features), regression.counts[entry])
            )
        most_measured = max(entries, key=lambda entry: regression.counts[entry], default="")
        for workload in workloads if most_measured else ():
            features = [*in_all, ("switch in version", most_measured, 1.0), (of_workloads, workload, 1.0)]
            name = f"{most_measured} in {workload.rpartition(' in ')[2]}"
            effects.append(
                Coefficient("step", "switch", name, _together(regression, features), regression.counts[workload])
            )
    return effects


def _contributions(part: str, regression: Regression, features: Iterable[Feature], run: Run) -> list[Contribution]:
    subjects: dict[str, list[Feature]] = {}
    for feature in features:
        subjects.setdefault(_subject(feature, run), []).append(feature)
    contributions = []
    for name, members in subjects.items():
        counts = [regression.counts.get(feature_name, 0) for group, feature_name, _ in members if group in _COUNTED]
        contributions.append(Contribution(part, name, _together(regression, members), max(counts) if counts else None))
    return contributions


_VERY = "configuration on machine"
_COUNTED = {"all", "framework", "entry", "workload", "machine", "switch", "pair", "container", _VERY}


def _subject(feature: Feature, run: Run) -> str:
    """What a feature belongs to, for people."""
    group, name, _ = feature
    if group == "all":
        return "what every run loses to the peak"
    if group in {"framework", "entry"}:
        return f"{run.facts.framework}, {run.facts.entry or 'an image without an entry'}"
    if group in {"workload", "framework in workload"}:
        return f"the workload, {run.facts.workload or 'which is not on record'}"
    if group in {"size", "framework and size", "threads"}:
        return "the size of a step" if group != "threads" else "threads"
    if group == "pair":
        return "switches together"
    if group == _VERY:
        return "this very configuration there"
    if group in {"machine", "framework on machine", "workload on machine", "balance"}:
        return f"the machine, {run.facts.machine or 'whose processor is not known'}"
    if group == DAY:
        return f"the day of its newest runs, {run.facts.day}"
    if group == "container":
        return "without a container"
    for switch, value in run.facts.switches.items():
        if name.startswith(f"{run.facts.framework} {switch}={value}"):
            return f"{switch} {value}"
    return name


def _together(regression: Regression, features: Iterable[Feature]) -> Interval:
    vector = regression.vector(features)
    return _factor(regression.mean(vector), sqrt(regression.variance(vector)))


def _factor(mean: float, deviation: float) -> Interval:
    return Interval(
        middle=exp(mean), low=exp(mean - SIGMAS * deviation), high=exp(min(mean + SIGMAS * deviation, 700.0))
    )
