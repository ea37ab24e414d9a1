"""What modak status --watch shows: a table that is drawn anew, or a line for every change."""

from __future__ import annotations

import json
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from modak_ansible.commands.status.table import line_of, lines_of
from modak_ansible.deployment.status import StatusRow

Rows = Callable[[], list[StatusRow]]
Below = Callable[[list[StatusRow]], list[str]]  # lines that stand below a table of such rows
# What makes a line of its own; time, steps and loss move on by themselves.
_NEWS = ("state", "stage", "job_id", "explanation", "position", "nodes", "epoch", "exit_code")


@contextmanager
def watch_for(rows: Rows, below: Below = lambda _: [], *, as_json: bool) -> Iterator[Callable[[], None]]:
    """A table on a terminal; for other programs a line for every change, of text or of JSON.

    What it gives is called where something may have changed.
    """
    console = Console(highlight=False)
    if as_json or not console.is_terminal:
        yield _Lines(rows, below, as_json=as_json).update
        return
    # drawn anew every second: times go on between two answers
    with Live(console=console, get_renderable=lambda: _table(rows(), below, console), refresh_per_second=1) as live:
        yield live.refresh


def _table(rows: list[StatusRow], below: Below, console: Console) -> Text:
    lines, last = lines_of(rows, console.width), wrapped(below(rows), console.width)
    room = max(2, console.height - 2 - len(last))
    if len(lines) > room:
        lines = [*lines[:room], f"and {len(lines) - room} more"]
    return styled([*lines, *last])


class _Lines:
    """A line for every deployment, and then for every change."""

    def __init__(self, rows: Rows, below: Below, *, as_json: bool) -> None:
        self._rows, self._below, self._as_json = rows, below, as_json
        self._shown: dict[str, list[Any]] = {}
        self._last_below: list[str] = []  # of what stands below

    def update(self) -> None:
        rows = self._rows()
        for row in rows:
            news = [row.get(name) for name in _NEWS]
            if self._shown.get(row["deployment"]) != news:
                self._shown[row["deployment"]] = news
                typer.echo(json.dumps(row) if self._as_json else line_of(row, time.strftime("%H:%M:%S")))
        below = [] if self._as_json else self._below(rows)
        for line in below:
            if line not in self._last_below:
                typer.echo(f"{time.strftime('%H:%M:%S')}  {line}")
        self._last_below = below


def wrapped(lines: list[str], width: int) -> list[str]:
    """Lines as wide as a terminal: what is drawn anew has to know how many there are."""
    return [part for line in lines for part in textwrap.wrap(line, width, subsequent_indent="  ")]


def styled(lines: list[str]) -> Text:
    """A table's lines, the heading in bold."""
    text = Text(no_wrap=True)
    text.append(lines[0], style="bold")
    text.append("".join(f"\n{line}" for line in lines[1:]))
    return text
