"""A dataset as users write it in a request; a blueprint's properties are the same."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, create_model

from modak_ansible.model.dataset import FORMATS, PACKS, PROPERTIES, Kind
from modak_ansible.reading.blueprint.forms import text_rules as rules
from modak_ansible.reading.blueprint.forms.forms import FieldProblem, Form, text
from modak_ansible.reading.blueprint.job_options import Size


def _addresses(value: Any) -> Any:
    return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value


def _checksums(value: dict[str, str]) -> dict[str, str]:
    for name, digest in value.items():
        problem = rules.value_problem(name) or rules.checksum_problem(digest)
        if problem:
            raise FieldProblem("checksum", f"{rules.shown(name)}: {problem}")
    return {name: digest.removeprefix("sha256:").lower() for name, digest in value.items()}


# Each kind of property as it is written, and read; without Any, mypy takes them for types.
_READ: dict[Kind, Any] = {
    "name": Annotated[str, text(rules.name_problem)],
    "format": Literal[FORMATS],
    "pack": Literal[PACKS],
    "addresses": Annotated[
        tuple[Annotated[str, text(rules.value_problem)], ...],
        BeforeValidator(_addresses, json_schema_input_type=str | list[str]),
    ],
    "path": Annotated[str, text(rules.path_problem)],
    "mount": Annotated[str, text(rules.value_problem)],
    "truth": bool,
    "checksums": Annotated[dict[str, str], AfterValidator(_checksums)],
    "size": Annotated[int, Field(ge=1, le=10**18)] | Size,
}
_FIELDS: dict[str, Any] = {
    name: (_READ[known.kind] | None, Field(None, description=known.meaning)) for name, known in PROPERTIES.items()
}
DatasetForm = create_model("DatasetForm", __base__=Form, __doc__="What a training reads.", **_FIELDS)
