"""Tables of what was measured, for people."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console

from modak_ansible.commands.tables import print_table, whole_lines
from modak_ansible.measuring.compare import PARTS, Line, Table, compare
from modak_ansible.measuring.statistics import Ratio, Summary
from modak_ansible.model.measured.record import Record


def print_tables(*files: Iterable[Record]) -> None:
    """A table for every group of some files' records: trainings by variant, or quantities of the infrastructure."""
    console = whole_lines()
    tables = compare(*files)
    if not tables:
        console.print("nothing was measured")
    for table in tables:
        console.print()
        console.print(f"{table.suite}, {table.group}: {table.workload} on {table.target}", style="bold", markup=False)
        _trainings(table, console)
        _quantities(table, console)
        for line in table.lines:
            if line.left_out:
                counts = ", ".join(f"{number} {name}" for name, number in line.left_out.items())
                reason = line.reason.partition("\n")[0]
                console.print(f"  {line.variant}: {counts}{f': {reason}' if reason else ''}", markup=False)


def _trainings(table: Table, console: Console) -> None:
    has_joules = any(line.joules for line in table.lines)
    rows = []
    for line in table.lines:
        if line.steady and line.images_per_second:
            spread = f"{_number(line.steady.least)} to {_number(line.steady.most)}"
            parts = [_seconds(line.parts.get(name)) for name in PARTS]
            rate = _number(line.images_per_second.median)
            used = [_number(line.joules.median) if line.joules else ""] if has_joules else []
            cells = (line.variant, _number(line.steady.median), spread, str(line.steady.n), rate, *used)
            rows.append((*cells, *_ratio(line), *parts))
    titles = ("variant", "s an epoch", "least to most", "runs", "images/s", *["J a run"] * has_joules)
    print_table((*titles, "time ratio", "95 %", "", *PARTS), rows, console=console)
    for source in dict.fromkeys(source for line in table.lines for source in line.energy_sources):
        console.print(f"  joules: by {source}", markup=False)


def _ratio(line: Line) -> tuple[str, str, str]:
    ratio: Ratio | None = line.ratio
    if ratio is None:
        return "", "", ""
    if ratio.low is None or ratio.high is None:
        return f"{ratio.median:.3f}", "", "one round does not show the noise"
    noise = "within noise" if line.is_noise else ""
    if line.tick:
        noise = f"no measure: steps wait for ticks of {1000 * line.tick:.0f} ms"
    return f"{ratio.median:.3f}", f"{ratio.low:.3f} to {ratio.high:.3f}", noise


def _quantities(table: Table, console: Console) -> None:
    rows = []
    for quantity in table.quantities:
        spread = f"{_number(quantity.values.least)} to {_number(quantity.values.most)}"
        rows.append(
            (
                quantity.variant,
                quantity.name,
                _number(quantity.values.median),
                quantity.unit,
                spread,
                str(quantity.values.n),
                quantity.about,
            )
        )
    print_table(("variant", "quantity", "median", "unit", "least to most", "samples", "of"), rows, console=console)


def _seconds(values: Summary | None) -> str:
    return f"{values.median:.2f} s" if values else ""


def _number(value: float) -> str:
    return f"{value:.4g}"
