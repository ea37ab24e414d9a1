"""What optimisations declare: the TOSCA type, fields of the model and of requests, the head of each page."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import partial

import yaml

from generate import Writers, with_section
from modak_ansible.model.application import Optimisation as Known
from modak_ansible.optimisations import optimisations
from modak_ansible.optimisations.base import Optimisation
from modak_ansible.optimisations.properties import OF_ALL, Property

_MARK = "<!-- make generate -->"
_WIDTH = 120
_PYTHON = {"string": "str", "integer": "int", "boolean": "bool"}


def _declared() -> list[Property]:
    """Every property with its name; those that there are already keep their places, and new ones go to the end."""
    named = [_named(each, matter) for matter in optimisations() for each in matter.properties]
    order = {name: place for place, name in enumerate(Known.model_fields)}
    return sorted([*OF_ALL, *named], key=lambda each: order.get(each.name, len(order)))


def _named(declared: Property, matter: Optimisation) -> Property:
    return declared._replace(name=declared.name or matter.name)


# --- TOSCA


def _definition(declared: Property) -> Iterator[str]:
    yield f"      {declared.name}:"
    yield f"        type: {declared.type}"
    if not declared.default:  # a default of nought is none for tosca-parser
        yield "        required: false"
    if declared.default is not None:
        yield f"        default: {_scalar(declared.default)}"
    if declared.description:
        yield f"        description: {_scalar(declared.description)}"
    limit = _constraint(declared)
    if limit:
        yield f"        constraints: [ {{ {limit} }} ]"


def _constraint(declared: Property) -> str:
    if declared.type == "string" and declared.default:
        return f"valid_values: [ {', '.join(map(_scalar, (declared.default, *declared.values)))} ]"
    return f"greater_or_equal: {declared.least} }}, {{ less_or_equal: 10000000" if declared.least is not None else ""


def _scalar(value: str | int) -> str:
    """A value as YAML has it, in quotes where it would be read as another."""
    return value if isinstance(value, str) and yaml.safe_load(value) == value else json.dumps(value)


# --- the model, and the forms of requests


def _model_field(declared: Property) -> str:
    kind = _PYTHON[declared.type] + (" | None" if declared.default is None else "")
    default = json.dumps(declared.default) if isinstance(declared.default, str) else str(declared.default)
    value = default if declared.least is None else f"Field(default={default}, ge={declared.least})"
    return f"    {declared.name}: {kind} = {value}"


def _application_fields() -> Iterator[str]:
    asked = [each for each in _declared() if each.in_application]
    for each in asked:
        yield from _form_field(each.name, _annotation(each), each.description)
    names = " ".join(f"{json.dumps(each.name)}," for each in asked)
    yield f"    preferences: ClassVar[tuple[str, ...]] = ({names})"


def _annotation(declared: Property) -> str:
    if declared.type == "string":
        return f"Literal[{', '.join(map(json.dumps, declared.values))}]"
    if declared.type == "boolean":
        return "bool"
    return f"Annotated[int, Field(ge={declared.least or 0}, le=10**7)]"


def _form_field(name: str, annotation: str, description: str) -> list[str]:
    """A field in the shape that ruff gives it."""
    start, value = f"    {name}: {annotation} | None = Field(", f"None, description={json.dumps(description)}"
    line = f"{start}{value})"
    return [line] if len(line) <= _WIDTH else [start, f"        {value}", "    )"]


def _with_frameworks(text: str) -> str:
    """The form with the truth values of each framework's section."""
    for each in _declared():
        for framework, values in each.in_frameworks.items():
            fields = [line for name, words in values.items() for line in _form_field(name, "bool", words)]
            text = with_section(text, f"preferences of {framework}", "\n".join(fields))
    return text


# --- pages


def page(text: str, matter: Optimisation) -> str:
    """A page with the line below its title that says how to set the optimisation, and what is stock."""
    asked = [_asked(_named(each, matter)) for each in matter.properties]
    asked = asked or ([f"`{matter.about}`"] if matter.about else [])
    parts = [f"Set with {' and '.join(asked)}." if asked else "It has no setting of its own."]
    if matter.stock:
        parts.append(f"Stock: {_words(matter.stock)}.")
    for words in dict.fromkeys(matter.stock_of.values()):
        frameworks = [name for name, own in matter.stock_of.items() if own == words]
        parts.append(f"In {', '.join(frameworks)}: {_words(words)}.")
    if matter.suite_default is not None:
        parts.append(f"In suites: {_words(matter.property_values()) or 'a number'}.")
    title, _, rest = text.partition("\n\n")
    first, _, below = rest.partition("\n\n")
    rest = below if first.endswith(_MARK) else rest
    return f"{title}\n\n{' '.join(parts)} Acts on: {matter.acts_on}. {_MARK}\n\n{rest}"


def _asked(declared: Property) -> str:
    values = _words((str(declared.default), *declared.values)) if declared.values else ""
    return f"`{declared.name}`" + (f" ({values})" if values else "")


def _words(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


FILES: Writers = {
    "tosca/types/trainings.yaml": lambda text: with_section(
        text,
        "optimisation",
        "\n".join(line for each in _declared() if each.in_blueprints for line in _definition(each)),
    ),
    "modak_ansible/model/application.py": lambda text: with_section(
        text, "optimisation", "\n".join(map(_model_field, _declared()))
    ),
    "modak_ansible/reading/requests/form/form.py": lambda text: with_section(
        text, "preferences", "\n".join(_application_fields())
    ),
    "modak_ansible/reading/requests/form/optimisation.py": _with_frameworks,
    **{f"modak_ansible/{optimisation.page()}": partial(page, matter=optimisation) for optimisation in optimisations()},
}
