"""What the pages of this repository show: their links, their headings, their code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from example_blueprint import ROOT

# The same as docs/hooks.py, which needs mkdocs and so is not imported here.
FOLDERS = ("docs", "benchmarks", "modak_ansible", "roles", "tosca/blueprints")
_FENCE = re.compile(r"^( *)(```+)(\w*)[^\n]*\n(.*?)^\1\2 *$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!\\)\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.*?) *$", re.MULTILINE)
_WORDS = re.compile(r"(?<!`)`([^`\n]+(?:\n[^`\n]+)?)`(?!`)")


class Block(NamedTuple):
    """Code that a page shows; ``line`` is that of its first line in the file."""

    line: int
    language: str
    text: str


class Page:
    """A Markdown file of the repository."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = str(path.relative_to(ROOT))
        self.text = path.read_text(encoding="utf-8")

    @cached_property
    def blocks(self) -> list[Block]:
        """Fenced code, and code that is indented behind an empty line."""
        found = [
            Block(self.text.count("\n", 0, match.start(4)) + 1, match[3], _dedented(match[4], len(match[1])))
            for match in _FENCE.finditer(self.text)
        ]
        return found + list(self._indented())

    @cached_property
    def prose(self) -> str:
        """The text without any block; lines keep their numbers."""
        text = _FENCE.sub(lambda match: "\n" * match[0].count("\n"), self.text)
        lines = text.split("\n")
        for block in self._indented():
            for number in range(block.line - 1, block.line + block.text.count("\n") - 1):
                lines[number] = ""
        return "\n".join(lines)

    @property
    def links(self) -> list[str]:
        """Those that lead to files of the repository, or to places of them."""
        return [link for link in _LINK.findall(self.prose) if not re.match(r"[a-z]+:", link)]

    @property
    def anchors(self) -> set[str]:
        """As GitHub and the site make them of headings."""
        found: set[str] = set()
        for heading in _HEADING.findall(self.prose):
            plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
            found.add(re.sub(r"[^\w\- ]", "", plain).replace(" ", "-"))
        return found

    @property
    def inline(self) -> list[str]:
        """Code within sentences and tables."""
        return [" ".join(words.replace("\\|", "|").split()) for words in _WORDS.findall(self.prose)]

    def _indented(self) -> Iterator[Block]:
        """Blocks of four spaces; within a list they would be its text, and so none are taken there."""
        lines = _FENCE.sub(lambda match: "\n" * match[0].count("\n"), self.text).split("\n")
        number, in_list = 0, False
        while number < len(lines):
            line = lines[number]
            if re.match(r"([-*+]|\d+\.) ", line):
                in_list = True
            elif line and not line.startswith(" "):
                in_list = False
            if line.startswith("    ") and not in_list and (number == 0 or not lines[number - 1].strip()):
                last = number
                while last + 1 < len(lines) and (lines[last + 1].startswith("    ") or not lines[last + 1].strip()):
                    last += 1
                text = "\n".join(lines[number : last + 1]).rstrip() + "\n"
                yield Block(number + 1, "", _dedented(text, 4))
                number = last
            number += 1


def _dedented(text: str, width: int) -> str:
    return "".join(line[width:] if line.strip() else line for line in text.splitlines(keepends=True))


def pages() -> list[Page]:
    """Every page of the site."""
    found = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.md")]
    return [Page(path) for path in sorted({ROOT / "README.md", *(path for path in found if _is_ours(path))})]


def _is_ours(path: Path) -> bool:
    parts = path.relative_to(ROOT).parts
    return not any((ROOT / Path(*parts[:depth])).is_symlink() for depth in range(1, len(parts)))
