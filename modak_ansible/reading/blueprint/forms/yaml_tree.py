"""YAML as a tree in which every value and every key knows its place in the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from modak_ansible.errors import Location
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes

_MAX_BYTES = 8 * 2**20


class Item(NamedTuple):
    """A YAML value: a scalar, a list of items, or a mapping of names to items."""

    location: Location
    value: Any
    text: str = ""
    keys: Mapping[str, Location] = MappingProxyType({})

    @property
    def is_map(self) -> bool:
        return isinstance(self.value, dict)

    @property
    def is_list(self) -> bool:
        return isinstance(self.value, list)

    @property
    def entries(self) -> dict[str, Item]:
        """The members of a mapping; empty for anything else."""
        return cast("dict[str, Item]", self.value) if self.is_map else {}

    @property
    def elements(self) -> list[Item]:
        """The members of a list; empty for anything else."""
        return cast("list[Item]", self.value) if self.is_list else []

    def get(self, *path: str) -> Item | None:
        """The item at a path of names, or None where one of them is missing."""
        item: Item | None = self
        for name in path:
            item = item.entries.get(name) if item else None
        return item

    def key_location(self, name: str) -> Location:
        """Where a member's name stands; the mapping itself when it has no such member."""
        return self.keys.get(name, self.location)

    def plain(self) -> Any:
        """The value as plain Python data."""
        if self.is_map:
            return {name: item.plain() for name, item in self.entries.items()}
        if self.is_list:
            return [item.plain() for item in self.elements]
        return self.value

    def at(self, location: Location) -> Item:
        """The same value with one place for all of it."""
        if self.is_map:
            return Item(location, {name: entry.at(location) for name, entry in self.entries.items()})
        if self.is_list:
            return Item(location, [element.at(location) for element in self.elements])
        return Item(location, self.value, self.text)

    def walk(self) -> Iterator[Item]:
        """This item and everything below it."""
        yield self
        for item in [*self.entries.values(), *self.elements]:
            yield from item.walk()


def item_from(value: Any, location: Location) -> Item:
    """An item from plain data, such as a default in a type definition, with one place for all of it."""
    if isinstance(value, dict):
        return Item(location, {str(name): item_from(each, location) for name, each in value.items()})
    if isinstance(value, list):
        return Item(location, [item_from(each, location) for each in value])
    return Item(location, value, "" if value is None else str(value))


def read_yaml(path: Path, mistakes: Mistakes) -> Item | None:
    """The tree of a YAML file, or None (and a mistake) when it cannot be read or is not YAML.

    Args:
        mistakes: collects what is wrong: syntax, duplicate keys, merge keys, unknown tags.
    """
    text = read_text(path, mistakes)
    return parse_yaml(text, str(path), mistakes) if text is not None else None


def read_text(path: Path, mistakes: Mistakes) -> str | None:
    """The text of a file, or None (and a mistake) when it cannot be read, is not UTF-8, or is larger than 8 MiB."""
    place = Location(str(path))
    try:
        if path.stat().st_size > _MAX_BYTES:
            mistakes.add(place, "file-unreadable", "the file is larger than 8 MiB")
            return None
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        mistakes.add(place, "yaml-syntax", f"not UTF-8 text at byte {error.start}")
    except OSError as error:
        mistakes.add(place, "file-unreadable", f"cannot be read: {error.strerror}")
    return None


def parse_yaml(text: str, name: str, mistakes: Mistakes) -> Item | None:
    """As :func:`read_yaml`, for text; ``name`` is the path shown in messages."""
    from modak_ansible.reading.blueprint.forms.yaml_parser import parse  # noqa: PLC0415 - PyYAML is slow to import

    return parse(text, name, mistakes)
