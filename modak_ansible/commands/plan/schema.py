"""modak schema: what editors need to help with requests, and programs to read plans and records."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from modak_ansible.commands.options import check_file

EXAMPLES = "Example: modak schema request --output request.schema.json"

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


class Document(StrEnum):
    REQUEST = "request"
    PLAN = "plan"
    RECORD = "record"


def command(
    document: Annotated[Document, typer.Argument(help="What the schema describes.")] = Document.REQUEST,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write it to this file instead of the terminal.")
    ] = None,
) -> None:
    """Print the JSON schema of a request, a plan or a record. It follows draft 2020-12."""
    check_file("--output", output, f"{document}.schema.json")
    text = json.dumps(schema_of(document), indent=2) + "\n"
    if output is None:
        typer.echo(text, nl=False)
        return
    from modak_ansible.target.core.files import write_whole

    write_whole(output, text)


def schema_of(document: Document) -> dict[str, object]:
    return {"$schema": _DIALECT, **_SCHEMAS[document]()}


def _request() -> dict[str, object]:
    from pydantic import RootModel

    from modak_ansible.reading.requests.form.form import OptimisationOnlyForm, RequestForm

    class Either(RootModel[RequestForm | OptimisationOnlyForm]):
        pass

    return {**Either.model_json_schema(), "title": "An optimisation request of modak"}


def _plan() -> dict[str, object]:
    from modak_ansible.model.plan import Plan

    return Plan.model_json_schema(mode="serialization")


def _record() -> dict[str, object]:
    from modak_ansible.model.measured.record import Record

    return Record.model_json_schema(mode="serialization", by_alias=True)


_SCHEMAS = {Document.REQUEST: _request, Document.PLAN: _plan, Document.RECORD: _record}
