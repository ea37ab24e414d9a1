"""The tables of docs/requests.md: every field of a request, from its forms, and the older spellings that are read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_origin

from generate import Writers, table, with_section
from modak_ansible.reading.blueprint.forms.forms import Form, choices_of, fields_of, form_of, plain_types
from modak_ansible.reading.requests.form.form import RequestForm
from modak_ansible.reading.requests.form.older import OLDER

_KINDS = {bool: "true, false", int: "whole number", float: "number"}


def _rows(form: type[Form] = RequestForm, path: str = "") -> Iterator[tuple[str, str, str]]:
    described = {field.alias or name: field.description or "" for name, field in form.model_fields.items()}
    for name, annotation in fields_of(form).items():
        inner, words = form_of(annotation), choices_of(annotation)
        is_mapping = any(get_origin(kind) is dict for kind in plain_types(annotation))
        kinds = [text for kind, text in _KINDS.items() if kind in set(plain_types(annotation))]
        values = "" if inner else ", ".join(words or kinds) or ("mapping" if is_mapping else "text")
        if described[name].startswith(("Refused", "Not used")):
            values = "-"
        yield f"`{path}{name}`", values, described[name]
        if inner:
            yield from _rows(inner, f"{path}{name}.")


def _fields() -> str:
    rows = [(name.replace("`job.", "`"), values, meaning) for name, values, meaning in _rows() if name != "`job`"]
    return table(("field of `job`", "values", "what is done"), *rows)


def _older() -> str:
    rows = [
        (
            f"`{(renamed.path + '.').lstrip('.')}{renamed.field + ': ' if renamed.field else ''}{renamed.old}`",
            f"`{renamed.new}`",
        )
        for renamed in OLDER
    ]
    return table(("older", "today"), *rows)


FILES: Writers = {
    "docs/requests.md": lambda text: with_section(with_section(text, "fields", _fields()), "older", _older()),
}
