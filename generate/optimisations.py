"""What optimisations declare: the TOSCA type, fields of the model and of requests, the head of each page."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import partial

import yaml

from generate import Writers, with_section
from modak_ansible.model.application import Optimisation as Preferences
from modak_ansible.optimisations import optimisations
from modak_ansible.optimisations.base import Optimisation
from modak_ansible.optimisations.properties import OF_ALL, Property

_MARK = "<!-- make generate -->"
_WIDTH = 120
_PYTHON = {"string": "str", "integer": "int", "boolean": "bool"}


def _declared() -> list[Property]:
    """Every property with its name; those that there are already keep their places, and new ones go to the end."""
    properties = [
        _named(property_, optimisation) for optimisation in optimisations() for property_ in optimisation.properties
    ]
    order = {name: place for place, name in enumerate(Preferences.model_fields)}
    return sorted([*OF_ALL, *properties], key=lambda property_: order.get(property_.name, len(order)))


def _named(property_: Property, optimisation: Optimisation) -> Property:
    return property_._replace(name=property_.name or optimisation.name)


# --- TOSCA


def _definition(property_: Property) -> Iterator[str]:
    yield f"      {property_.name}:"
    yield f"        type: {property_.type}"
    if not property_.default:  # a default of nought is none for tosca-parser
        yield "        required: false"
    if property_.default is not None:
        yield f"        default: {_scalar(property_.default)}"
    if property_.description:
        yield f"        description: {_scalar(property_.description)}"
    limit = _constraint(property_)
    if limit:
        yield f"        constraints: [ {{ {limit} }} ]"


def _constraint(property_: Property) -> str:
    if property_.type == "string" and property_.default:
        return f"valid_values: [ {', '.join(map(_scalar, (property_.default, *property_.values)))} ]"
    return f"greater_or_equal: {property_.least} }}, {{ less_or_equal: 10000000" if property_.least is not None else ""


def _scalar(value: str | int) -> str:
    """A value as YAML has it, in quotes where it would be read as another."""
    return value if isinstance(value, str) and yaml.safe_load(value) == value else json.dumps(value)


# --- the model, and the forms of requests


def _model_field(property_: Property) -> str:
    kind = _PYTHON[property_.type] + (" | None" if property_.default is None else "")
    default = json.dumps(property_.default) if isinstance(property_.default, str) else str(property_.default)
    value = default if property_.least is None else f"Field(default={default}, ge={property_.least})"
    return f"    {property_.name}: {kind} = {value}"


def _application_fields() -> Iterator[str]:
    properties = [property_ for property_ in _declared() if property_.in_application]
    for property_ in properties:
        yield from _form_field(property_.name, _annotation(property_), property_.description)
    names = " ".join(f"{json.dumps(property_.name)}," for property_ in properties)
    yield f"    preferences: ClassVar[tuple[str, ...]] = ({names})"


def _annotation(property_: Property) -> str:
    if property_.type == "string":
        return f"Literal[{', '.join(map(json.dumps, property_.values))}]"
    if property_.type == "boolean":
        return "bool"
    return f"Annotated[int, Field(ge={property_.least or 0}, le=10**7)]"


def _form_field(name: str, annotation: str, description: str) -> list[str]:
    """A field in the shape that ruff gives it."""
    start, value = f"    {name}: {annotation} | None = Field(", f"None, description={json.dumps(description)}"
    line = f"{start}{value})"
    return [line] if len(line) <= _WIDTH else [start, f"        {value}", "    )"]


def _with_frameworks(text: str) -> str:
    """The form with the truth values of each framework's section."""
    for property_ in _declared():
        for framework, values in property_.in_frameworks.items():
            fields = [line for name, words in values.items() for line in _form_field(name, "bool", words)]
            text = with_section(text, f"preferences of {framework}", "\n".join(fields))
    return text


# --- pages


def page(text: str, optimisation: Optimisation) -> str:
    """A page with the line below its title that says how to set the optimisation, and what is stock."""
    settings = [_asked(_named(property_, optimisation)) for property_ in optimisation.properties]
    settings = settings or ([f"`{optimisation.about}`"] if optimisation.about else [])
    parts = [f"Set with {' and '.join(settings)}." if settings else "It has no setting of its own."]
    if optimisation.stock:
        parts.append(f"Stock: {_words(optimisation.stock)}.")
    for words in dict.fromkeys(optimisation.stock_of.values()):
        frameworks = [name for name, own in optimisation.stock_of.items() if own == words]
        parts.append(f"In {', '.join(frameworks)}: {_words(words)}.")
    if optimisation.suite_default is not None:
        parts.append(f"In suites: {_words(optimisation.property_values()) or 'a number'}.")
    title, _, rest = text.partition("\n\n")
    first, _, below = rest.partition("\n\n")
    rest = below if first.endswith(_MARK) else rest
    return f"{title}\n\n{' '.join(parts)} Acts on: {optimisation.acts_on}. {_MARK}\n\n{rest}"


def _asked(property_: Property) -> str:
    values = _words((str(property_.default), *property_.values)) if property_.values else ""
    return f"`{property_.name}`" + (f" ({values})" if values else "")


def _words(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


FILES: Writers = {
    "tosca/types/trainings.yaml": lambda text: with_section(
        text,
        "optimisation",
        "\n".join(line for property_ in _declared() if property_.in_blueprints for line in _definition(property_)),
    ),
    "modak_ansible/model/application.py": lambda text: with_section(
        text, "optimisation", "\n".join(map(_model_field, _declared()))
    ),
    "modak_ansible/reading/requests/form/form.py": lambda text: with_section(
        text, "preferences", "\n".join(_application_fields())
    ),
    "modak_ansible/reading/requests/form/optimisation.py": _with_frameworks,
    **{
        f"modak_ansible/{optimisation.page()}": partial(page, optimisation=optimisation)
        for optimisation in optimisations()
    },
}
