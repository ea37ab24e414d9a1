"""Forms, pydantic models of what a user writes, and what their fields may hold."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, WithJsonSchema

from modak_ansible.errors import Location
from modak_ansible.reading.blueprint.forms.yaml_tree import Item

Path = tuple[str, ...]


class Form(BaseModel):
    """A mapping that a user writes: all its members are known, and each is of its type."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class FieldProblem(ValueError):
    """What is wrong with one value: the rule that it breaks, the reason, and what to write instead."""

    def __init__(self, rule: str, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.rule = rule
        self.reason = reason
        self.hint = hint


def text(rule: Callable[[str], str], name: str = "unsafe-value") -> BeforeValidator:
    """A check of a text by a rule, such as those of ``rules``, that gives what is wrong with it, or nothing."""

    def check(value: Any) -> Any:
        problem = rule(value) if isinstance(value, str) else ""
        if problem:
            raise FieldProblem(name, problem)
        return value

    return BeforeValidator(check)


def split(separators: str = ",") -> BeforeValidator:
    """Takes a text in place of a list: its parts, at any of the separators or a space."""

    def take(value: Any) -> Any:
        if isinstance(value, str):
            for separator in separators:
                value = value.replace(separator, " ")
            return tuple(value.split())
        return tuple(value) if isinstance(value, list) else value

    return BeforeValidator(take, json_schema_input_type=str | list[str])


# The rules of problems with a field that is left out so that the rest can be read.
CANNOT_BE_DONE, NOT_PLANNED = "cannot-be-done", "not-planned"


def refused(reason: str, hint: str = "leave it out", words: tuple[str, ...] = ()) -> Any:
    """The type of a field that is known and cannot be acted on, whatever it holds.

    Args:
        words: what users write there; several of them with slashes between are a template, and nothing that is meant.
    """

    def refuse(value: Any) -> Any:
        if is_choices(value, words):
            raise FieldProblem("list-of-choices", PICK_ONE, f"such as {value.split('/')[0]}, or leave it out")
        raise FieldProblem(CANNOT_BE_DONE, reason, hint)

    return Annotated[Any, BeforeValidator(refuse), WithJsonSchema({"enum": ["", None]})]


# How templates of requests name all values of a field: ai_training/hpc/ai_inference.
PICK_ONE = "a list of choices: pick one"


def is_choices(value: Any, words: Iterable[str]) -> bool:
    """Whether a text is a list of choices with slashes between, of which at least one is a word of a field's."""
    if not isinstance(value, str) or "/" not in value:
        return False
    choices = {word.lower() for word in words}
    return any(part.strip().lower() in choices for part in value.split("/"))


# --- trees and forms


def place_of(tree: Item, path: Iterable[str]) -> Location:
    """Where the value of a path stands; the nearest mapping around it where it is not given."""
    item = tree
    for name in path:
        child = item.get(name)
        if child is None:
            break
        item = child
    return item.location


def key_place(tree: Item, path: Path) -> Location:
    """Where the name at the end of a path stands."""
    owner = tree.get(*path[:-1]) if path[:-1] else tree
    return owner.key_location(path[-1]) if owner else tree.location


def fields_of(form: type[BaseModel]) -> dict[str, Any]:
    """The fields of a form, by the names that users write."""
    return {
        field.alias or name: Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
        for name, field in form.model_fields.items()
    }


def form_of(annotation: Any) -> type[Form] | None:
    """The form that a field holds, if it holds one."""
    return next(
        (type_ for type_ in plain_types(annotation) if isinstance(type_, type) and issubclass(type_, Form)), None
    )


def named_forms_of(annotation: Any) -> type[Form] | None:
    """The form of each value of a field that is a mapping of names to forms; None of any other field."""
    for kind in plain_types(annotation):
        if get_origin(kind) is dict:
            return form_of(get_args(kind)[1])
    return None


def choices_of(annotation: Any) -> tuple[str, ...]:
    """The words that a field may hold; none where it is free."""
    literals = [type_ for type_ in plain_types(annotation) if get_origin(type_) is Literal]
    return tuple(word for literal in literals for word in get_args(literal) if isinstance(word, str))


def plain_types(annotation: Any) -> Iterator[Any]:
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from plain_types(get_args(annotation)[0])
    elif origin in (Union, types.UnionType):
        for argument in get_args(annotation):
            yield from plain_types(argument)
    else:
        yield annotation
