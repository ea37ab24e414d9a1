"""What modak compare shows: a table as wide as the terminal, CSV, JSON, and curves of braille dots."""

from __future__ import annotations

import csv
import io
import json
import math
from string import ascii_lowercase
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from modak_ansible.commands.compare.braille import Canvas
from modak_ansible.commands.status.table import clock
from modak_ansible.deployment.comparison import Comparison, Run
from modak_ansible.model.quantities import format_joules
from modak_ansible.target.metrics.curves import is_rising

_GAP = "  "
_VALUE = 28  # columns of an argument's value
_HEIGHT, _DRAWN = 12, 12
_COLOURS = ("green", "cyan", "magenta", "yellow", "bright_blue", "red")


def table(comparison: Comparison, width: int | None = None) -> list[str]:
    """The heading, and a line for each training, the best one first; numbers that have no room are left out."""
    by, others = comparison.by, [name for name in comparison.names if name != comparison.by]
    rows = [_cells(comparison, run, place, others) for place, run in enumerate(comparison.runs)]
    place = _placed(comparison)
    titles = [
        "",
        *comparison.differs,
        *_named(comparison),
        f"best {by}",
        f"at {place}" if place else "at",
        "last",
        "time",
        *["energy"] * _has_energy(comparison),
    ]
    kept, numbers = len(titles), titles.index(f"best {by}")
    titles += others
    widths = [max(map(cell_len, column)) for column in zip(titles, *rows, strict=True)]
    shown = [index for index in range(len(titles)) if index < kept or width is not None or index < kept + 6]
    if width is not None:
        while len(shown) > kept and sum(widths[index] + len(_GAP) for index in shown) - len(_GAP) > width:
            shown.pop()
    lines = []
    for row in (titles, *rows):
        cells = [_fitted(row[index], widths[index], right=index >= numbers) for index in shown]
        line = _GAP.join(cells).rstrip()
        lines.append(line if width is None or cell_len(line) <= width else set_cell_size(line, width - 1) + "…")
    return lines


def _named(comparison: Comparison) -> list[str]:
    """The columns that tell which training it is, where what it was given does not, and its state."""
    labels = [comparison.label(run) for run in comparison.runs]
    names = [] if comparison.differs and len(set(labels)) == len(labels) else ["deployment"]
    return names + (["state"] if {run.state for run in comparison.runs} != {"COMPLETED"} else [])


def _cells(comparison: Comparison, run: Run, place: int, others: list[str]) -> list[str]:
    best, curve = comparison.best(run), run.curve(comparison.by)
    mark = "*" if place == 0 and best else ""
    facts = {"deployment": run.deployment, "state": "planned" if run.state == "NONE" else run.state}
    return [
        f"{letter(place)}{mark}",
        *(_cut(run.given.get(name, ""), _VALUE) for name in comparison.differs),
        *(facts[name] for name in _named(comparison)),
        number(best[1]) if best else "-",
        f"{best[0]:g}" if best else "",
        number(curve.last) if curve else "-",
        clock(run.seconds) if run.seconds is not None else "",
        *[_energy(run)] * _has_energy(comparison),
        *(number(run.numbers[name]) if name in run.numbers else "-" for name in others),
    ]


def _has_energy(comparison: Comparison) -> bool:
    return any(run.joules is not None for run in comparison.runs)


def _energy(run: Run) -> str:
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
        given = [run.given.get(name, "") for name in comparison.differs]
        measured = map(_or_empty, [run.seconds, *used, *values])
        writer.writerow([run.deployment, run.training, run.state, *given, *measured])
    return out.getvalue()


def _or_empty(value: float | None) -> str:
    return "" if value is None else repr(value)


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


def _facts(comparison: Comparison, run: Run) -> dict[str, Any]:
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
    drawn = [(place, run.curve(comparison.by)) for place, run in enumerate(comparison.runs[:_DRAWN])]
    with_history = [(place, curve) for place, curve in drawn if curve and len(curve.points) > 1]
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
    lines.append(Text(" " * margin + first + f" {_placed(comparison)} ".center(room) + last))
    left_out = len(comparison.runs) - len(with_history)
    about = f"{comparison.by} by {_placed(comparison)}" + (f"; {left_out} not drawn" if left_out else "")
    return [*lines, Text(" " * margin + about, style="dim")]


def _placed(comparison: Comparison) -> str:
    found = [curve.by for run in comparison.runs if (curve := run.curve(comparison.by))]
    return found[0] if found else ""


def _cut(text: str, size: int) -> str:
    shown = "".join(letter if letter.isprintable() else " " for letter in text)
    return shown if cell_len(shown) <= size else set_cell_size(shown, size - 1) + "…"


def _fitted(text: str, size: int, *, right: bool) -> str:
    return " " * (size - cell_len(text)) + text if right else set_cell_size(text, size)
