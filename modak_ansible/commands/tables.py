"""Tables for people: plain columns, as wide as the terminal; for other programs every row is one line."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

_UNBROKEN = 10_000  # columns, where there is no terminal


def whole_lines() -> Console:
    """A console that breaks lines on a terminal and nowhere else."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_UNBROKEN)


def print_table(
    titles: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    wraps: Container[int] = (),
    right: Container[int] = (),
    console: Console | None = None,
) -> None:
    """Shows a table; nothing without rows.

    Args:
        titles: of the columns; no heading is shown where all are empty.
        rows: texts, which are shown as they are.
        wraps: the numbers of the columns that go on below where the terminal is narrow; the others are cut.
        right: the numbers of those that are aligned to the right.
        console: where; the standard output without it.
    """
    table = Table(box=None, pad_edge=False, header_style="bold", show_header=any(titles))
    for index, title in enumerate(titles):
        table.add_column(title, justify="right" if index in right else "left", no_wrap=index not in wraps)
    for row in rows:
        table.add_row(*map(Text, row))
    console = console or whole_lines()
    if not console.is_terminal:
        console.width = _UNBROKEN
    if table.row_count:
        console.print(table)
