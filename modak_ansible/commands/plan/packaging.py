"""A blueprint with all that it needs elsewhere: its types, playbooks and roles, and the user's own files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import yaml

from modak_ansible.commands.plan.output import filling
from modak_ansible.errors import Location, ModakError, UsageError
from modak_ansible.model.dataset import DataSource
from modak_ansible.model.plan import Plan
from modak_ansible.model.quantities import format_size
from modak_ansible.planning.service import plan_trainings, read_whole
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.forms.yaml_files import read_yaml
from modak_ansible.reading.blueprint.forms.yaml_tree import item_from
from modak_ansible.reading.blueprint.inputs import Inputs
from modak_ansible.reading.blueprint.reader import Blueprint
from modak_ansible.reading.blueprint.script.folder import WORKLOAD_FILE
from modak_ansible.reading.blueprint.types.definitions import built_in, file_of
from modak_ansible.reading.requests.recognise import is_request
from modak_ansible.sources.local import local_files
from modak_ansible.store.configuration import own_entries
from modak_ansible.store.csar import archive, is_member_name
from modak_ansible.store.project import shipped
from modak_ansible.target.core.files import exists, expanded

ENTRY = "service.yaml"
MAX_BYTES = 500 * 10**6
_LEFT_OUT = (".*", "__pycache__", "*.pyc", "*.sif", "*.egg-info", "node_modules")
_SECRET_NAMES = ("id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "*.key", "*.kdbx", "*.p12", "*.pfx", "*.jks")
_PRIVATE_KEY = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY")
_SECRET_INPUT = re.compile(r"passw|secret|token|api_?key|credential", re.IGNORECASE)


Files = dict[str, tuple[bytes, bool]]


def package(path: Path, inputs: Inputs, creator: str) -> tuple[bytes, list[str], list[str]]:
    """A blueprint as an archive; see :func:`contents`.

    Returns:
        The archive, the names of its files, and what stays behind, in words.

    Raises:
        InvalidBlueprint, UsageError, ModakError: as :func:`contents`.
    """
    files, left_behind = contents(path, inputs)
    return archive(ENTRY, files, creator), sorted(files), left_behind


def lay_out(files: Files, folder: Path) -> None:
    """Writes what an archive would hold into a new folder, all of it or nothing; there opera deploys service.yaml.

    Raises:
        UsageError: something is in that folder.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} already exists and is not empty", hint="name another folder")
    with filling(folder) as part:
        for name, (content, is_executable) in files.items():
            path = part / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            if is_executable:
                path.chmod(path.stat().st_mode | 0o111)


def contents(path: Path, inputs: Inputs) -> tuple[Files, list[str]]:
    """The files of a blueprint's archive; the values that are given become its inputs' defaults.

    Returns:
        The content of each and whether it is executable, by its name, and what stays behind, in words.

    Raises:
        InvalidBlueprint: with every mistake and its place.
        UsageError: it is a request.
        ModakError: it would hold a secret, or a name that nothing unpacks, or is too large.
    """
    if is_request(path):
        hint = "send the file itself, with the files next to it"
        raise UsageError(f"{path} is a request, not a blueprint", hint=hint)
    plans = [training.plan for training in plan_trainings(path, inputs)]
    folder = path.parent.absolute()
    template = read_whole(path, inputs)
    files = {name: _file(folder, name) for name in _names(path, template, plans)}
    _check_names(files)
    _check_secrets(files)
    _check_size(files)
    packed = {name: (file.read_bytes(), os.access(file, os.X_OK)) for name, file in files.items()}
    packed[ENTRY] = (_with_defaults(path, inputs, template), False)
    return packed, _left_behind(plans)


# --- which files


def _names(path: Path, template: Blueprint, plans: list[Plan]) -> set[str]:
    """The files that a blueprint needs, as paths below its folder."""
    folder, visited = path.parent.absolute(), {path.name}
    data = template.template.plain() if template.template else {}
    names = set(_named_by(folder, "", data, visited))
    for plan in plans:
        code = plan.application.folder
        names |= {_join(code, file.path) for file in (*plan.application.files, *plan.beside)}
        if (folder / code / WORKLOAD_FILE).is_file():
            names.add(_join(code, WORKLOAD_FILE))
        for source in _local_sources(plan):
            if _is_below(source.location):
                root, files = local_files(source, folder)
                names |= {_join(root.relative_to(folder), file.name) for file in files}
    if (folder / "README.md").is_file():
        names.add("README.md")
    return names


def _referenced(folder: Path, name: str, visited: set[str]) -> Iterator[str]:
    """A template, and all files that it names: imports, playbooks, roles and artifacts."""
    if name in visited:
        return
    visited.add(name)
    yield name
    tree = read_yaml(_file(folder, name), Mistakes())
    if tree is not None:
        yield from _named_by(folder, name, tree.plain(), visited)


def _named_by(folder: Path, name: str, data: dict[str, Any], visited: set[str]) -> Iterator[str]:
    for imported in data.get("imports") or []:
        text = str(file_of(item_from(imported, Location(name))).value)
        yield from _referenced(folder, _join(Path(name).parent, text), visited)
    for text in dict.fromkeys(_files_named_in(data)):
        target = _join(Path(name).parent, text)
        if target not in visited and not target.startswith(".."):
            yield from _walk(target, _file(folder, target))


