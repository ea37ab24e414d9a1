"""modak status for people: a line a deployment, as wide as the terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size

from modak_ansible.deployment.status import StatusRow
from modak_ansible.target.jobs.numbers import shown_numbers

_TITLES = ("deployment", "point", "target", "job", "state", "time", "epoch", "loss", "")
_GAP = "  "
# Hexadecimal digits at the end of a deployment's name, and how few of them may be shown.
_DIGEST, _SHORTEST = 12, 4
# Columns that a message keeps, and that a name keeps, however narrow the terminal is.
_MESSAGE, _NAME = 16, 12
_DIGITS = re.compile(r"(?<==)\d*\.\d{4,}(?=,|$)")  # a number of a point that has many
_TELLING = 32  # of a message, before jobs' ids make room for it
_POINT, _JOB = _TITLES.index("point"), _TITLES.index("job")
_NUMBERS = 3  # of a script's own, in a line
_ENDED_WELL = ("RUNNING", "COMPLETED", "ENDING")


def lines_of(rows: Sequence[StatusRow], width: int | None = None) -> list[str]:
    """The heading and a line for every row; none is wider than the width, where one is given.

    Args:
        width: columns of the terminal; names and messages that have no room there are cut.
    """
    cells = [_cells(row) for row in rows]
    for row_cells, point in zip(cells, points_of([row.get("training", "") for row in rows]), strict=True):
        row_cells[1] = point
    if len({row.get("target", "") for row in rows}) <= 1:  # one that is always the same says nothing
        for row_cells in cells:
            row_cells[2] = ""
    widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
    if width is not None and _total(widths) > width:
        for row_cells, name in zip(cells, shortened([cell[0] for cell in cells]), strict=True):
            row_cells[0] = name
        for row_cells, point in zip(cells, rounded([cell[_POINT] for cell in cells]), strict=True):
            row_cells[_POINT] = point
        widths[:2] = [max(cell_len(cell[column]) for cell in cells) for column in (0, _POINT)]
        if widths[_POINT] and _total(widths[:-1]) + len(_GAP) + min(_TELLING, widths[-1]) > width:
            widths[_JOB] = 0  # each command takes the name instead
        widths[-1] = min(widths[-1], max(_MESSAGE, width - _total(widths[:-1]) - len(_GAP)))
        widths[0] = max(_NAME, widths[0] - max(0, _total(widths) - width))
    widths = [max(size, len(title)) if size else 0 for size, title in zip(widths, _TITLES, strict=True)]
    lines = [_line(list(_TITLES), widths), *(_line(cell, widths) for cell in cells)]
    return lines if width is None else [_cut(line, width) for line in lines]


def line_of(row: StatusRow, moment: str) -> str:
    """What has changed of one deployment, for a log: when, its name, and how it is."""
    cells = _cells(row)
    cells[1] = row.get("training", "").partition(":")[2]
    return _GAP.join([moment, *(cell for cell in cells if cell)])


def points_of(trainings: Sequence[str]) -> list[str]:
    """What tells the points of each sweep apart, such as ``lr=0.1``; empty for a training that is none."""
    split = [name.partition(":") for name in trainings]
    values: dict[tuple[str, str], set[str]] = {}
    for node, _, point in split:
        for word in filter(None, point.split(",")):
            values.setdefault((node, word.partition("=")[0]), set()).add(word)
    return [
        ",".join(word for word in point.split(",") if word and len(values[node, word.partition("=")[0]]) > 1)
        for node, _, point in split
    ]


def rounded(points: Sequence[str]) -> list[str]:
    """Points with three digits of their numbers, where these still differ as they did."""
    short = [_DIGITS.sub(lambda match: f"{float(match[0]):.3g}", point) for point in points]
    return short if len(set(short)) == len(set(points)) else list(points)


def shortened(names: Sequence[str]) -> list[str]:
    """Names with so few digits of their digests that they still differ; modak takes the beginning of a name for it."""
    for digits in range(_SHORTEST, _DIGEST):
        short = [name[: digits - _DIGEST] if _has_digest(name) else name for name in names]
        if len(set(short)) == len(set(names)):
            return short
    return list(names)


def _has_digest(name: str) -> bool:
    return len(name) > _DIGEST and name[-_DIGEST - 1] == "-"


def epochs_of(row: StatusRow) -> str:
    """How far a training is, such as ``3/12``."""
    epoch, requested = row.get("epoch"), row.get("epochs_requested")
    return f"{epoch}/{requested}" if epoch and requested else str(epoch or "")


def _cells(row: StatusRow) -> list[str]:
    cells = (
        row["deployment"],
        "",
        row.get("target", ""),
        row.get("job_id", ""),
        _state(row),
        _time(row),
        epochs_of(row),
        "" if row.get("loss") is None else f"{row['loss']:.4g}",
        _message(row),
    )
    # what a target says may hold anything, and must not move the cursor
    return [_printable(str(cell)) for cell in cells]


def _printable(text: str) -> str:
    return text if text.isprintable() else "".join(letter if letter.isprintable() else " " for letter in text)


def _state(row: StatusRow) -> str:
    state = str(row["state"])
    return str(row.get("stage", "")) if state == "NONE" else state


def _time(row: StatusRow) -> str:
    elapsed, predicted = row.get("elapsed_seconds"), row.get("predicted_seconds")
    if elapsed is None:
        return ""
    return f"{clock(elapsed)}/{clock(predicted)}" if predicted else clock(elapsed)


def clock(seconds: float) -> str:
    """A time as 4:10 or 1:04:10."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def _message(row: StatusRow) -> str:
    parts = []
    if row["state"] == "QUEUED":
        parts += [f"position {row['position']}"] if row.get("position") else []
        parts += [f"from {row['starts'][:16].replace('T', ' ')}"] if row.get("starts") else []
    ran = [row["nodes"]] if row["state"] in _ENDED_WELL and row.get("nodes") else []
    parts += ran if row["state"] != "COMPLETED" else []
    numbers = row.get("numbers") or {}
    objective = row["search"]["objective"] if "search" in row else ""
    if row["state"] == "COMPLETED" and isinstance(row.get("accuracy"), float) and "accuracy" not in numbers:
        parts.append(f"accuracy {row['accuracy']:.2%}")
    if row["state"] in _ENDED_WELL:
        parts += (
            shown_numbers({objective: numbers[objective]}, 1) if objective in numbers and objective != "loss" else []
        )
        other_numbers = {name: value for name, value in numbers.items() if name not in ("loss", objective)}
        parts += shown_numbers(other_numbers, _NUMBERS)
    parts += ran if row["state"] == "COMPLETED" else []
    parts += row.get("remarks", ())
    parts += [row["explanation"]] if row.get("explanation") else []
    parts += [row["machine"]] if row.get("machine") else []
    return ", ".join(parts)


def _total(widths: Sequence[int]) -> int:
    visible_widths = [size for size in widths if size]
    return sum(visible_widths) + len(_GAP) * (len(visible_widths) - 1)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    parts = [_fitted(cell, size) for cell, size in zip(cells, widths, strict=True) if size]
    return _GAP.join(parts).rstrip()


def _fitted(text: str, size: int) -> str:
    return set_cell_size(_cut(text, size), size)


def _cut(text: str, size: int) -> str:
    return text if cell_len(text) <= size else set_cell_size(text, max(0, size - 1)).rstrip() + "…"
