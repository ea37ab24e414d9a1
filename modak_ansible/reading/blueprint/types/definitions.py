"""The TOSCA types that a blueprint may use: the normative ones, those of its imports, and its own."""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from modak_ansible.errors import Location, nearest, visible
from modak_ansible.reading.blueprint.forms.kept_tree import read_kept_yaml
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.forms.yaml_files import parse_yaml
from modak_ansible.reading.blueprint.forms.yaml_tree import Item, entries_of, item_from
from modak_ansible.store.cache import kept_text
from modak_ansible.store.project import shipped
from modak_ansible.target.core.files import exists, is_file, real_path

VERSION = "tosca_simple_yaml_1_3"
TYPES = "types"
_KINDS = (
    "node_types", "data_types", "capability_types", "relationship_types", "artifact_types", "interface_types",
    "policy_types", "group_types",
)  # fmt: skip
_SCALARS = (
    "string", "integer", "float", "number", "boolean", "timestamp", "range", "version", "list", "map",
    "scalar-unit.size", "scalar-unit.time", "scalar-unit.frequency",
)  # fmt: skip


@dataclass
class Definitions:
    """Type definitions by kind and name; not complete when an import could not be read."""

    types: dict[str, dict[str, Item]] = field(default_factory=lambda: {kind: {} for kind in _KINDS})
    is_complete: bool = True
    # those that were imported, with the path as the import has it
    files: list[tuple[str, Path]] = field(default_factory=list)

    def names(self, kind: str) -> list[str]:
        """The names of a kind, those of this project first."""
        return sorted(self.types[kind], key=lambda name: (name.startswith("tosca."), name))

    def lineage(self, kind: str, name: str) -> list[Item]:
        """The definition of a type and of those that it is derived from, nearest first; ends where one is unknown."""
        definitions: list[Item] = []
        visited: set[str] = set()
        while name in self.types[kind] and name not in visited:
            visited.add(name)
            definitions.append(self.types[kind][name])
            parent = definitions[-1].get("derived_from")
            name = str(parent.value) if parent else ""
        return definitions

    def is_derived(self, name: str, ancestor: str) -> bool:
        """Whether a node type is another, or is derived from it."""
        parents = (definition.get("derived_from") for definition in self.lineage("node_types", name))
        return ancestor in (name, *(str(parent.value) for parent in parents if parent))

    def members(self, kind: str, name: str, section: str) -> dict[str, Item]:
        """The properties, attributes or capabilities of a type, inherited ones included."""
        merged: dict[str, Item] = {}
        for definition in reversed(self.lineage(kind, name)):
            merged.update(entries_of(definition.get(section)))
        return merged

    def requirements(self, node_type: str) -> dict[str, Item]:
        """The requirements of a node type by name, inherited ones included."""
        merged: dict[str, Item] = {}
        for definition in reversed(self.lineage("node_types", node_type)):
            section = definition.get("requirements")
            for element in section.elements if section else []:
                merged.update(element.entries)
        return merged

    def of_capability(self, node_type: str, name: str) -> dict[str, Item]:
        """The properties of a capability that a node type has."""
        definition = self.members("node_types", node_type, "capabilities").get(name)
        kind = definition.get("type") if definition and definition.is_map else definition
        return self.members("capability_types", str(kind.value) if kind else "", "properties")

    def broken_parent(self, node_type: str) -> Item | None:
        """The name at which the lineage of a node type breaks off: nothing has it, or one of these, where tosca-parser
        hangs."""
        lineage = self.lineage("node_types", node_type)
        return lineage[-1].get("derived_from") if lineage else None

    def is_whole(self, node_type: str) -> bool:
        """Whether all is known that a node type inherits."""
        return node_type in self.types["node_types"] and self.broken_parent(node_type) is None

    def is_known_type(self, name: str) -> bool:
        """Whether a property may be of this type."""
        return name in _SCALARS or name in self.types["data_types"]


def load_definitions(root: Item, folder: Path, mistakes: Mistakes) -> Definitions:
    """The types that a service template may use.

    Args:
        mistakes: collects imports that are missing, no YAML, of another version, or reach outside the folder.
    """
    definitions = Definitions()
    _add(definitions, _normative_tree())
    before = len(mistakes)
    _load_imports(root, folder, folder, definitions, mistakes, {})
    definitions.is_complete = len(mistakes) == before
    _add(definitions, root)
    return definitions