def _files_named_in(data: Any, key: str = "") -> Iterator[str]:
    """What stands under implementation and artifacts, anywhere in a template."""
    if isinstance(data, str) and key in ("implementation", "primary", "dependencies", "file"):
        yield data
    elif isinstance(data, list):
        for element in data:
            yield from _files_named_in(element, key if key == "dependencies" else "")
    elif isinstance(data, dict):
        for name, value in data.items():
            yield from _files_named_in(value, "file" if key == "artifacts" and isinstance(value, str) else name)


def _file(folder: Path, name: str) -> Path:
    """What a name in the archive stands for.

    Types, and the playbooks that they name, which opera alone needs, are ours where a blueprint has none.
    """
    path = folder / name
    if not exists(path) and (shipped_file := built_in(name)):
        return shipped_file
    _, is_playbook, below = f"/{name}".partition("/playbooks/")
    shipped_file = shipped("playbooks") / below
    return shipped_file if is_playbook and shipped_file.exists() and not exists(path) else path


def _walk(name: str, path: Path, above: tuple[Path, ...] = ()) -> Iterator[str]:
    """A file, or all files below a folder, links followed and caches left out.

    Raises:
        ModakError: a link leads back to a folder that it lies in.
    """
    if any(fnmatch(path.name, pattern) for pattern in _LEFT_OUT):
        return
    if path.is_file():
        yield name
    elif path.is_dir():
        folder = path.resolve()
        if folder in above:
            raise ModakError(f"{path} leads back to {folder}, which it lies in", hint="remove that link")
        for child in sorted(path.iterdir()):
            yield from _walk(f"{name}/{child.name}", child, (*above, folder))


def _local_sources(plan: Plan) -> list[DataSource]:
    return [source for dataset in plan.datasets for source in dataset.sources if source.contents]


def _join(folder: str | Path, name: str) -> str:
    """A path below the blueprint's folder, without .. where that does not lead out of it."""
    return os.path.normpath(Path(folder) / name)


def _is_below(location: str) -> bool:
    return not expanded(location).is_absolute() and not _join("", location).startswith("..")


def _left_behind(plans: list[Plan]) -> list[str]:
    """What a plan needs of this machine, and an archive does not carry."""
    sources = [source for plan in plans for source in _local_sources(plan)]
    folders = {source.location for source in sources if not _is_below(source.location)}
    keys = {plan.target.identity_file for plan in plans if plan.target.identity_file}
    own = own_entries()
    entries = sorted({str(own[plan.image.entry]) for plan in plans if plan.image.entry in own})
    return [
        *(f"the data in {folder}" for folder in sorted(folders)),
        *(f"the key {key}" for key in sorted(keys)),
        *(f"the entry of the catalogue in {path}, which modak catalogue add takes there" for path in entries),
    ]


# --- what must not travel


def _check_names(files: dict[str, Path]) -> None:
    """
    Raises:
        ModakError: nobody could unpack a file under its name.
    """
    for name in sorted(files):
        if not is_member_name(name):
            hint = "name it from the blueprint's folder, without backslashes, and in UTF-8"
            raise ModakError(f"{name!r} is not a valid name for a file in a package", hint=hint)


def _check_secrets(files: dict[str, Path]) -> None:
    """
    Raises:
        ModakError: a file is a private key, or looks like one.
    """
    for name, path in sorted(files.items()):
        is_named_so = any(fnmatch(path.name.lower(), pattern) for pattern in _SECRET_NAMES)
        with path.open("rb") as file:
            is_key = _PRIVATE_KEY.search(file.read(4096)) is not None
        if is_named_so or is_key:
            hint = "move it away, or list the files to pack under the training's files"
            raise ModakError(f"{name} looks like a private key, and is not packed", hint=hint)


def _check_size(files: dict[str, Path]) -> None:
    """
    Raises:
        ModakError: the files are too large together.
    """
    sizes = {name: path.stat().st_size for name, path in files.items()}
    total = sum(sizes.values())
    if total > MAX_BYTES:
        largest = max(sizes, key=lambda name: sizes[name])
        hint = f"the largest is {largest}, {format_size(sizes[largest])}; have the target fetch data from an address"
        raise ModakError(f"the files total {format_size(total)}, more than a package can hold", hint=hint)


# --- the template


def _with_defaults(path: Path, inputs: Inputs, blueprint: Blueprint) -> bytes:
    """The service template as it is, or with the values that are given as its inputs' defaults.

    Raises:
        ModakError: a value looks like a secret.
    """
    data = blueprint.template.plain() if blueprint.template else {}
    document = None if blueprint.text else read_yaml(path, Mistakes())
    is_named = bool((data.get("metadata") or {}).get("template_name"))
    if is_named and inputs.file is None and not inputs.values and document and data == document.plain():
        return path.read_bytes()
    (data.get("metadata") or {}).pop("target", None)  # which is written out
    if not is_named:  # it goes by the name of its folder, which does not travel
        data["metadata"] = {**(data.get("metadata") or {}), "template_name": path.parent.resolve().name}
    for name, value in blueprint.inputs.items():
        if _SECRET_INPUT.search(name) and isinstance(value, str) and value:
            hint = "give it where the package is deployed"
            raise ModakError(f"the input {name} looks like a secret, and is not packed", hint=hint)
        data["topology_template"]["inputs"][name]["default"] = value
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=120).encode()
