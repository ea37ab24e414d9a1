"""The performance model's answers for people, and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console

from modak_ansible.commands.tables import print_table, whole_lines
from modak_ansible.model.quantities import counted

if TYPE_CHECKING:
    from modak_ansible.model.measured.prediction import Interval
    from modak_ansible.performance.explaining import Coefficient, Explanation, OperatorTime
    from modak_ansible.performance.fit.validation import Learned, Regret, Validation


def factor(interval: Interval) -> str:
    return f"{interval.middle:.3g} ({interval.low:.3g} to {interval.high:.3g})"


def seconds(interval: Interval) -> str:
    return f"{interval.middle:.4g} s ({interval.low:.4g} to {interval.high:.4g})"


def print_coefficients(rows: Iterable[Coefficient], title: str) -> None:
    titles = (title, "Factor on seconds (90 %)", "Runs")
    print_table(titles, ((row.name, factor(row.factor), str(row.records)) for row in rows), wraps=range(3))


def print_explanation(explanation: Explanation) -> None:
    console = Console(soft_wrap=True, highlight=False)
    prediction = explanation.prediction
    console.print(f"predicted: {seconds(prediction.seconds) if prediction.known else 'not known'}")
    for name, interval in prediction.parts.items() if prediction.known else ():
        console.print(f"  {name:<11} {seconds(interval)}")
    if explanation.step and explanation.ideal and explanation.peak:
        console.print(
            f"a step: {explanation.step:.4g} s; at the peak of {explanation.peak:.4g} GFLOP/s it would take "
            f"{explanation.ideal:.4g} s"
        )
    for part in dict.fromkeys(contribution.part for contribution in explanation.contributions):
        console.print(f"\n{_HEADS.get(part, part)}")
        for contribution in explanation.contributions:
            if contribution.part == part:
                count = contribution.records
                runs = "" if count is None else f", {counted(count, 'run')}" if count else ", no record"
                console.print(f"  x {factor(contribution.factor):<28} {contribution.name}{runs}", markup=False)
    _print_operators(console, explanation.operators)
    for doubt in prediction.doubts:
        console.print(f"doubt: {doubt}", markup=False)


def _print_operators(console: Console, operators: Sequence[OperatorTime]) -> None:
    whole = sum(operator.seconds for operator in operators)
    if not whole:
        return
    console.print(f"\nIts operators, each at the peak or at the memory's bandwidth, would take {whole:.4g} s:")
    for operator in operators[:_OPERATORS]:
        share, text = (
            operator.seconds / whole,
            f"{operator.calls} calls, {operator.gflop:.3g} GFLOP, {operator.gigabytes:.3g} GB",
        )
        console.print(f"  {100 * share:5.1f} %  {operator.name}: {text}", markup=False)


_OPERATORS = 10  # that are shown
_HEADS = {
    "training": "A step, as factors of what the peak would allow",
    "first_step": "What the first step takes longer, as factors of 1 s",
    "start": "From the start to the first step, as factors of 1 s",
}


# What a regret is told as, by what was left out of the fit.
REGRETS = {"workload": "with the table's workload left out", "": "in-sample, with the table's own runs in the fit"}


def print_validation(validation: Validation, titles: Mapping[str, str]) -> None:
    console = whole_lines()
    for kind, title in titles.items():
        error, covered = validation.error(kind), validation.coverage(kind)
        rows = [row for row in validation.predicted if row.left_out == kind]
        if not rows:
            continue
        unknown = sum(not row.known for row in rows)
        if error is None or covered is None:
            console.print(f"{title}: all {len(rows)} are said to be unknown")
            continue
        console.print(
            f"{title}: mean error {100 * error:.1f} % of {len(rows) - unknown} configurations, "
            f"{100 * covered:.0f} % of them in their 90 % interval; {unknown} said to be unknown"
        )
    _print_learned(console, validation.learned)
    for text in validation.skipped:
        console.print(text)
    for left_out, title in REGRETS.items():
        short = validation.regret(left_out)
        if short is not None:
            slower = f", {short.slower} slower than stock" if short.slower else ", none slower than stock"
            console.print(
                f"regret {title}: {100 * short.mean:.1f} % on average, {100 * short.median:.1f} % in the middle, "
                f"{100 * short.most:.1f} % at most; {short.over} of {short.tables} over 3 %{slower}"
            )
    _print_regrets(console, validation.regrets)


def _print_learned(console: Console, rows: Iterable[Learned]) -> None:
    titles = (
        "Machine left out",
        "Runs given back",
        "Error of what did not run",
        "Of what ran three times",
        "Its noise",
    )
    cells = [
        (row.machine, str(row.given),
         *("" if value is None else f"{100 * value:.1f} %" for value in (row.others, row.own, row.noise)))
        for row in rows
    ]  # fmt: skip
    if cells:
        print_table(titles, cells, wraps=range(5), console=console)


def _print_regrets(console: Console, regrets: Iterable[Regret]) -> None:
    titles = ("Table", "Numerics", "Left out", "Variants", "Taken", "Best", "Regret", "Over stock", "Noise")
    rows = [
        (
            regret.table, regret.numerics, regret.left_out or "none: in-sample",
            str(regret.variants), regret.taken, regret.best,
            f"{100 * regret.regret:.1f} %", f"{100 * regret.over_stock:+.1f} %",
            "" if regret.noise is None else f"{100 * regret.noise:.1f} %",
        )
        for regret in regrets
    ]  # fmt: skip
    if rows:
        console.print()
        print_table(titles, rows, wraps=range(9), console=console)
