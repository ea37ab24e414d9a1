"""tosca-parser's own judgement of a blueprint, with a place for each of its messages."""

from __future__ import annotations

import contextlib
import importlib
import json
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from modak_ansible.errors import Location
from modak_ansible.reading.blueprint.forms.kept_tree import read_kept_yaml
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.forms.yaml_tree import Item
from modak_ansible.reading.blueprint.types.definitions import built_in, built_in_file, file_of, normative_types
from modak_ansible.store.cache import kept_text, version_of
from modak_ansible.target.core.files import is_file

RULE = "tosca-parser"
# tosca-parser notes what it finds in its classes, and reads files by what is put there for a while.
_ALONE = threading.RLock()


def note_what_tosca_parser_finds(
    path: Path,
    inputs: dict[str, Any],
    imported: Sequence[tuple[str, Path]],
    mistakes: Mistakes,
    used: Item | None = None,
) -> None:
    """As :func:`check_with_tosca_parser`, which is not asked again about what it had nothing against before.

    Args:
        imported: the files of types that it imports, and those that these import, with the path as the import has it.
        used: the template with the target that is used: where tosca-parser breaks over the file, another may be why.
    """
    basis = _judgement_basis(path, inputs, imported)

    def check() -> str | None:
        check_with_tosca_parser(path, inputs, mistakes, used=used)
        return None if mistakes or basis != _judgement_basis(path, inputs, imported) else ""

    if basis is None:
        check_with_tosca_parser(path, inputs, mistakes, used=used)
    else:
        kept_text("tosca-parser", basis, check)


def _judgement_basis(path: Path, inputs: dict[str, Any], imported: Sequence[tuple[str, Path]]) -> str | None:
    """All that a judgement rests on; None where that cannot be told from these files alone."""
    try:
        files = {_shown_path(file, path.parent): file.read_text("utf-8") for _, file in (("", path), *imported)}
    except (OSError, ValueError):
        return None
    if any("repositor" in text for text in files.values()):  # which say where other files are
        return None
    if any(is_file(Path(name)) and not file.samefile(name) for name, file in imported):
        return None  # tosca-parser takes the one of the current folder
    source = Path(__file__).read_text("utf-8")
    return json.dumps([version_of("toscaparser", "tosca_parser"), source, sys.version, files, inputs], default=repr)


def _shown_path(path: Path, folder: Path) -> str:
    """A file's path below a folder; of the types that are built in, which lie elsewhere, the whole of it."""
    return str(path.relative_to(folder) if path.is_relative_to(folder) else path)


def check_with_tosca_parser(
    path: Path, inputs: dict[str, Any], mistakes: Mistakes, written: Item | None = None, *, used: Item | None = None
) -> None:
    """Notes what tosca-parser has against a service template.

    It gives no places; the one noted is that of the last name in its message that the file holds.

    Args:
        written: the template, where it is in no file.
        used: what is asked instead where it breaks over the file; it imports the same.
    """
    with _ALONE:
        template = _with_found_imports(path, written, used)
        ExceptionCollector, TOSCAException, ToscaTemplate = _import_tosca_parser()  # noqa: N806
        try:
            with _each_file_once():
                if template is None:
                    ToscaTemplate(str(path), parsed_params=inputs or None)
                else:
                    ToscaTemplate(parsed_params=inputs or None, yaml_dict_tpl=template)
        except TOSCAException as error:
            messages = [str(getexception) for getexception in ExceptionCollector.getExceptions()] or [str(error)]
            tree = written or _tree(path)
            for message in filter(_is_mistake, messages):
                mistakes.add(_place(message, tree), RULE, " ".join(message.split()))
        except Exception as error:  # noqa: BLE001 - it lets any error of its own out where a template is odd
            if used is not None:
                check_with_tosca_parser(path, inputs, mistakes, used)
                return
            mistakes.add(
                (written or _tree(path)).location, RULE, f"{type(error).__name__}: {' '.join(str(error).split())}"
            )


def _with_found_imports(path: Path, written: Item | None, used: Item | None) -> dict[str, Any] | None:
    """The template with the full paths of what it imports, as tosca-parser wants them of one that is in no file.

    None where it is in one, beside which all that it imports lies: tosca-parser reads that itself.
    """
    folder, imports = path.parent, (written or used or _tree(path)).get("imports")
    files = [str(file_of(element).value) for element in imports.elements] if imports else []
    paths = [built_in(name) if not is_file(folder / name) else folder / name for name in files]
    if written is None and not any(
        path and path.parent != (folder / name).parent for name, path in zip(files, paths, strict=True)
    ):
        return None
    plain: dict[str, Any] = (written or _tree(path)).plain()
    plain["imports"] = [str(path.absolute()) if path else name for name, path in zip(files, paths, strict=True)]
    return plain


