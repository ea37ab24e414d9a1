"""The rules of a site in, rules of the model out; their form was checked against the types."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from modak_ansible.model.rule import Conditions, Effects, Rule
from modak_ansible.reading.blueprint.forms import text_rules as rules
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.forms.yaml_tree import Item

_COMPARISON = re.compile(r"(>=|<=|>|<|=)?\s*\d{1,9}", re.ASCII)
_FLAG = re.compile(r"--?[A-Za-z][A-Za-z0-9-]*(=[A-Za-z0-9_.:/,=-]+)?", re.ASCII)


def _comparison_problem(text: str) -> str:
    good = _COMPARISON.fullmatch(text)
    return "" if good else f'{rules.quote(text)} does not compare with a number; write it as ">1", "<=4" or "2"'


def _flag_problem(text: str) -> str:
    return "" if _FLAG.fullmatch(text) else f"{rules.quote(text)} is not one option of apptainer exec, such as --nv"


def _line_problem(text: str) -> str:
    """What is wrong with shell lines; they are the site's own, so only what no script can hold is."""
    good = text.strip() and all(letter.isprintable() or letter in "\n\t" for letter in text)
    return "" if good else f"{rules.quote(text)} is empty, or holds a control character"


_RULES: dict[str, Callable[[str], str]] = {
    "framework": rules.name_problem,
    "app_type": rules.name_problem,
    "scheduler": rules.name_problem,
    "partition": rules.name_problem,
    "accelerator": rules.name_problem,
    "nodes": _comparison_problem,
    "processes": _comparison_problem,
    "modules": rules.module_problem,
    "binds": rules.bind_problem,
    "container_flags": _flag_problem,
    "environment": rules.value_problem,
    "pre": _line_problem,
    "post": _line_problem,
    "launcher": rules.launcher_problem,
    "account": rules.account_problem,
}


def read_rules(section: Item, mistakes: Mistakes) -> tuple[Rule, ...]:
    """The rules of a list; what is wrong is noted, with its place."""
    site_rules: dict[str, Rule] = {}
    for element in section.elements:
        before = len(mistakes)
        name, when, then = element.get("name"), element.get("when"), element.get("then")
        if name is None or then is None:
            continue
        _check(name, rules.name_problem, mistakes)
        if str(name.value) in site_rules:
            mistakes.add(name.location, "duplicate-key", f"the rule {name.value} is given twice")
        conditions, effects = _values(when, mistakes) if when else {}, _values(then, mistakes)
        if "partition" in effects and "partition" in conditions:
            hint = "ask for something else there"
            place = then.get("partition") or then
            mistakes.add(place.location, "contradiction", "a rule cannot choose the partition that it asks about", hint)
        if not effects:
            mistakes.add(then.location, "missing-property", f"the rule {name.value} does nothing")
        if len(mistakes) == before:
            site_rules[str(name.value)] = Rule(
                name=str(name.value), when=Conditions(**conditions), then=Effects(**effects)
            )
    return tuple(site_rules.values())


def _values(section: Item, mistakes: Mistakes) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, item in section.entries.items():
        if item.is_map:
            for name, value in item.entries.items():
                place = Item(item.key_location(name), name)
                _check(place, rules.variable_problem, mistakes)
                _check(value, rules.value_problem, mistakes)
            values[key] = tuple((name, str(value.value)) for name, value in item.entries.items())
        elif item.is_list:
            for element in item.elements:
                _check(element, _RULES[key], mistakes)
            values[key] = tuple(str(element.value) for element in item.elements)
        elif isinstance(item.value, bool):
            values[key] = item.value
        else:
            _check(item, _RULES[key], mistakes)
            values[key] = str(item.value)
    return {key: value for key, value in values.items() if value not in ((), "")}


def _check(item: Item, rule: Callable[[str], str], mistakes: Mistakes) -> None:
    problem = rule(str(item.value))
    if problem:
        mistakes.add(item.location, "unsafe-value", problem)
