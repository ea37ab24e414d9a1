"""TOSCA's functions in property values: get_input, get_property, concat, join and token."""

from __future__ import annotations

from dataclasses import dataclass, field

from modak_ansible.errors import nearest, visible
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.forms.yaml_tree import Item, entries_of, item_from
from modak_ansible.reading.blueprint.types.definitions import Definitions

FUNCTIONS = ("get_input", "get_property", "get_attribute", "get_artifact", "concat", "join", "token")
_MAX_DEPTH = 20
# A few lines of functions of functions can stand for gigabytes.
_MAX_VALUES, _MAX_CHARACTERS = 300_000, 8 * 2**20


def function_name(item: Item) -> str | None:
    """The function that a value calls, if it is one."""
    if len(item.entries) == 1:
        name = next(iter(item.entries))
        if name in FUNCTIONS:
            return name
    return None


@dataclass
class Evaluator:
    """Resolves functions to values.

    Args:
        inputs: the value of every input that has one.
        templates: the node templates by name.
        declared: the names of the inputs; None where they cannot be told.
        optional: those of them that need no value, and have none.
        mistakes: collects what cannot be resolved.
        definitions: the types, which have defaults.

    Attributes:
        left_out: how often one of the optional inputs was asked for its value.
    """

    inputs: dict[str, Item]
    templates: dict[str, Item]
    declared: set[str] | None
    optional: set[str]
    mistakes: Mistakes
    definitions: Definitions
    left_out: int = field(default=0, init=False)
    _values: int = field(default=0, init=False)
    _characters: int = field(default=0, init=False)

    def resolve(self, item: Item, node: str | None = None, depth: int = 0) -> Item | None:
        """The value with every function replaced, or None (and a mistake) where one has no value.

        Args:
            node: the name of the node template that SELF means.
        """
        if depth > _MAX_DEPTH:
            self.mistakes.add(item.location, "function", "the value refers to itself")
            return None
        if self._is_too_much(item, values=1):
            return None
        name = function_name(item)
        if name:
            return self._call(name, item.entries[name], node, depth)
        if item.is_map:
            resolved = {key: self.resolve(entry, node, depth + 1) for key, entry in item.entries.items()}
            entries = {key: value for key, value in resolved.items() if value is not None}
            return Item(item.location, entries, keys=item.keys)
        if item.is_list:
            values = [self.resolve(element, node, depth + 1) for element in item.elements]
            return Item(item.location, [value for value in values if value is not None])
        return item

    def _call(self, name: str, argument: Item, node: str | None, depth: int) -> Item | None:
        if name == "get_input":
            return self._get_input(argument, depth)
        if name == "get_property":
            return self._get_property(argument, node, depth)
        if name in ("concat", "join", "token"):
            return self._text(name, argument, node, depth)
        self.mistakes.add(
            argument.location, "function", f"{name} has a value only after the deployment", "give the value itself"
        )
        return None

    def _get_input(self, argument: Item, depth: int) -> Item | None:
        path = [str(part.plain()) for part in (argument.elements if argument.is_list else [argument])]
        if not path or (self.declared is not None and path[0] not in self.declared):
            name = path[0] if path else ""
            hint = nearest(name, self.declared or ())
            self.mistakes.add(argument.location, "unknown-input", f"there is no input {visible(name)}", hint)
            return None
        value = self.inputs.get(path[0])  # one that lacks a value is reported where it is declared
        self.left_out += path[0] in self.optional
        inner = self._below(value, path[1:], None, depth)
        if value and inner is None:
            hint = nearest(path[1], value.entries) if value.is_map else ""
            what = f"the input {path[0]} has no {'.'.join(path[1:])}"
            self.mistakes.add(argument.location, "function", what, hint)
        return self.resolve(inner, None, depth + 1) if inner else None

    def _below(self, item: Item | None, path: list[str], node: str | None, depth: int) -> Item | None:
        """What lies at a path of names, and of numbers in lists; None where nothing does."""
        for part in path:
            if item is not None and function_name(item):
                item = self.resolve(item, node, depth + 1)
            if item is None:
                return None
            if item.is_list:
                item = item.elements[int(part)] if part in map(str, range(len(item.elements))) else None
            else:
                item = item.get(part)
        return item

    def _get_property(self, argument: Item, node: str | None, depth: int) -> Item | None:
        parts = [str(element.plain()) for element in argument.elements]
        if len(parts) < 2:
            self.mistakes.add(argument.location, "function", "get_property takes a list: [ node, property ]")
            return None
        owner = node if parts[0] == "SELF" else parts[0]
        if owner == "HOST" and owner not in self.templates:
            owner = self._required(node, "host") or owner
        if owner not in self.templates:
            self.mistakes.add(
                argument.location,
                "function",
                f"there is no node {visible(parts[0])}",
                nearest(parts[0], self.templates),
            )
            return None
        value = self._property_value(str(owner), parts[1:], depth)
        target = self._required(owner, parts[1]) if value is None and len(parts) > 2 else None
        if target in self.templates:
            value, owner = self._property_value(str(target), parts[2:], depth), target
            parts = parts[1:]
        if value is None:
            hint = nearest(parts[1], entries_of(self.templates[owner].get("properties")))
            self.mistakes.add(argument.location, "function", f"{owner} gives no property {'.'.join(parts[1:])}", hint)
            return None
        return self.resolve(value, owner, depth + 1)

    def _required(self, node: str | None, requirement: str) -> str | None:
        """The node that meets a requirement of a node; None where it has no such requirement."""
        needs = self.templates[node].get("requirements") if node in self.templates else None
        for need in needs.elements if needs else ():
            if (entry := need.get(requirement)) is not None:
                target = entry.get("node") if entry.is_map else entry
                return str(target.value) if target else None
        return None

    def _property_value(self, owner: str, path: list[str], depth: int) -> Item | None:
        """The value of a property, or of a capability's: as a template gives it, or its type's default."""
        template = self.templates[owner]
        kind, (name, *rest) = str(kind_item.value) if (kind_item := template.get("type")) else "", path
        places = [(template.get("properties"), self.definitions.members("node_types", kind, "properties"), path)]
        if rest:
            section = template.get("capabilities", name, "properties")
            places.append((section, self.definitions.of_capability(kind, name), rest))
        for section, members, parts in places:
            value = self._below(section, parts, owner, depth)
            schema = members.get(parts[0])
            value = value or (self._below(schema.get("default"), parts[1:], owner, depth) if schema else None)
            if value:
                return value
        return None

    def _text(self, name: str, argument: Item, node: str | None, depth: int) -> Item | None:
        resolved = self.resolve(Item(argument.location, argument.elements), node, depth + 1)
        values = resolved.plain() if resolved else []
        try:
            if name == "concat":
                text = "".join(_plain_text(value) for value in values)
            elif name == "join":
                delimiter = values[1] if len(values) > 1 else ""
                text = str(delimiter).join(_plain_text(value) for value in values[0])
            else:
                text = str(values[0]).split(str(values[1]))[int(values[2])]
        except (IndexError, TypeError, ValueError):
            self.mistakes.add(argument.location, "function", f"{name} cannot be computed from these arguments")
            return None
        return None if self._is_too_much(argument, characters=len(text)) else item_from(text, argument.location)

    def _is_too_much(self, item: Item, values: int = 0, characters: int = 0) -> bool:
        """Counts what is made; the first that is too much is noted, and all that follows is left out."""
        was_too_much = self._values > _MAX_VALUES or self._characters > _MAX_CHARACTERS
        self._values += values
        self._characters += characters
        is_too_much = self._values > _MAX_VALUES or self._characters > _MAX_CHARACTERS
        if is_too_much and not was_too_much:
            problem = (
                f"more than {_MAX_VALUES} values or {_MAX_CHARACTERS} characters result from the blueprint's functions"
            )
            self.mistakes.add(item.location, "function", problem, "write the values themselves")
        return is_too_much


def _plain_text(value: object) -> str:
    if isinstance(value, dict | list) or value is None:
        raise TypeError
    return str(value)
