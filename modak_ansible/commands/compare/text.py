"""What modak compare shows: a table as wide as the terminal, CSV, JSON, and curves of braille dots."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from functools import partial
from string import ascii_lowercase
from typing import Any, NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from modak_ansible.commands.compare.braille import Canvas
from modak_ansible.commands.status.table import clock
from modak_ansible.deployment.comparison import ComparedRun, Comparison
from modak_ansible.model.quantities import format_joules
from modak_ansible.target.metrics.curves import Curve, is_rising

_GAP = "  "
_VALUE = 28  # of the terminal's columns for a name or a value
_OTHERS = 6  # numbers beside the one that is compared by, where no terminal's width bounds them
_HEIGHT, _DRAWN = 12, 12
_COLOURS = ("green", "cyan", "magenta", "yellow", "bright_blue", "red")


class _Column(NamedTuple):
    title: str
    cells: list[str]
    is_number: bool = True

    @property
    def size(self) -> int:
        return max(map(cell_len, (self.title, *self.cells)))

    def lines(self) -> list[str]:
        return [_fitted(text, self.size, right=self.is_number) for text in (self.title, *self.cells)]


def table(comparison: Comparison, width: int | None = None) -> list[str]:
    """The heading, and a line for each training, the best one first.

    What has no room is left out: other numbers, energy and time, then what was given, for which the name stands.
    """
    runs = comparison.runs
    arguments = [_argument_column(comparison, name) for name in comparison.differs]
    names = _Column("deployment", [run.deployment for run in runs], is_number=False)
    labels = [comparison.label(run) for run in runs]
    named = [] if arguments and len(set(labels)) == len(labels) else [names]
    if {run.state for run in runs} != {"COMPLETED"}:
        named.append(
            _Column("state", ["planned" if run.state == "NONE" else run.state for run in runs], is_number=False)
        )
    best, curves = [comparison.best(run) for run in runs], [run.curve(comparison.by) for run in runs]
    letters = [f"{letter(rank)}{'*' if rank == 0 and point else ''}" for rank, point in enumerate(best)]
    compared = [
        _Column(_cut(f"best {comparison.by}", _VALUE), [number(point[1]) if point else "-" for point in best]),
        _Column(f"at {comparison.axis}", list(map(partial(_place, comparison.axis), best, curves))),
        _Column("last", [number(curve.last) if curve else "-" for curve in curves]),
    ]
    other_names = [name for name in comparison.names if name != comparison.by]
    extra_columns = [
        _Column("time", [clock(run.seconds) if run.seconds is not None else "" for run in runs]),
        *[_Column("energy", [_energy(run) for run in runs])] * _has_energy(comparison),
        *(_number_column(runs, name) for name in (other_names if width else other_names[:_OTHERS])),
    ]
    while True:
        columns = [_Column("", letters, is_number=False), *arguments, *named, *compared, *extra_columns]
        if (
            not width
            or sum(column.size + len(_GAP) for column in columns) - len(_GAP) <= width
            or not (extra_columns or arguments)
        ):
            break
        if extra_columns:
            extra_columns.pop()
        else:
            arguments.pop()
            named = [names, *(column for column in named if column is not names)]
    lines = [_GAP.join(cells).rstrip() for cells in zip(*(column.lines() for column in columns), strict=True)]
    return [_cut(line, width) if width else line for line in lines]


def _argument_column(comparison: Comparison, name: str) -> _Column:
    return _Column(
        _cut(name, _VALUE), [_cut(run.given.get(name, ""), _VALUE) for run in comparison.runs], is_number=False
    )


def _place(axis: str, best: tuple[float, float] | None, curve: Curve | None) -> str:
    if best is None or curve is None:
        return ""
    return f"{best[0]:g}" if curve.by == axis else f"{curve.by} {best[0]:g}"


def _number_column(runs: Sequence[ComparedRun], name: str) -> _Column:
    return _Column(_cut(name, _VALUE), [number(run.numbers[name]) if name in run.numbers else "-" for run in runs])


def _has_energy(comparison: Comparison) -> bool:
    return any(run.joules is not None for run in comparison.runs)


def _energy(run: ComparedRun) -> str:
    return "-" if run.joules is None else format_joules(run.joules).partition(" (")[0]


def letter(place: int) -> str:
    """What a training is called in the table and beside its curve: a to z, then aa, ab, ..."""
    return (letter(place // 26 - 1) if place >= 26 else "") + ascii_lowercase[place % 26]


def number(value: float) -> str:
    return f"{value:.4g}"


def as_csv(comparison: Comparison) -> str:
    """A line for each training: what differs, then the best and the last of each number."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    energy = ["joules"] if _has_energy(comparison) else []
    parts = [f"{name} {part}" for name in comparison.names for part in ("best", "last")]
    writer.writerow(["deployment", "training", "state", *comparison.differs, "seconds", *energy, *parts])
    for run in comparison.runs:
        used = [run.joules] if energy else []
        facts = _facts(comparison, run)["numbers"]
        values = [facts.get(name, {}).get(part) for name in comparison.names for part in ("best", "last")]
        arguments = [run.given.get(name, "") for name in comparison.differs]
        measured = ("" if value is None else repr(value) for value in (run.seconds, *used, *values))
        writer.writerow([run.deployment, run.training, run.state, *arguments, *measured])
    return out.getvalue()


