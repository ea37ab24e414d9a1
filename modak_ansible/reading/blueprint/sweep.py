"""A sweep: one training for every point of a grid of arguments."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from modak_ansible.errors import nearest
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.forms.yaml_tree import Item
from modak_ansible.reading.blueprint.types.topology import Node

Value = str | bool
Arguments = tuple[tuple[str, Value], ...]
Scalar = Callable[[Item, str], Value | None]

# Points of one sweep: more than anybody waits for, and as many as are planned in a minute or two.
LIMIT = 10_000
_SHOWN = 40  # characters of a value that its point's name shows


class Axis(NamedTuple):
    """An argument, and the values that it takes."""

    name: str
    values: tuple[Value, ...]


def read_axes(node: Node, scalar: Scalar, mistakes: Mistakes) -> tuple[Axis, ...]:
    """The axes of a training's sweep, in the order of the file; none where it has no sweep."""
    section = node.properties.get("sweep")
    if section is None:
        return ()
    for name, hint in unknown_arguments(node, section):
        mistakes.add(
            section.key_location(name), "sweep", f"{name} is swept, but is not an argument of {node.name}",
            hint or f"give it among the arguments, too: {name}: its usual value",
        )  # fmt: skip
    axes = [Axis(name, read_values(name, item, scalar, mistakes)) for name, item in section.entries.items()]
    points = math.prod(len(axis.values) for axis in axes)
    if points > LIMIT:
        place = node.item.get("properties")
        where = place.key_location("sweep") if place and place.get("sweep") else section.location
        mistakes.add(where, "sweep", f"the sweep has {points:,} points; {LIMIT:,} at most", "leave values out")
        return ()
    return tuple(axes)


def unknown_arguments(node: Node, varied: Item) -> Iterator[tuple[str, str]]:
    """What is varied of a training and is none of its arguments, with a hint where one has nearly that name.

    Args:
        varied: what is varied, by the names of arguments.
    """
    arguments = node.properties.get("arguments")
    names = list(arguments.entries) if arguments else []
    return ((name, nearest(name, names) if names else "") for name in varied.entries if name not in names)


def read_values(name: str, item: Item, scalar: Scalar, mistakes: Mistakes) -> tuple[Value, ...]:
    """The values that an argument may take, each once."""
    if not item.is_list:
        hint = f"{name}: [ {item.text} ]" if item.text else ""
        mistakes.add(item.location, "sweep", f"the values of {name} must be a list", hint)
        return ()
    if not item.elements:
        mistakes.add(item.location, "sweep", f"{name} has no values", "give at least one, or leave it out")
    values: dict[str, Value] = {}
    for element in item.elements:
        value = scalar(element, f"a value of {name}")
        if value is None:
            continue
        if _text(value) in values:
            mistakes.add(element.location, "sweep", f"{name} has the value {_text(value)} twice", "leave one out")
        values[_text(value)] = value
    return tuple(values.values())


def points_of(axes: tuple[Axis, ...]) -> Iterator[dict[str, Value]]:
    """Every combination of the axes' values, the last axis changing fastest."""
    for values in itertools.product(*(axis.values for axis in axes)):
        yield {axis.name: value for axis, value in zip(axes, values, strict=True)}


def point_name(training: str, point: Mapping[str, Value]) -> str:
    """A name for a point that does not change when others come or go: ``train:lr=0.1,batch-size=64``."""
    return f"{training}:{','.join(f'{name}={_shown(value)}' for name, value in point.items())}"


def with_point(arguments: Arguments, point: Mapping[str, Value]) -> Arguments:
    """Arguments with a point's values in the places of the usual ones."""
    pairs: list[tuple[str, Value]] = []
    replaced: set[str] = set()
    for name, value in arguments:
        if name not in point:
            pairs.append((name, value))
        elif name not in replaced:  # a list repeats an option; a point has one value of it
            pairs.append((name, point[name]))
            replaced.add(name)
    return tuple(pairs)


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else value


def _shown(value: Value) -> str:
    """A value as a name has it; one that is long, or would be mistaken for the name's own marks, by its digest."""
    text = _text(value)
    if 0 < len(text) <= _SHOWN and all(letter.isalnum() or letter in "._+-/@{}" for letter in text):
        return text
    return f"#{hashlib.sha256(text.encode()).hexdigest()[:16]}"
