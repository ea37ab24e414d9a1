"""Reads the catalogue's files: those that ship, and the user's own."""

from __future__ import annotations

import json
import warnings
from functools import cache
from pathlib import Path
from typing import Any

from modak_ansible.catalogue.entry import Base, Catalogue, Entry, KnownDataset
from modak_ansible.errors import InvalidBlueprint
from modak_ansible.model.dataset import DataSource
from modak_ansible.store.cache import kept_text
from modak_ansible.store.configuration import own_entries
from modak_ansible.target.core.files import changed_at

_FOLDER = Path(__file__).parent


class CatalogueWarning(UserWarning):
    """Something in the catalogue cannot be taken, and the rest can."""


def load_catalogue() -> Catalogue:
    """The catalogue that ships with the project, and the entries that users and centres added to it.

    An entry of theirs takes the place of one that ships under its name; one with mistakes is left out, with a
    CatalogueWarning, and who needs it is told what they are.
    """
    return _with_own(tuple((path, changed_at(path)) for path in own_entries().values()))


@cache
def _with_own(files: tuple[tuple[Path, float | None], ...]) -> Catalogue:
    catalogue = shipped_catalogue()
    if not files:
        return catalogue
    from modak_ansible.catalogue.own import read_entry  # noqa: PLC0415 - few have any, and what checks them is slow to import

    own, broken = [], {}
    for path, _ in files:
        try:
            own.append(read_entry(path, catalogue))
        except InvalidBlueprint as error:
            broken[path.stem] = str(error)
            warnings.warn(f"{error}\n  the entry {path.stem} is left out", CatalogueWarning, stacklevel=1)
    names = {entry.name for entry in own} | set(broken)
    shipped = [entry for entry in catalogue.entries if entry.name not in names]
    return catalogue.model_copy(update={"entries": (*shipped, *own), "broken": broken})


@cache
def shipped_catalogue() -> Catalogue:
    entries, bases, datasets = _shipped()
    return Catalogue(
        entries=tuple(Entry(**entry) for entry in entries),
        bases={base["name"]: Base(**base) for base in bases},
        datasets={dataset["name"]: _dataset(dataset) for dataset in datasets},
    )


def _shipped() -> list[list[dict[str, Any]]]:
    """What its files say, folder by folder; it is parsed once, as YAML takes longer than all that a plan asks of it."""
    folders = [sorted((_FOLDER / name).glob("*.yaml")) for name in ("entries", "bases", "datasets")]
    texts = [[path.read_text(encoding="utf-8") for path in paths] for paths in folders]

    def parsed() -> str:
        return json.dumps([[from_yaml(text) for text in folder] for folder in texts])

    data: list[list[dict[str, Any]]] = json.loads(kept_text("catalogue", json.dumps(texts), parsed) or "[]")
    return data


def from_yaml(text: str) -> Any:
    """What a text says, without its places; libyaml takes a tenth of the time where it is there.

    Raises:
        yaml.YAMLError: it is none.
    """
    import yaml  # noqa: PLC0415 - slow to import, and what is kept needs none of it

    safe_loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(text, Loader=safe_loader)  # noqa: S506


def _dataset(data: dict[str, Any]) -> KnownDataset:
    addresses = data.pop("addresses")
    files = data.pop("files")
    label = str(data["name"]).upper()
    sources = [DataSource(kind="url", label=label, location=address, files=files) for address in addresses]
    return KnownDataset(sources=tuple(sources), **data)
