"""What modak status --watch shows: a table that is drawn anew, or a line for every change."""

from __future__ import annotations

import json
import textwrap
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol

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


class Watch(Protocol):
    """Shows the rows as they are now; a context, which ends the showing."""

    def __enter__(self) -> Watch: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def update(self) -> None:
        """Takes that something may have changed."""


def watch_for(rows: Rows, below: Below = lambda _: [], *, as_json: bool) -> Watch:
    """A table on a terminal; for other programs a line for every change, of text or of JSON."""
    console = Console(highlight=False)
    if console.is_terminal and not as_json:
        return _Screen(rows, below, console)
    return _Lines(rows, below, as_json=as_json)


class _Screen:
    """A table on a terminal, drawn anew every second: times go on between two answers."""

    def __init__(self, rows: Rows, below: Below, console: Console) -> None:
        self._rows, self._below, self._console = rows, below, console
        self._live = Live(console=console, get_renderable=self._table, refresh_per_second=1, transient=False)

    def __enter__(self) -> _Screen:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, error, trace)

    def update(self) -> None:
        self._live.refresh()

    def _table(self) -> Text:
        rows = self._rows()
        lines, below = lines_of(rows, self._console.width), wrapped(self._below(rows), self._console.width)
        room = max(2, self._console.height - 2 - len(below))
        if len(lines) > room:
            lines = [*lines[:room], f"and {len(lines) - room} more"]
        return styled([*lines, *below])


class _Lines:
    """A line for every deployment, and then for every change."""

    def __init__(self, rows: Rows, below: Below, *, as_json: bool) -> None:
        self._rows, self._below, self._as_json = rows, below, as_json
        self._shown: dict[str, list[Any]] = {}
        self._said: list[str] = []  # of what stands below

    def __enter__(self) -> _Lines:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is left open."""

    def update(self) -> None:
        rows = self._rows()
        for row in rows:
            news = [row.get(name) for name in _NEWS]
            if self._shown.get(row["deployment"]) != news:
                self._shown[row["deployment"]] = news
                typer.echo(json.dumps(row) if self._as_json else line_of(row, time.strftime("%H:%M:%S")))
        below = [] if self._as_json else self._below(rows)
        for line in below:
            if line not in self._said:
                typer.echo(f"{time.strftime('%H:%M:%S')}  {line}")
        self._said = below


def wrapped(lines: list[str], width: int) -> list[str]:
    """Lines as wide as a terminal: what is drawn anew has to know how many there are."""
    return [part for line in lines for part in textwrap.wrap(line, width, subsequent_indent="  ")]


def styled(lines: list[str]) -> Text:
    """A table's lines, the heading in bold."""
    text = Text(no_wrap=True)
    text.append(lines[0], style="bold")
    text.append("".join(f"\n{line}" for line in lines[1:]))
    return text
