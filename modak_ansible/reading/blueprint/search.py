"""A search: arguments with ranges or choices, of which the trials before tell which values are tried next."""

from __future__ import annotations

import math
from typing import Any

from modak_ansible.errors import nearest
from modak_ansible.model.search import Dimension, Search
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.forms.yaml_tree import Item
from modak_ansible.reading.blueprint.sweep import Scalar, read_values, unknown_arguments
from modak_ansible.reading.blueprint.types.topology import Node

_WORDS = ("from", "to", "log", "step")
_EXAMPLE = "such as { from: 0.0001, to: 0.1, log: true } or [ 32, 64, 128 ]"


def read_search(node: Node, scalar: Scalar, mistakes: Mistakes) -> Search | None:
    """The search of a training; None where it has none, or a wrong one.

    Args:
        node: the training.
        scalar: reads one value, and notes what is wrong with it.
        mistakes: collects what is wrong with the search.
    """
    section = node.properties.get("search")
    if section is None:
        return None
    before = len(mistakes)
    if "sweep" in node.properties:
        hint = "leave one of them out; a list of values may be searched, too"
        mistakes.add(section.location, "search", f"{node.name} has a sweep and a search", hint)
    over = section.entries["over"]
    if not over.entries:
        mistakes.add(over.location, "search", "nothing is searched over", f"name arguments, {_EXAMPLE}")
    for name, hint in unknown_arguments(node, over):
        mistakes.add(
            over.key_location(name), "search", f"{name} is searched over, but is not an argument of {node.name}",
            hint or f"give it among the arguments, too: {name}: its usual value",
        )  # fmt: skip
    dimensions = [_dimension(name, item, scalar, mistakes) for name, item in over.entries.items()]
    if len(mistakes) > before:
        return None
    fields: dict[str, Any] = section.plain()
    direction = fields.pop("direction", None)
    if direction is None:
        from modak_ansible.target.metrics.curves import is_rising  # noqa: PLC0415 - which reads all kinds of metrics

        rising = is_rising(fields["objective"])
    else:
        rising = direction == "maximize"
    return Search(**{**fields, "over": tuple(dimension for dimension in dimensions if dimension), "rising": rising})


def _dimension(name: str, item: Item, scalar: Scalar, mistakes: Mistakes) -> Dimension | None:
    if item.is_list:
        return Dimension(name=name, choices=read_values(name, item, scalar, mistakes))
    if not item.is_map:
        mistakes.add(item.location, "search", f"{name} has neither a range nor choices", _EXAMPLE)
        return None
    before = len(mistakes)
    for word in item.entries:
        if word not in _WORDS:
            mistakes.add(item.key_location(word), "search", f"a range has no {word}", nearest(word, _WORDS))
    low, high = (_number(name, item, word, mistakes) for word in ("from", "to"))
    step = _number(name, item, "step", mistakes) if "step" in item.entries else None
    log = item.get("log")
    if log is not None and not isinstance(log.value, bool):
        mistakes.add(log.location, "search", f"log of {name} is true or false", "")
    if len(mistakes) > before or low is None or high is None:
        return None
    is_log = bool(log and log.value)
    is_whole = all(_is_whole(item.entries[word].text) for word in ("from", "to", "step") if word in item.entries)
    problem, bound = "", "to"
    if low >= high:
        problem = f"{name} goes from {low:g} to {high:g}, which is not above it"
    elif is_log and low <= 0:
        problem, bound = f"{name} is searched by orders of magnitude, and begins at {low:g}", "from"
    elif step is not None and not 0 < step <= high - low:
        problem, bound = f"the step of {name} is not between 0 and {high - low:g}", "step"
    elif step is not None and is_log:
        problem, bound = f"{name} has a step and is searched by orders of magnitude", "step"
    if problem:
        hint = {"from": "begin above 0, or leave log out", "step": "leave it out"}.get(bound, "from: 1, to: 10")
        mistakes.add(item.entries[bound].location, "search", problem, hint)
        return None
    return Dimension(name=name, low=low, high=high, log=is_log, step=step, is_whole=is_whole)


def _number(name: str, item: Item, word: str, mistakes: Mistakes) -> float | None:
    value = item.get(word)
    if value is None:
        mistakes.add(item.location, "search", f"the range of {name} has no {word}", _EXAMPLE)
        return None
    try:
        number = math.nan if isinstance(value.value, bool) or value.is_map or value.is_list else float(value.text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        mistakes.add(
            value.location, "search", f"{word} of {name} is not a number: {value.text or value.plain()}", _EXAMPLE
        )
        return None
    return number


def _is_whole(text: str) -> bool:
    return text.lstrip("+-").isdecimal()
