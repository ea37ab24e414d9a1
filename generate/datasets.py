"""A dataset as a type of TOSCA: the properties of modak_ansible/model/dataset.py."""

from __future__ import annotations

from collections.abc import Iterator

from generate import Writers, tosca_property, with_section
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
    for name, property_ in PROPERTIES.items():
        kind = _TYPES.get(property_.kind, ("type: string",))
        yield from tosca_property(name, kind, property_.meaning, is_required=property_.kind == "name")


FILES: Writers = {
    "tosca/types/datasets.yaml": lambda text: with_section(text, "properties", "\n".join(_lines())),
}
