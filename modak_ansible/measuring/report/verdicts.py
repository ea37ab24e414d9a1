"""Whether the papers' findings hold: every pair of runs that a finding speaks of, judged by its interval."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Literal

from modak_ansible.measuring.report.paper import Build, Claim, Finding, Pair, paper
from modak_ansible.measuring.report.runs import Comparison, Quantity, Variant, imports_per_second, speed
from modak_ansible.measuring.statistics import Ratio, paired_ratio

Word = Literal["holds", "does not hold", "cannot be said"]
QUANTITIES: dict[str, Quantity] = {"speed": speed, "import": imports_per_second}


@dataclass(frozen=True)
class Verdict:
    """A finding's sentence about one pair of builds on one machine."""

    word: Word
    reason: str
    ratio: Ratio | None
    baseline: Variant
    other: Variant
    machine: str
    workload: str

    @property
    def today(self) -> bool:
        """Whether software is in it that the paper did not have."""
        return not (_is_the_papers(self.baseline) and _is_the_papers(self.other))


def judge(ratio: Ratio | None, claim: Claim) -> tuple[Word, str]:
    """The verdict and, where nothing can be said, the reason.

    A finding holds when the whole interval lies between the claim's bounds, and does not hold when the whole of it lies
    beyond one of them; an interval that covers a bound says neither.
    """
    if ratio is None:
        return "cannot be said", "no round measured both"
    if ratio.low is None or ratio.high is None:
        return "cannot be said", "one round has no interval"
    above = -math.inf if claim.above is None else claim.above
    below = math.inf if claim.below is None else claim.below
    if above < ratio.low and ratio.high < below:
        return "holds", ""
    if ratio.high <= above or ratio.low >= below:
        return "does not hold", ""
    return "cannot be said", f"the interval covers {above if ratio.low <= above else below:g}"


def verdicts(finding: Finding, comparisons: Iterable[Comparison]) -> list[Verdict]:
    """One for each pair of builds and machine, those of the paper's software first."""
    candidates = [
        verdict
        for comparison in comparisons
        if comparison.is_timed
        and finding.workload in {"", comparison.workload}
        and finding.accelerated in {None, bool(comparison.accelerator)}
        for pair in finding.pairs
        for verdict in _in_comparison(finding, pair, comparison)
    ]
    chosen: dict[tuple[str, ...], Verdict] = {}
    for verdict in candidates:
        builds = [
            (variant.record.framework, variant.record.version, variant.compiler)
            for variant in (verdict.baseline, verdict.other)
        ]
        key = (*builds[0], *builds[1], verdict.machine, verdict.workload)
        if key not in chosen or _weight(verdict) < _weight(chosen[key]):
            chosen[key] = verdict
    return sorted(chosen.values(), key=lambda verdict: verdict.today)


def longest_tick(*variants: Variant) -> float | None:
    """Seconds until which epochs of some variants waited; None: they did not."""
    return max((variant.tick for variant in variants if variant.tick), default=None)


def waits(tick: float) -> str:
    """Why a time says nothing of the work."""
    return f"epochs wait for tf.data's tuning until {tick:.2f} s have passed"


def _weight(verdict: Verdict) -> tuple[bool, bool, int, bool, int]:
    """What was measured goes before what was not, what its own work takes before what a clock says, few switches before
    many, hub before pip, many rounds before few."""
    rounds = verdict.ratio.n if verdict.ratio else 0
    waited = longest_tick(verdict.baseline, verdict.other) is not None
    return (verdict.ratio is None, waited, len(verdict.other.settings), verdict.other.record.origin != "hub", -rounds)


def _in_comparison(finding: Finding, pair: Pair, comparison: Comparison) -> Iterator[Verdict]:
    quantity = QUANTITIES[finding.quantity]
    sides = (
        [variant for variant in comparison.variants if _is_of(variant, build)] for build in (pair.baseline, pair.other)
    )
    for baseline, other in product(*sides):
        if not _comparable(pair, baseline, other):
            continue
        ratio = paired_ratio(baseline.by_block(quantity), other.by_block(quantity))
        word, reason = judge(ratio, finding.holds)
        if finding.quantity == "speed" and (tick := longest_tick(baseline, other)):
            word, reason = "cannot be said", waits(tick)
        if ratio is None:
            reason = _unmeasured(other) or _unmeasured(baseline) or reason
        yield Verdict(word, reason, ratio, baseline, other, comparison.machine, comparison.workload)


def _is_of(variant: Variant, build: Build) -> bool:
    record = variant.record
    return (
        build.framework in {"", record.framework}
        and (not build.version or _is_version(variant, build.version))
        and (not build.origins or record.origin in build.origins)
        and (build.container is None or variant.container == build.container)
        and (build.container is not None or variant.compiler in build.compilers)
    )


def _is_version(variant: Variant, version: str) -> bool:
    return not _is_the_papers(variant) if version == "today" else _begins(variant.record.version, version)


def _begins(version: str, start: str) -> bool:
    return version == start or version.startswith(f"{start}.")


def _is_the_papers(variant: Variant) -> bool:
    record = variant.record
    return any(_begins(record.version, version) for version in paper().versions.get(record.framework, ()))


def _comparable(pair: Pair, baseline: Variant, other: Variant) -> bool:
    """Nothing else may differ than what the finding is about."""
    varied = {"compiler"} if pair.baseline.compilers != pair.other.compilers else set()
    if pair.baseline.container is not None:
        varied = {"container"}
        if baseline.entry != other.entry:
            return False
    elif baseline.container != other.container:
        return False
    return _without(baseline, varied) == _without(other, varied)


def _without(variant: Variant, names: set[str]) -> dict[str, str]:
    return {
        name: value for name, value in variant.settings if name not in names and (name, value) != ("compiler", "none")
    }


def _unmeasured(variant: Variant) -> str:
    if variant.trainings:
        return ""
    record = variant.runs[-1].record
    return f"{variant.label} {record.outcome}" + (f": {record.reason}" if record.reason else "")
