"""Reads the members of a YAML mapping one by one; whatever is wrong is noted with its place."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from modak_ansible.errors import nearest
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.forms.yaml_tree import Item


class Fields:
    """The members of one mapping.

    Args:
        item: the mapping; anything else is a mistake, and counts as empty.
        what: how it is called in messages, such as ``the suite``.
        allowed: the names that it may have.
        mistakes: collects what is wrong.
    """

    def __init__(self, item: Item, what: str, allowed: Iterable[str], mistakes: Mistakes) -> None:
        self.item = item
        self._what = what
        self._mistakes = mistakes
        names = list(allowed)
        if not item.is_map:
            self.note(item, "wrong-type", f"{what} must be a mapping", f"with {', '.join(names)}")
        for name in item.entries:
            if name not in names:
                message = f"{what} has no {name}"
                mistakes.add(item.key_location(name), "unknown-key", message, nearest(name, names))

    def note(self, item: Item, rule: str, message: str, hint: str = "") -> None:
        self._mistakes.add(item.location, rule, message, hint)

    def get(self, name: str, *, required: bool = False) -> Item | None:
        """A member; None where it is missing, which is a mistake when it is required."""
        member = self.item.get(name)
        if member is None and required and self.item.is_map:
            self.note(self.item, "missing-key", f"{self._what} needs {name}")
        return member

    def text(self, name: str, *, required: bool = False, rule: Callable[[str], str] | None = None) -> str:
        """A text; empty where it is missing or wrong."""
        item = self.get(name, required=required)
        if item is None or (value := self.scalar(item, name)) is None:
            return ""
        problem = rule(value) if rule else "" if value else f"{name} is empty"
        if problem:
            self.note(item, "unsafe-value", problem)
        return "" if problem else value

    def count(self, name: str, default: int) -> int:
        """A whole number of at least 1."""
        item = self.get(name)
        if item is None:
            return default
        if isinstance(item.value, bool) or not isinstance(item.value, int) or item.value < 1:
            self.note(item, "wrong-type", f"{name} must be a whole number, 1 or more")
            return default
        return item.value

    def elements(self, name: str, *, required: bool = False) -> list[Item]:
        """The members of a list; a list that is there must not be empty."""
        item = self.get(name, required=required)
        if item is None:
            return []
        if not item.is_list or not item.elements:
            self.note(item, "wrong-type", f"{name} must be a list that is not empty")
        return item.elements

    def members(self, name: str) -> list[tuple[str, Item, Item]]:
        """The members of a mapping of texts: name, where the name stands, and the value."""
        item = self.get(name)
        if item is not None and not item.is_map:
            self.note(item, "wrong-type", f"{name} must be a mapping of names to values")
        return list(members_of(item)) if item else []

    def scalar(self, item: Item, what: str) -> str | None:
        """A single value as it is written; None and a mistake for anything else."""
        if item.is_map or item.is_list or item.value is None:
            self.note(item, "wrong-type", f"{what} must be a single value")
            return None
        if isinstance(item.value, bool) and item.text.lower() not in ("true", "false"):
            self.note(item, "wrong-type", f"{what}: {item.text} is read as {item.value}", f'write "{item.text}"')
            return None
        return item.text.lower() if isinstance(item.value, bool) else item.text


def members_of(item: Item) -> Iterable[tuple[str, Item, Item]]:
    """The members of a mapping: name, where the name stands, and the value."""
    for name, value in item.entries.items():
        yield name, Item(item.key_location(name), name, name), value
