"""Checks a value against the TOSCA type of its property."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from typing import Any

from modak_ansible.errors import NEAR, nearest, visible
from modak_ansible.model.job_options import meant_by
from modak_ansible.model.quantities import WALLTIME_FORMS, parse_size
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.forms.yaml_tree import Item
from modak_ansible.reading.blueprint.types.definitions import Definitions

_TIME = re.compile(r"\d+(\.\d+)?\s*(d|h|m|s|ms|us|ns)")
_WHOLE = r"[-+]?(0|[1-9]\d*)"  # without what makes another number of it for YAML, as 010 is 8
_DECIMAL = re.compile(rf"({_WHOLE}(\.\d*)?|\.\d+)([eE][-+]?\d+)?", re.ASCII)
_MOST_EXACT = 2**53  # of whole numbers that a fraction stands for
_UNBOUNDED = "UNBOUNDED"
_BOUND = re.compile(rf"{_UNBOUNDED}$|[-+]?\d")  # a number, or a scalar with a unit, which is compared with none


def _is_number(limit: Any) -> bool:
    return isinstance(limit, int | float) and not isinstance(limit, bool)


def _is_range(limit: Any) -> bool:
    is_pair = isinstance(limit, list) and len(limit) == len(("low", "high"))
    return is_pair and all(_is_number(bound) or _BOUND.match(str(bound)) for bound in limit)


def _is_pattern(limit: Any) -> bool:
    try:
        re.compile(limit)
    except (TypeError, re.error, OverflowError, RecursionError):
        return False
    return True


def _is_any(limit: Any) -> bool:
    return limit is not None


# What TOSCA lets a value be limited by: what each is given, as a test and in words.
_LIMITS: dict[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(("equal", "greater_than", "greater_or_equal", "less_than", "less_or_equal"), (_is_any, "a value")),
    "in_range": (_is_range, "two numbers, or UNBOUNDED: [ 1, 10 ]"),
    "valid_values": (lambda limit: isinstance(limit, list), "a list"),
    **dict.fromkeys(("length", "min_length", "max_length"), (_is_number, "a number")),
    "pattern": (_is_pattern, "a regular expression"),
    "schema": (_is_any, "a value"),
}
_LENGTHS: dict[str, tuple[Callable[[Any, Any], bool], str]] = {
    "length": (operator.eq, ""), "min_length": (operator.ge, "at least "), "max_length": (operator.le, "at most "),
}  # fmt: skip
_COMPARISONS: dict[str, tuple[Callable[[Any, Any], bool], str]] = {
    "greater_or_equal": (operator.ge, "at least"), "greater_than": (operator.gt, "more than"),
    "less_or_equal": (operator.le, "at most"), "less_than": (operator.lt, "less than"),
}  # fmt: skip


class ValueChecker:
    """Notes a mistake for every value that is not of its type."""

    def __init__(self, definitions: Definitions, mistakes: Mistakes) -> None:
        self._definitions = definitions
        self._mistakes = mistakes

    def check(self, item: Item, schema: Item, name: str) -> bool:
        """Whether a value fits its definition (``type``, ``entry_schema``, ``constraints``)."""
        before = len(self._mistakes)
        if item.value is None and self._mistakes.has_rule_at(item.location, "yaml-"):
            return False  # it could not be read, which is told
        kind = _text(schema.get("type"), "string")
        if kind in self._definitions.types["data_types"]:
            self._check_record(item, kind, name)
        elif self._check_kind(item, schema, kind, name):
            self._check_entries(item, schema, kind, name)
            self._check_constraints(item, schema, name)
        return len(self._mistakes) == before

    def _check_record(self, item: Item, kind: str, owner: str) -> None:
        members = self._definitions.members("data_types", kind, "properties")
        if not item.is_map:
            self._mistakes.add(item.location, "wrong-type", f"{owner} must be a mapping", f"with {', '.join(members)}")
            return
        for key, value in item.entries.items():
            if key not in members:
                place = item.key_location(key)
                hint = nearest(meant_by(key, members), members)
                self._mistakes.add(place, "unknown-property", f"{owner} has no property {key}", hint)
            else:
                self.check(value, members[key], key)
        for key, schema in members.items():
            if key not in item.entries and is_required(schema):
                self._mistakes.add(
                    item.location, "missing-property", f"{owner} needs the property {key}", describe(schema)
                )

    def _check_kind(self, item: Item, schema: Item, kind: str, name: str) -> bool:
        value = item.value
        problem = hint = ""
        if kind == "string":
            if not isinstance(value, str):
                problem, hint = _not_a_string(item, schema)
        elif kind == "integer":
            problem = "" if isinstance(value, int) and not isinstance(value, bool) else "must be a whole number"
            hint = _without_quotes(item, _WHOLE) or _as_yaml_reads_it(item, is_whole=True)
        elif kind in ("float", "number"):
            good = isinstance(value, int | float) and not isinstance(value, bool)
            problem = "" if good else "must be a number"
            hint = _without_quotes(item, rf"{_WHOLE}(\.\d+)?") or _as_yaml_reads_it(item)
        elif kind == "boolean":
            problem = "" if isinstance(value, bool) else "must be true or false"
            hint = _without_quotes(item, "true|false")
        elif kind == "list":
            problem = "" if item.is_list else "must be a list"
            hint = f"[ {', '.join(item.text.splitlines())} ]" if problem and item.text else ""
        elif kind == "map":
            problem = "" if item.is_map else "must be a mapping of names to values"
        elif kind == "scalar-unit.size":
            problem = _size_problem(item)
        elif kind == "scalar-unit.time" and not _TIME.fullmatch(item.text.strip()):
            problem = "must be a number and a unit of time, such as 30 m"
        if problem:
            self._mistakes.add(item.location, "wrong-type", f"{name} {problem}", hint)
        return not problem

    def _check_entries(self, item: Item, schema: Item, kind: str, name: str) -> None:
        entry_schema = schema.get("entry_schema")
        if entry_schema is None or kind not in ("list", "map"):
            return
        if not entry_schema.is_map:  # the short form, entry_schema: string
            entry_schema = Item(entry_schema.location, {"type": entry_schema})
        for position, element in enumerate(item.elements):
            self.check(element, entry_schema, f"{name}[{position}]")
        for key, element in item.entries.items():
            self.check(element, entry_schema, f"{name}.{key}")

    def _check_constraints(self, item: Item, schema: Item, name: str) -> None:
        constraints = schema.get("constraints")
        if constraints is not None and not constraints.is_list:
            hint = "constraints: [ { greater_than: 0 } ]"
            self._mistakes.add(constraints.location, "constraint", f"the constraints of {name} must be a list", hint)
        for constraint in constraints.elements if constraints else []:
            if not constraint.is_map:
                message = f"a constraint of {name} must be a mapping"
                self._mistakes.add(constraint.location, "constraint", message, "{ greater_than: 0 }")
            for kind, limit in constraint.entries.items():
                place = constraint.key_location(kind)
                if kind not in _LIMITS:
                    self._mistakes.add(place, "constraint", f"there is no constraint {kind}", nearest(kind, _LIMITS))
                    continue
                is_good, words = _LIMITS[kind]
                if not is_good(limit.plain()):
                    self._mistakes.add(limit.location, "constraint", f"{kind} of {name} must be {words}")
                    continue
                problem, hint = _constraint_problem(kind, item.plain(), limit.plain())
                if problem:
                    rule = "not-allowed-value" if kind == "valid_values" else "out-of-range"
                    self._mistakes.add(item.location, rule, f"{name} {problem}", hint)


def is_required(schema: Item) -> bool:
    """Whether a property must be given: TOSCA's default is that it must, unless it has a default."""
    required = schema.get("required")
    return (required is None or required.value is not False) and schema.get("default") is None


