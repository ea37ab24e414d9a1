"""What follows from declarations in the code, as files of the repository hold it: ``make generate`` writes it anew.

Modules here have ``FILES``: by a file's path, what makes its new text from the one that it has. Several may write
parts of one file. tests/unit/test_generated.py says which files are behind.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Iterable, Iterator
from textwrap import wrap

Writers = dict[str, Callable[[str], str]]


def generated_files() -> dict[str, list[Callable[[str], str]]]:
    """What writes each file of which a part is generated."""
    writers_of: dict[str, list[Callable[[str], str]]] = {}
    for module in pkgutil.iter_modules(__path__):
        if module.name != "__main__":
            writers: Writers = getattr(importlib.import_module(f"{__name__}.{module.name}"), "FILES", {})
            for path, writer in writers.items():
                writers_of.setdefault(path, []).append(writer)
    return writers_of


def generated(text: str, writers: list[Callable[[str], str]]) -> str:
    """A file's text with its generated parts as they follow from the code today."""
    for writer in writers:
        text = writer(text)
    return text


def with_section(text: str, name: str, body: str) -> str:
    """The text with other lines between the comments ``name`` and ``/name`` of YAML or Markdown.

    Raises:
        ValueError: it has no such comments.
    """
    pattern = re.compile(rf"(^ *(?:<!--|#) {name}\b.*\n)(?:.*\n)*?( *(?:<!--|#) /{name}\b)", re.MULTILINE)
    text, count = pattern.subn(lambda match: f"{match[1]}{body}\n{match[2]}", text)
    if count != 1:
        raise ValueError(f"{count} sections {name}, and one is written")
    return text


def tosca_property(name: str, kind: Iterable[str], description: str, *, is_required: bool) -> Iterator[str]:
    """The lines of a property of a type of TOSCA.

    Args:
        kind: the lines of its type and constraints.
    """
    yield f"      {name}:"
    yield from (f"        {line}" for line in kind)
    if not is_required:
        yield "        required: false"
    yield "        description: >-"
    yield from (f"          {line}" for line in wrap(description, 108, break_on_hyphens=False))


def table(*rows: tuple[str, ...]) -> str:
    """A table of Markdown; the first row is its head."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], "|---" * len(rows[0]) + "|", *lines[1:]])
