"""A dataset as a type of TOSCA: the properties of modak_ansible/model/dataset.py."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap

from generate import Writers, with_section
from modak_ansible.model.dataset import FORMATS, PACKS, PROPERTIES, Kind

_TYPES: dict[Kind, tuple[str, ...]] = {
    "addresses": ("type: list", "entry_schema: { type: string }"),
    "checksums": ("type: map", "entry_schema: { type: string }"),
    "truth": ("type: boolean",),
    "size": ("type: scalar-unit.size",),
    "format": ("type: string", f"constraints: [ {{ valid_values: [ {', '.join(FORMATS)} ] }} ]"),
    "pack": ("type: string", f"constraints: [ {{ valid_values: [ {', '.join(PACKS)} ] }} ]"),
}


def _lines() -> Iterator[str]:
    for name, known in PROPERTIES.items():
        yield f"      {name}:"
        yield from (f"        {line}" for line in _TYPES.get(known.kind, ("type: string",)))
        if known.kind != "name":
            yield "        required: false"
        yield "        description: >-"
        yield from (f"          {line}" for line in wrap(known.meaning, 108, break_on_hyphens=False))


FILES: Writers = {
    "tosca/types/datasets.yaml": lambda text: with_section(text, "properties", "\n".join(_lines())),
}
