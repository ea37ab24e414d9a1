"""YAML as a tree in which every value and every key knows its place in the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from modak_ansible.errors import Location


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
        return Item(location, {str(name): item_from(entry, location) for name, entry in value.items()})
    if isinstance(value, list):
        return Item(location, [item_from(element, location) for element in value])
    return Item(location, value, "" if value is None else str(value))


def entries_of(item: Item | None) -> Mapping[str, Item]:
    """The members of a mapping; empty for anything else, and for nothing."""
    return item.entries if item else {}
