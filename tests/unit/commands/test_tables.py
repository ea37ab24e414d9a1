"""Tables: cut or broken where a terminal is narrow, and whole for other programs."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from modak_ansible.commands.tables import print_table, whole_lines

TITLES = ("name", "why")


def shown(rows, width=None, **how):
    file = io.StringIO()
    console = Console(file=file, force_terminal=width is not None, width=width, color_system=None, legacy_windows=False)
    print_table(TITLES, rows, console=console, **how)
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_for_other_programs_a_row_is_a_line():
    why = "word " * 400
    assert shown([("one", why), ("two", "")]) == ["name  why", f"one   {why.rstrip()}", "two"]
    assert whole_lines().width > 1000


def test_a_long_text_goes_on_in_its_column_on_a_terminal():
    assert shown([("one", "a few words")], 14, wraps=(1,)) == ["name  why", "one   a few", "      words"]


def test_what_must_not_be_broken_is_cut():
    assert shown([("deployment-0123456789", "")], 12)[1] == "deployme…"


def test_brackets_are_no_markup():
    """In what a scheduler or a script says, they are as they stand."""
    assert shown([("[bold]", "node[01-04] [/red]")])[1] == "[bold]  node[01-04] [/red]"


def test_without_rows_there_is_no_heading():
    assert shown([]) == []


def test_without_titles_there_is_no_heading_either():
    file = io.StringIO()
    print_table(("", ""), [("5 MB", "a"), ("15 MB", "b")], right=(0,), console=Console(file=file))
    assert [line.rstrip() for line in file.getvalue().splitlines()] == [" 5 MB  a", "15 MB  b"]


WORDS = st.text(st.characters(categories=("L", "N", "P", "S")), max_size=60)


@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=5), st.integers(20, 100))
def test_no_line_is_wider_than_the_terminal_and_none_is_lost_elsewhere(rows, width):
    assert all(cell_len(line) <= width for line in shown(rows, width, wraps=(1,)))
    assert len(shown(rows)) == len(rows) + 1