class _WhenUsed(ModuleType):
    """A module that is imported when something in it is asked for."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(importlib.import_module(self.__name__), name)


@cache
def _import_tosca_parser() -> tuple[Any, Any, Any]:
    """The names that are used of tosca-parser."""
    import logging  # noqa: PLC0415 - slow to import, and only tosca-parser's is silenced

    logging.getLogger("tosca").setLevel(logging.CRITICAL)
    stand_ins = _stand_ins()
    sys.modules.update(stand_ins)
    try:
        from toscaparser.utils import yamlparser  # noqa: PLC0415 - slow to import

        yamlparser.urllib = SimpleNamespace(request=_WhenUsed("urllib.request"), error=_WhenUsed("urllib.error"))
        load, yamlparser.load_yaml = yamlparser.load_yaml, lambda _: normative_types()
        try:
            from toscaparser.elements import entity_type  # noqa: PLC0415, F401 - which parses the normative types
        finally:
            yamlparser.load_yaml = load
        from toscaparser import tosca_template  # noqa: PLC0415
        from toscaparser.common.exception import ExceptionCollector, TOSCAException  # noqa: PLC0415
        from toscaparser.elements.constraints import Constraint  # noqa: PLC0415
        from toscaparser.functions import is_function  # noqa: PLC0415
        from toscaparser.tpl_relationship_graph import ToscaGraph  # noqa: PLC0415
    finally:
        for name in stand_ins:
            del sys.modules[name]
    ToscaGraph._create = _create_graph
    validate = Constraint.validate
    # of a member of a mapping it would hold the function itself against what limits its value
    Constraint.validate = lambda constraint, value: None if is_function(value) else validate(constraint, value)
    vars(tosca_template)["print"] = lambda *_: None  # sys.stdout is also that of whoever has other threads
    return ExceptionCollector, TOSCAException, tosca_template.ToscaTemplate


def _stand_ins() -> dict[str, ModuleType]:
    """For what tosca-parser imports, and what is asked of it here needs seldom or never; it takes longer than the rest.

    What fetches from the network and what reads dates is imported when it is used. stevedore looks through all
    that is installed for other versions of TOSCA, which are refused before, and pbr for tosca-parser's own.
    """
    no_extensions = SimpleNamespace(extensions=())
    number = SimpleNamespace(version_string=str)
    stand_ins: dict[str, ModuleType] = {
        "requests": _WhenUsed("requests"),
        "dateutil.parser": _WhenUsed("dateutil.parser"),
    }
    stand_ins["dateutil"] = _with(ModuleType("dateutil"), parser=stand_ins["dateutil.parser"])
    stand_ins["pbr.version"] = _with(ModuleType("pbr.version"), VersionInfo=lambda _: number)
    stand_ins["pbr"] = _with(ModuleType("pbr"), version=stand_ins["pbr.version"])
    stand_ins["stevedore"] = _with(
        ModuleType("stevedore"), extension=SimpleNamespace(ExtensionManager=lambda **_: no_extensions)
    )
    missing_modules = {name: module for name, module in stand_ins.items() if name.partition(".")[0] not in sys.modules}
    return (
        missing_modules
        if "urllib.request" in sys.modules
        else {**missing_modules, "urllib.request": _WhenUsed("urllib.request")}
    )


def _with(module: ModuleType, **members: Any) -> ModuleType:
    vars(module).update(members)
    return module


class _OwnImports(list[Any]):
    """What a file imports; tosca-parser adds what the file before it imports, by paths that lead nowhere from here."""

    def append(self, _: Any) -> None:
        pass


@contextlib.contextmanager
def _each_file_once() -> Iterator[None]:
    """tosca-parser reads a file of types again for every other that imports it; ours are kept."""
    from toscaparser import imports  # noqa: PLC0415 - slow to import

    load: Callable[..., Any] = imports.YAML_LOADER
    trees: dict[str, Any] = {}

    def copy_of(path: str, a_file: bool = True) -> Any:
        if path not in trees:
            built_in_path = built_in_file(Path(path))
            trees[path] = _built_in_types(built_in_path) if built_in_path else load(path, a_file)
        copy = _copied(trees[path])  # tosca-parser adds to what it has read
        if isinstance(copy, dict) and isinstance(copy.get("imports"), list):
            copy["imports"] = _OwnImports(_led_to_built_in(element, Path(path).parent) for element in copy["imports"])
        return copy

    imports.YAML_LOADER = copy_of
    try:
        yield
    finally:
        imports.YAML_LOADER = load


def _led_to_built_in(imported: Any, folder: Path) -> Any:
    """An import of types, in any of its notations, with the full path where it means some that are built in."""
    if isinstance(imported, dict):
        return {name: _led_to_built_in(value, folder) for name, value in imported.items()}
    path = built_in(imported) if isinstance(imported, str) and not is_file(folder / imported) else None
    return str(path.absolute()) if path else imported


@cache
def _built_in_types(path: Path) -> Any:
    return _tree(path).plain()


def _copied(value: Any) -> Any:
    """A copy of what YAML holds, in a third of the time of copy.deepcopy."""
    if isinstance(value, dict):
        return {name: _copied(item) for name, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


def _create_graph(graph: Any) -> None:
    """As tosca-parser's own, which compares every node with every other: a thousand of them take it a second."""
    nodes = {nodetemplate.name: nodetemplate for nodetemplate in graph.nodetemplates}
    for node in graph.nodetemplates:
        for relationship, other in (node.relationships or {}).items():
            if other.name in nodes:
                graph._create_edge(node, nodes[other.name], relationship)
        graph._create_vertex(node)


def _tree(path: Path) -> Item:
    """The tree of a file, in which nothing is noted: that was done where the blueprint was read."""
    return read_kept_yaml(path, Mistakes()) or Item(Location(str(path)), None)


def _is_mistake(message: str) -> bool:
    """Whether TOSCA sees it as tosca-parser does, which takes no whole number for a float."""
    return not re.fullmatch(r'"-?\d+" is not a float\.', message)


def _place(message: str, tree: Item) -> Location:
    """The place of the last of the names in a message, the most special one, that stands in the file."""
    names = filter(str.strip, message.split('"'))  # those in quotes, some of which stand within others
    places = dict(_names(tree))
    return next((places[name] for name in reversed([*names]) if name in places), tree.location)


def _names(item: Item) -> Iterator[tuple[str, Location]]:
    for inner in item.walk():
        for name in inner.entries:
            yield name, inner.key_location(name)
        if isinstance(inner.value, str):
            yield inner.value, inner.location
