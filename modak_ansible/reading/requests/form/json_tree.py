"""JSON as a tree in which every value and every name knows its place; YAML has other numbers, and no tabs."""

from __future__ import annotations

import math
import re
from json.decoder import JSONDecodeError
from json.decoder import scanstring as scan_string  # type: ignore[attr-defined]
from typing import Any

from modak_ansible.errors import Location
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.forms.yaml_tree import Item

_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,300})(?:\.\d{1,300})?(?:[eE][+-]?\d{1,4})?(?![\d.eE+-])", re.ASCII)
_COMMENTS = ("//", "/*", "#")
_WORDS = {"true": True, "false": False, "null": None}


def parse_json(text: str, name: str, mistakes: Mistakes) -> Item | None:
    """The tree of a JSON text, or None and a mistake with the place where it is not JSON.

    Args:
        mistakes: also gets every name that is given twice.
    """
    try:
        return _Reader(text, name, mistakes).whole()
    except _NotJson as error:
        mistakes.add(error.location, "json-syntax", f"not JSON: {error}")
    except RecursionError:
        mistakes.add(Location(name), "json-syntax", "nested too deeply")
    return None


class _NotJson(Exception):
    def __init__(self, location: Location, problem: str) -> None:
        super().__init__(problem)
        self.location = location


class _Reader:
    def __init__(self, text: str, name: str, mistakes: Mistakes) -> None:
        self._text = text
        self._name = name
        self._mistakes = mistakes
        self._position = 0
        self._line = 1
        self._line_start = 0
        self._counted = 0

    def whole(self) -> Item:
        self._space()
        if self._position == len(self._text):
            raise self._error("the file is empty")
        item = self._value()
        self._space()
        if self._text[self._position : self._position + 1] == ":" and isinstance(item.value, str):
            raise self._error("the braces around the whole are missing: { before it, } behind it")
        if self._position < len(self._text):
            raise self._error("something follows the end of the value")
        return item

    def _place(self) -> Location:
        """Where the reader stands; it only goes forwards, so that each line is counted once."""
        breaks = self._text.count("\n", self._counted, self._position)
        if breaks:
            self._line += breaks
            self._line_start = self._text.rindex("\n", self._counted, self._position) + 1
        self._counted = self._position
        return Location(self._name, self._line, self._position - self._line_start + 1)

    def _error(self, problem: str) -> _NotJson:
        if self._text.startswith(_COMMENTS, self._position):
            problem = "comments are no part of it: leave this one out, or name the file .yaml, which takes # before one"
        return _NotJson(self._place(), problem)

    def _space(self) -> None:
        match = _SPACE.match(self._text, self._position)
        self._position = match.end() if match else self._position

    def _next(self) -> str:
        self._space()
        return self._text[self._position : self._position + 1]

    def _value(self) -> Item:
        place = self._place()
        first = self._text[self._position : self._position + 1]
        if first == "{":
            return self._mapping(place)
        if first == "[":
            return self._list(place)
        if first == '"':
            value = self._string()
            return Item(place, value, value)
        return self._plain(place)

    def _plain(self, place: Location) -> Item:
        for word, value in _WORDS.items():
            if self._text.startswith(word, self._position):
                self._position += len(word)
                return Item(place, value, word)
        match = _NUMBER.match(self._text, self._position)
        if not match:
            raise self._error("a value is missing or not JSON; text stands in double quotes")
        self._position = match.end()
        number: Any = float(match[0]) if set(match[0]) & set(".eE") else int(match[0])
        if not math.isfinite(number):
            raise _NotJson(place, f"{match[0]} is too large")
        return Item(place, number, match[0])

    def _string(self) -> str:
        place = self._place()
        try:
            value, self._position = scan_string(self._text, self._position + 1, True)
        except JSONDecodeError as error:
            self._position = min(error.pos, len(self._text))
            raise self._error(error.msg.lower().removesuffix(" at").removesuffix(" starting")) from error
        if any("\ud800" <= character <= "\udfff" for character in value):
            raise _NotJson(place, "half of a surrogate pair is not a character")
        return str(value)

    def _list(self, place: Location) -> Item:
        elements: list[Item] = []
        self._position += 1
        while self._next() != "]":
            if elements:
                self._comma("]")
            elements.append(self._value())
        self._position += 1
        return Item(place, elements)

    def _mapping(self, place: Location) -> Item:
        entries: dict[str, Item] = {}
        keys: dict[str, Location] = {}
        first = True
        self._position += 1
        while self._next() != "}":
            if not first:
                self._comma("}")
            first = False
            key_place = self._place()
            if self._next() != '"':
                raise self._error("a name in double quotes is missing")
            key = self._string()
            if self._next() != ":":
                raise self._error(f"the name {key} has no colon behind it")
            self._position += 1
            self._space()
            value = self._value()
            if key in entries:
                self._mistakes.add(key_place, "duplicate-key", f"{key} is given twice, first in line {keys[key].line}")
                continue
            entries[key], keys[key] = value, key_place
        self._position += 1
        return Item(place, entries, keys=keys)

    def _comma(self, end: str) -> None:
        if self._next() != ",":
            raise self._error(f"a comma or {end} is missing")
        self._position += 1
        if self._next() == end:
            raise self._error("nothing follows the comma")
