"""Targets' own properties as types of TOSCA: the plain fields of Cloud, Terms and Pods in the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, get_args

from pydantic.fields import FieldInfo

from generate import Writers, tosca_property, with_section
from modak_ansible.model.target import OF_CLOUDS, Pods

_TYPES: dict[Any, str] = {str: "string", bool: "boolean", int: "integer", float | None: "float"}
_CONSTRAINTS = {"Gt": ("gt", "greater_than"), "Ge": ("ge", "greater_or_equal")}


def _lines(fields: Mapping[str, FieldInfo]) -> Iterator[str]:
    for name, field in fields.items():
        yield from tosca_property(name, _type(field), field.description or "", is_required=field.is_required())


def _type(field: FieldInfo) -> Iterator[str]:
    if field.annotation in _TYPES:
        yield f"type: {_TYPES[field.annotation]}"
    elif get_args(field.annotation)[-1] is ...:
        yield "type: list"
        yield "entry_schema: { type: string }"
    else:
        yield "type: string"
        yield f"constraints: [ {{ valid_values: [ {', '.join(get_args(field.annotation))} ] }} ]"
    for bound in field.metadata:
        attribute, word = _CONSTRAINTS[type(bound).__name__]
        yield f"constraints: [ {{ {word}: {getattr(bound, attribute)} }} ]"
    if field.default is not None and not field.is_required() and not isinstance(field.default, tuple):
        yield f"default: {str(field.default).lower()}" if not isinstance(field.default, str) else 'default: ""'


def _written(text: str) -> str:
    for name, fields in (("properties", OF_CLOUDS), ("pods", Pods.model_fields)):
        text = with_section(text, name, "\n".join(_lines(fields)))
    return text


FILES: Writers = {"tosca/types/targets.yaml": _written}