def describe(schema: Item) -> str:
    """The first sentence of a definition's description, without its full stop."""
    text = " ".join(_text(schema.get("description"), "").split())
    return text.split(". ")[0].rstrip(".")


def _text(item: Item | None, default: str) -> str:
    return str(item.value) if item and item.value is not None else default


def _not_a_string(item: Item, schema: Item) -> tuple[str, str]:
    if item.is_map or item.is_list:
        return "must be text", ""
    if item.value is None:
        return "must be text, and nothing is given", ""
    is_bare = "HH:MM:SS" in describe(schema) and ":" not in item.text  # or minutes: nobody knows
    hint = WALLTIME_FORMS if is_bare else f'write "{item.text}"'
    return f"must be text, and {item.text} without quotes is read as {item.value!r}", hint


def _without_quotes(item: Item, form: str) -> str:
    """The cure of a number or a truth value in quotes."""
    return f"write {item.value} without quotes" if re.fullmatch(form, str(item.value)) else ""


def _as_yaml_reads_it(item: Item, *, is_whole: bool = False) -> str:
    """The cure of a number that YAML 1.1, which TOSCA's tools read, takes for a text or a fraction: 1e-3, 8.0."""
    number = float(item.text) if _DECIMAL.fullmatch(item.text) else math.nan
    if is_whole:
        return f"write {number:.0f}" if number.is_integer() and abs(number) < _MOST_EXACT else ""
    if not math.isfinite(number):
        return ""
    mantissa, exponent, power = repr(number).partition("e")
    point = "" if "." in mantissa else ".0"
    return f"write {mantissa}{point}{exponent}{power}: YAML reads {item.text} as text"


def _size_problem(item: Item) -> str:
    try:
        parse_size(item.text)
    except ValueError as error:
        return f"is wrong: {error}"
    return ""


def _constraint_problem(kind: str, value: Any, limit: Any) -> tuple[str, str]:
    """What a constraint says against a value, and a hint; empty when it is met or does not apply."""
    if kind == "valid_values" and value not in limit:
        return f"cannot be {visible(str(value))}", _all_of(value, limit)
    if kind == "pattern" and not re.fullmatch(str(limit), str(value)):
        return f"does not have the required form: {value!r}", f"it must match {limit}"
    if kind == "equal" and value != limit:
        return f"must be {limit}, not {value}", ""
    if kind in _LENGTHS and isinstance(value, str | list | dict):
        compares, words = _LENGTHS[kind]
        if not compares(len(value), limit):
            return f"must have {words}{limit} elements or characters, not {len(value)}", ""
    if kind == "in_range" and isinstance(value, int | float):
        low, high = limit
        if (_is_number(low) and not value >= low) or (_is_number(high) and not value <= high):
            return f"must lie between {low} and {high}, not {value}", ""
    if kind in _COMPARISONS and isinstance(value, int | float) and isinstance(limit, int | float):
        compares, words = _COMPARISONS[kind]
        if not compares(value, limit):
            return f"must be {words} {limit}, not {value}", ""
    return "", ""


def _all_of(value: Any, limit: list[Any]) -> str:
    """The nearest of the valid values, and all of them."""
    hint = nearest(str(value), map(str, limit))
    return f"{hint} Valid: {', '.join(map(str, limit))}" if hint.startswith(NEAR) else hint
