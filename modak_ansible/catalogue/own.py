"""Entries of users and centres: one YAML file each, read with every mistake's place, and written whole."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import archspec.cpu
import yaml
from packaging.requirements import InvalidRequirement, Requirement
from pydantic import ValidationError

from modak_ansible.catalogue.entry import Catalogue, Entry, is_version
from modak_ansible.catalogue.locks import SUFFIX
from modak_ansible.errors import InvalidBlueprint, Location, Mistake, UsageError, nearest
from modak_ansible.store.configuration import own_catalogue, own_entries
from modak_ansible.target.core.files import Lock, make_private, write_whole

RULE = "catalogue-entry"
ENDING = ".yaml"
_NAME = re.compile(r"[a-z0-9][a-z0-9._+-]{0,99}")


def read_entry(path: Path, catalogue: Catalogue) -> Entry:
    """An entry that does not ship.

    Raises:
        InvalidBlueprint: with every mistake and its place.
    """
    try:
        text = path.read_text(encoding="utf-8")
        tree = yaml.compose(text, Loader=yaml.SafeLoader)
        data = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = Location(str(path), mark.line + 1, mark.column + 1) if mark else Location(str(path))
        raise InvalidBlueprint([Mistake(place, RULE, f"not YAML: {error.problem}")]) from error
    except (OSError, ValueError, LookupError, RecursionError, yaml.YAMLError) as error:  # lookups: of !!bool maybe
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise InvalidBlueprint([Mistake(Location(str(path)), RULE, f"it cannot be read: {reason}")]) from error
    if not isinstance(data, dict):
        hint = "modak catalogue show ENTRY --json shows a valid one"
        raise InvalidBlueprint([Mistake(Location(str(path)), RULE, "it is not a mapping of an entry's fields", hint)])
    pairs = tree.value if tree else ()
    places = {key.value: Location(str(path), key.start_mark.line + 1, key.start_mark.column + 1) for key, _ in pairs}
    mistakes = []
    try:
        entry = Entry(**{str(key): value for key, value in data.items()})
    except ValidationError as error:
        for detail in error.errors():
            field = str(detail["loc"][0])
            hint = nearest(field, Entry.model_fields) if detail["type"] == "extra_forbidden" else ""
            where = ".".join(map(str, detail["loc"]))
            mistakes.append(
                Mistake(places.get(field, Location(str(path))), RULE, f"{where}: {detail['msg'].lower()}", hint)
            )
    else:
        problems = [*problems_of(entry, catalogue)]
        problems += [("name", f"{entry.name} is not the file's, {path.stem}")] if entry.name != path.stem else []
        mistakes += [
            Mistake(places.get(field, Location(str(path))), RULE, f"{field}: {why}") for field, why in problems
        ]
    if mistakes:
        raise InvalidBlueprint(mistakes)
    return entry


def problems_of(entry: Entry, catalogue: Catalogue) -> Iterator[tuple[str, str]]:
    """What is wrong with an entry that has all its fields: the field, and why."""
    if not _NAME.fullmatch(entry.name):
        yield "name", f"{entry.name!r} is not a name of small letters, digits and . _ + -"
    if entry.framework not in (frameworks := sorted({entry.framework for entry in catalogue.entries})):
        yield "framework", f"{entry.framework} is not one of the frameworks that run scripts: {', '.join(frameworks)}"
    if not is_version(entry.version):
        yield "version", f"{entry.version} is not a version in the form of Python's packages"
    for name in (*entry.architectures, *entry.refusals):
        if name not in archspec.cpu.TARGETS:
            yield "architectures", f"{name} is not a processor that archspec knows"
    is_image = entry.origin in ("hub", "given")
    if is_image != bool(entry.source) or is_image != bool(entry.python):
        yield "source", f"an image, and only an image, has source and python; the origin here is {entry.origin}"
    if is_image == bool(entry.base):
        yield "base", f"an image has no base, and all other builds have one; the origin here is {entry.origin}"
    if entry.base and entry.base not in catalogue.bases:
        yield "base", f"{entry.base} is not one of {', '.join(catalogue.bases)}"
    for requirement in entry.requirements:
        try:
            Requirement(requirement)
        except InvalidRequirement:
            yield "requirements", f"{requirement} is not a line of requirements.txt"
    first = (*entry.requirements, "==")[0].partition(";")[0].strip()
    if "==" not in first or first.endswith("*"):
        yield "requirements", f"{entry.requirements[0]} comes first and is not pinned to a version"
    try:
        ast.parse(entry.probe)
    except (SyntaxError, ValueError) as error:
        yield "probe", f"not Python: {error}"


def check_name(name: str, catalogue: Catalogue) -> None:
    """
    Raises:
        UsageError: an entry cannot have that name, or another one has it.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} cannot be an entry's name", hint="small letters, digits and . _ + -")
    if path := own_entries().get(name):
        raise UsageError(f"{name} is in {path} already", hint="--name gives another; --replace overwrites it")
    if name in {entry.name for entry in catalogue.entries}:
        raise UsageError(f"{name} is an entry that ships", hint="--name gives another")


def text_of_entry(entry: Entry) -> str:
    data = entry.model_dump(mode="json", exclude_defaults=True)
    return yaml.dump(data, Dumper=BlockDumper, sort_keys=False, allow_unicode=True, width=118)


def write_entry(entry: Entry, lock: str) -> Path:
    """Writes a user's own entry, its lock first: it is known whole or not at all; gives its file.

    Args:
        lock: empty where it installs nothing.
    """
    folder = own_catalogue()
    make_private(folder)
    with Lock(folder / ".lock"):
        path = folder / f"{entry.name}{ENDING}"
        if lock:
            write_whole(path.with_suffix(SUFFIX), lock)
        write_whole(path, text_of_entry(entry))
    return path


def remove_entry(name: str) -> Path:
    """Removes a user's own entry; gives what was its file.

    Raises:
        UsageError: it is none of theirs.
    """
    path = own_entries().get(name)
    if path is None or path.parent != own_catalogue():
        own = [entry_name for entry_name, file in own_entries().items() if file.parent == own_catalogue()]
        raise UsageError(f"there is no entry {name} of yours", hint=nearest(name, own))
    path.unlink()
    path.with_suffix(SUFFIX).unlink(missing_ok=True)
    return path


class BlockDumper(yaml.SafeDumper):
    """Texts of several lines stand in as many."""


def _as_block(dumper: yaml.SafeDumper, text: str) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


BlockDumper.add_representer(str, _as_block)
