"""What a log says is being done, among all that it says: warnings and remarks are no progress."""

from __future__ import annotations

import re
from typing import Iterable

_WARNING = re.compile(
    r"\b(warn(ing)?|deprecat\w*|notice|note|ignored|not found|might not|skipping)\b|^[WN]: ", re.IGNORECASE
)
# What tools put before their own steps; a shell that traces puts a + before each command.
_PREFIX = re.compile(r"^(?:INFO:\s+|I: |\++ )")
# Of apptainer's remarks those are steps that say what it does.
_STEP = re.compile(r"\w+ing\b|Build complete")
# Commands that are over at once.
_QUICK = re.compile(r"(?:cd|read|printf|echo|rm|mkdir|export|set|test|\[|for|true|cat|eval|return|:)(?: |$)")
_WORD = re.compile(r"[A-Za-z]{2}")
# A line of a program that a compiler shows, and a bar that grows.
_NO_STEP = re.compile(r"\d*\s*\||.*(?:[\u2500-\u259f#=]{3}|\beta\b)")


def doing(lines: Iterable[str]) -> str:
    """The last line that says what is being done, without what its tool puts before it; empty where none does."""
    return next((words for words in map(_words, reversed(list(lines))) if words), "")


def _words(line: str) -> str:
    text = line.strip()
    prefix = _PREFIX.match(text)
    words = text[prefix.end() :] if prefix else text
    if not _WORD.search(words) or _WARNING.search(text) or _NO_STEP.match(text):
        return ""
    if prefix and prefix[0].startswith("INFO") and not _STEP.match(words):
        return ""
    if prefix and prefix[0].startswith("+") and _QUICK.match(words):
        return ""
    return words
