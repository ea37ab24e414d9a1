"""The top of the page: what was measured, and in a few sentences what it says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from modak_ansible.measuring.report.numerics import agreement
from modak_ansible.measuring.report.paper import Finding, paper
from modak_ansible.measuring.report.runs import Comparison, Run, speed
from modak_ansible.measuring.report.trainings import ratio_text
from modak_ansible.measuring.report.verdicts import Verdict, Word, longest_tick, verdicts
from modak_ansible.measuring.statistics import paired_ratio
from modak_ansible.model.measured.record import Record
from modak_ansible.model.quantities import counted

_MOST = 5  # sentences about findings


@dataclass(frozen=True)
class Judged:
    """A finding and what every pair of builds said of it."""

    finding: Finding
    verdicts: tuple[Verdict, ...]

    @property
    def decided(self) -> bool:
        return any(verdict.word != "cannot be said" for verdict in self.verdicts)


def judged(comparisons: Sequence[Comparison]) -> list[Judged]:
    return [Judged(finding, tuple(verdicts(finding, comparisons))) for finding in paper().findings]


def counts(runs: Sequence[Run]) -> dict[str, int]:
    """Runs by outcome, all four named."""
    outcomes = Counter(run.record.outcome for run in runs)
    return {outcome: outcomes[outcome] for outcome in ("measured", "disturbed", "failed", "refused")}


def facts(runs: Sequence[Run]) -> list[tuple[str, str]]:
    records = [run.record for run in runs]
    if not records:
        return []
    dates = sorted(record.date for record in records)
    return [
        ("Suites", ", ".join(sorted({record.suite for record in records}))),
        ("Machines", "; ".join(sorted({_machine(record) for record in records}))),
        ("Allocation", "; ".join(sorted({_allocation(record) for record in records}))),
        ("When", dates[0][:10] if dates[0][:10] == dates[-1][:10] else f"{dates[0][:10]} to {dates[-1][:10]}"),
        ("Neighbours", _neighbours(records)),
    ]


def sentences(comparisons: Sequence[Comparison], judgements: Sequence[Judged]) -> list[tuple[str, str]]:
    """A few findings, each with its verdict, those that were decided first; then numerics and the largest gain."""
    measured = [judgement for judgement in judgements if any(verdict.ratio for verdict in judgement.verdicts)]
    lines = [_sentence(judgement) for judgement in sorted(measured, key=_rank)[:_MOST]]
    closing = " ".join([*agreement(comparisons), *_fastest(comparisons)])
    lines += [("", closing)] if closing else []
    missing = [judgement.finding.title for judgement in judgements if judgement not in measured]
    if missing and lines:
        lines.append(("cannot be said", f"Nothing can be said here of what was not measured: {'; '.join(missing)}."))
    return lines


def _sentence(judgement: Judged) -> tuple[str, str]:
    measured = [verdict for verdict in judgement.verdicts if verdict.ratio]
    papers = [verdict for verdict in measured if not verdict.today]
    todays = [verdict for verdict in measured if verdict.today]
    first = papers or todays
    stated = f"the paper: about {judgement.finding.ratio:g}" if judgement.finding.ratio else "the paper gives no number"
    text = f"{judgement.finding.title}: {_ran(judgement.finding, first)}; {stated}."
    if papers and todays:
        text += f" With today's software it {_together(todays)}: {_ran(judgement.finding, todays)}."
    return _together(first), text


def _together(several: Sequence[Verdict]) -> Word:
    """Of several verdicts: what all say; one that does not hold goes before those that say nothing."""
    words: set[Word] = {verdict.word for verdict in several}
    if words == {"holds"}:
        return "holds"
    return "does not hold" if "does not hold" in words else "cannot be said"


def _ran(finding: Finding, several: Sequence[Verdict]) -> str:
    did = "loaded at" if finding.quantity == "import" else "ran at"
    return "; ".join(
        f"{verdict.other.label} {did} {ratio_text(verdict.ratio)} times the speed of {verdict.baseline.label}"
        + (f" ({verdict.reason})" if verdict.reason else "")
        for verdict in several
    )


def _rank(judgement: Judged) -> tuple[bool, int]:
    """Decided findings go first, and of these the ones that matter most."""
    name, first = judgement.finding.name, paper().headline
    return not judgement.decided, first.index(name) if name in first else len(first)


def _fastest(comparisons: Sequence[Comparison]) -> list[str]:
    """The variant that gains most over the first of its group, with the interval."""
    gains = []
    for comparison in comparisons:
        measured = comparison.measured
        for variant in measured[1:]:
            ratio = paired_ratio(measured[0].by_block(speed), variant.by_block(speed))
            if ratio and ratio.low and ratio.low > 1 and not longest_tick(measured[0], variant):
                gains.append((ratio.low, variant.label, ratio, comparison, measured[0].label))
    if not gains:
        return []
    _, label, ratio, comparison, baseline = max(gains, key=lambda gain: gain[0])
    return [
        f"The largest gain over the first variant of its group, in {comparison.group} ({comparison.workload}): "
        f"{label} ran at {ratio_text(ratio)} times the speed of {baseline}."
    ]


def _machine(record: Record) -> str:
    target = record.target
    cores = f", {target.cores} cores" if target.cores else ""
    accelerator = f", {target.accelerator}" if target.accelerator else ""
    return f"{target.processor} ({target.architecture}{cores}{accelerator}), {target.scheduler} target {target.name}"


def _allocation(record: Record) -> str:
    allocation = record.allocation
    threads = f", {allocation.threads} threads" if allocation.threads else ""
    return f"{counted(allocation.nodes, 'node')}{' exclusively' if allocation.exclusive else ', shared'}{threads}"


def _neighbours(records: Sequence[Record]) -> str:
    busy = [
        record.load.foreign_cores
        for record in records
        if record.outcome == "measured" and record.load.foreign_cores is not None
    ]
    if not busy:
        return "not recorded"
    return f"others kept at most {max(busy):.2f} cores busy during a run that counts"