def as_json(comparison: Comparison) -> str:
    """All of it: with the curve of the number that is compared by."""
    best = comparison.runs[0] if comparison.runs and comparison.best(comparison.runs[0]) else None
    whole = {
        "by": comparison.by,
        "better": "highest" if comparison.rising else "lowest",
        "best": best.deployment if best else None,
        "differs": list(comparison.differs),
        "runs": [_facts(comparison, run) for run in comparison.runs],
        "remarks": list(comparison.remarks),
    }
    return json.dumps(whole, indent=2, allow_nan=False)


def _facts(comparison: Comparison, run: ComparedRun) -> dict[str, Any]:
    numbers: dict[str, dict[str, float | None]] = {}
    for name in comparison.names:
        curve = run.curve(name)
        rising = comparison.rising if name == comparison.by else is_rising(name)
        best = curve.best(rising=rising) if curve else None
        if curve:
            last = curve.last if math.isfinite(curve.last) else None
            numbers[name] = {"best": best[1] if best else None, "at": best[0] if best else None, "last": last}
    compared = run.curve(comparison.by)
    points = compared.points.items() if compared else ()
    return {
        "deployment": run.deployment, "training": run.training, "state": run.state,
        "given": {name: run.given[name] for name in comparison.differs if name in run.given},
        "seconds": run.seconds, "joules": run.joules, "numbers": numbers,
        "curve": [[place, value if math.isfinite(value) else None] for place, value in points],
    }  # fmt: skip


def curves(comparison: Comparison, width: int) -> list[Text]:
    """The curves in lines of text, each in a colour, with its letter behind its last point; none of single points."""
    drawn = [(place, curve) for place, _, curve in comparison.drawn() if place < _DRAWN]
    with_history = [(place, curve) for place, curve in drawn if len(curve.points) > 1]
    if not with_history or width < 40:
        return []
    values = [value for _, curve in with_history for value in curve.points.values() if math.isfinite(value)]
    places = [point for _, curve in with_history for point in curve.points]
    if not values or max(places) == min(places):
        return []
    low, high = number(min(values)), number(max(values))
    margin = max(len(low), len(high)) + 1
    canvas = Canvas(width - margin - 4, _HEIGHT, (min(places), max(places)), (min(values), max(values)))
    for place, curve in reversed(with_history):  # the best one is drawn last, above the others
        canvas.line(list(curve.points.items()), place)
    lines = [Text("")]
    for index, cells in enumerate(canvas.rows()):
        text = Text((high if index == 0 else low if index == _HEIGHT - 1 else "").rjust(margin - 1) + " ", no_wrap=True)
        for cell, owner in cells:
            text.append(cell, style="" if owner is None else _COLOURS[owner % len(_COLOURS)])
        ends = [place for place, row in canvas.ends.items() if row == index]
        for place in sorted(ends)[:3]:
            text.append(f"{' ' if place == min(ends) else ''}{letter(place)}", style=_COLOURS[place % len(_COLOURS)])
        lines.append(text)
    first, last = f"{min(places):g}", f"{max(places):g}"
    room = max(1, canvas.width - len(first) - len(last))
    lines.append(Text(" " * margin + first + f" {comparison.axis} ".center(room) + last))
    left_out = len(comparison.runs) - len(with_history)
    caption = f"{comparison.by} by {comparison.axis}" + (f"; {left_out} not drawn" if left_out else "")
    return [*lines, Text(" " * margin + caption, style="dim")]


def _cut(text: str, size: int) -> str:
    printable = "".join(letter if letter.isprintable() else " " for letter in text)
    return printable if cell_len(printable) <= size else set_cell_size(printable, size - 1) + "…"


def _fitted(text: str, size: int, *, right: bool) -> str:
    return " " * (size - cell_len(text)) + text if right else set_cell_size(text, size)
