"""Texts in lines for people, which are broken between words and nowhere else."""

from __future__ import annotations

import textwrap


def wrapped(text: str, width: int, start: str = "", indent: str = "") -> list[str]:
    """A text in lines of at most so many characters, where no single word is longer.

    Args:
        start: what the first line begins with.
        indent: what the others begin with.
    """
    return textwrap.wrap(
        text, width, initial_indent=start, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
