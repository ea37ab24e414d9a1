"""The JSON schemas of plans and records, from their models."""

from __future__ import annotations

import json
from typing import Any

from generate import Writers
from modak_ansible.model.measured.record import Record
from modak_ansible.model.plan import Plan


def _text(schema: dict[str, Any]) -> str:
    return json.dumps(schema, indent=2) + "\n"


FILES: Writers = {
    "modak_ansible/model/plan.schema.json": lambda _: _text(Plan.model_json_schema(mode="serialization")),
    "benchmarks/records/record.schema.json": lambda _: _text(
        Record.model_json_schema(mode="serialization", by_alias=True)
    ),
}