def check_version(root: Item, mistakes: Mistakes) -> bool:
    """Whether a file says that it is of the TOSCA version that is supported; otherwise a mistake is noted."""
    version = root.get("tosca_definitions_version")
    hint = f"begin the file with tosca_definitions_version: {VERSION}"
    if version is None:
        where = next(iter(root.keys.values()), root.location)
        mistakes.add(where, "tosca-version", "not a TOSCA file: it has no tosca_definitions_version", hint)
    elif version.value != VERSION:
        mistakes.add(
            version.location,
            "tosca-version",
            f"TOSCA version {visible(version.text)} is not supported",
            f"use {VERSION}",
        )
    return version is not None and version.value == VERSION


@cache
def _normative_tree() -> Item:
    return item_from(normative_types(), Location("TOSCA"))


def normative_types() -> Any:
    """The normative types, as tosca-parser ships them."""
    spec = importlib.util.find_spec("toscaparser")
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError("tosca-parser is not installed")
    path = Path(spec.submodule_search_locations[0], "elements", "TOSCA_definition.yaml")
    text = path.read_text(encoding="utf-8")

    def plain() -> str:
        mistakes = Mistakes()
        tree = parse_yaml(text, str(path), mistakes)
        mistakes.raise_if_any()
        return json.dumps(tree.plain() if tree else {})

    return json.loads(kept_text("tosca-types", text, plain) or "{}")


def _add(definitions: Definitions, root: Item) -> None:
    for kind in _KINDS:
        definitions.types[kind].update(entries_of(root.get(kind)))


def built_in(name: str) -> Path | None:
    """The project's own file of types that an import means where nothing lies beside the template, such as
    ``types/modak.yaml``; None where it is none of them."""
    folder, _, file = name.rpartition("/")
    path = shipped("tosca") / TYPES / file
    return path if folder == TYPES and is_file(path) else None


def built_in_file(path: Path) -> Path | None:
    """The project's own file of types that a path leads to, through whatever links; None where it is another."""
    real = real_path(path)
    return real if real.parent == real_path(shipped("tosca") / TYPES) and is_file(real) else None


def _load_imports(
    root: Item, folder: Path, top: Path, definitions: Definitions, mistakes: Mistakes, being_read: dict[Path, bool]
) -> None:
    """Adds the types of the imported files; ``being_read`` tells of each file whether it is being read still."""
    own = real_path(Path(root.location.path))
    being_read[own] = True
    for place, named_path in _imported_files(root, folder, top, mistakes):
        path = named_path if is_file(named_path) else built_in(place.text) or named_path
        real = real_path(path)
        if being_read.get(real):
            mistakes.add(
                place.location, "import-loop", f"{place.text} imports this file in turn", "leave one import out"
            )
        definitions.files.append((place.text, path))
        if real in being_read:
            continue
        being_read[real] = False
        if not is_file(path):
            siblings = path.parent.glob("*.yaml") if exists(path.parent) else ()
            names = [str(sibling.relative_to(folder)) for sibling in siblings if real_path(sibling) != own]
            names += [f"{TYPES}/{path.name}"] if built_in(f"{TYPES}/{path.name}") else []
            hint = nearest(place.text, names) or f"the types are built in: {TYPES}/modak.yaml"
            mistakes.add(
                place.location, "import-missing", f"the imported file {visible(place.text)} is not there", hint
            )
            continue
        tree = read_kept_yaml(path, mistakes)
        if tree and check_version(tree, mistakes):
            _load_imports(
                tree, path.parent, top if path == named_path else path.parent, definitions, mistakes, being_read
            )
            _add(definitions, tree)
    being_read[own] = False


def file_of(element: Item) -> Item:
    """What an import names, in any of its notations: a path, one under a name, or a mapping with it as its file."""
    if element.is_map and "file" not in element.entries and len(element.entries) == 1:
        (element,) = element.entries.values()
    return element.get("file") or element


def _imported_files(root: Item, folder: Path, top: Path, mistakes: Mistakes) -> Iterator[tuple[Item, Path]]:
    """The files that a template imports: where that is written, and their paths."""
    section = root.get("imports")
    if section is None:
        return
    if not section.is_list:
        mistakes.add(section.location, "import-form", "imports must be a list of files", "- types/modak.yaml")
    for element in section.elements:
        file_item = file_of(element)
        if not isinstance(file_item.value, str) or not file_item.value.isprintable():
            mistakes.add(element.location, "import-form", "an import must be a file's path", "- types/modak.yaml")
        elif "://" in file_item.value:
            mistakes.add(file_item.location, "import-form", "an import cannot be an address", "copy the file")
        elif not Path(os.path.abspath(folder / file_item.value)).is_relative_to(os.path.abspath(top)):  # noqa: PTH100
            mistakes.add(file_item.location, "import-form", "an import must lie below the blueprint's folder")
        else:
            # by the words alone, as it was judged: behind a link .. leads elsewhere
            yield file_item, Path(os.path.normpath(folder / file_item.value))
