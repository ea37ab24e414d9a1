"""The framework of a script, and the packages that its image needs besides."""

from __future__ import annotations

import ast
import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from modak_ansible.catalogue import Entry, load_catalogue
from modak_ansible.catalogue.companions import PACKAGES, collision, constraints_of
from modak_ansible.catalogue.entry import satisfies
from modak_ansible.catalogue.locks import lock_of, package_of
from modak_ansible.errors import ModakError
from modak_ansible.reading.blueprint.forms.text_rules import requirement_problem
from modak_ansible.reading.blueprint.script.source import source_of
from modak_ansible.reading.blueprint.script.starting import start_above, start_hint
from modak_ansible.reading.blueprint.script.syntax import nodes_of, said_of
from modak_ansible.reading.drafts.imports import Code, Imported, has_code
from modak_ansible.reading.drafts.installed import Installed
from modak_ansible.reading.drafts.pins import Pin, Pins, plain

PYTHON = "python"
_LISTING = (
    "requirements.txt",
    "pyproject.toml",
)  # files in which people list what they need, and not all that is there
_BACKEND = "KERAS_BACKEND"  # the variable by which Keras 3 is told what computes
_MOST_UNSEEN = 12
_ALL_THE_SAME = "what is needed all the same goes into requirements_txt"


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("packages.yaml").read_text(encoding="utf-8"))
    return table


def frameworks_of(code: Code) -> list[tuple[str, Imported]]:
    """The frameworks that a script imports, the likeliest first, with the module that says so; none for a program of
    another kind."""
    found: dict[str, Imported] = {}
    for kind in ("frameworks", "implied"):
        if found:
            break
        for framework, modules in _table()[kind].items():
            said = [code.modules[name] for name in modules if name in code.modules]
            certain = [each for each in said if not each.is_optional] or said
            if certain:
                found[framework] = certain[0]
    found = {name: each for name, each in found.items() if not each.is_optional} or found
    found = {name: each for name, each in found.items() if not each.is_late} or found
    if "tensorflow" in found:  # whose own Keras it is
        found.pop("keras", None)
    trains = {name for name, modules in _table()["trains"].items() for each in modules if _is_sure(code, each)}
    return sorted(found.items(), key=lambda each: each[0] not in trains)


def _is_sure(code: Code, module: str) -> bool:
    return module in code.modules and not code.modules[module].is_optional


@dataclass
class Requirements:
    """What an image needs besides its framework."""

    lines: list[str] = field(default_factory=list)  # of requirements.txt
    reasons: list[str] = field(default_factory=list)  # of each line where it comes from, in words
    version: str = ""  # of the framework, where the user has one that the catalogue knows; else empty, for the newest
    entry: str = ""  # the build that has what the script chooses; empty where any of the framework serves
    notes: list[str] = field(default_factory=list)  # what somebody should know


def requirements_of(
    code: Code, framework: str, project: Pins, installed: Installed, folders: Sequence[Path] = ()
) -> Requirements:
    """The packages that a script and its own files import, but for what the framework's image has; the project's own
    code may lie in the folders."""
    project = replace(project, asked=_without_screen(project.asked))
    pins, found = project.asked, Requirements(notes=list(project.notes))
    entry = _bringing(framework, code, found) or _entry(
        framework, pins, installed, found, _backend_of(code) if framework == "keras" else ""
    )
    there = _in_image(entry) if entry else set()
    found.notes += _gone(code, framework, entry)
    wanted = _wanted(code, project, installed, found)
    late = []
    for package, imported in wanted.items():
        if _is_of_framework(package, framework) or (imported.is_optional and _is_of_framework(package)):
            continue
        if package in there:
            _compare(package, pins, entry, found)
            continue
        own = _own_code(package, imported, project, installed, folders, code)
        if own:
            found.notes.append(own)
            continue
        if package not in pins and (instead := _table()["unlisted"].get(package)):
            what = f"{imported.name}, which {imported.place} imports, is in no index, which has another by that name"
            found.notes.append(f"{what}: left out; {instead}")
            continue
        if requirement_problem(package):
            what = f"{imported.name}, which {imported.place} imports, is not the name of a package: left out"
            found.notes.append(f"{what}; {_ALL_THE_SAME}")
            continue
        if imported.is_late and pins and not _is_asked(package, project) and not _version(package, installed):
            late.append(f"{package} ({imported.place})")
            continue
        if from_there := project.elsewhere.get(package):
            found.notes.append(f"{from_there.said}: an image is built of what an index has, and gets {package} from it")
        line, reason = _line(package, imported, pins, installed)
        if package in pins and pins[package].other:
            found.notes.append(f"{line} ({reason}) is taken, and not {pins[package].other}")
        _add(line, reason, entry, found)
        found.notes += _warned(package, imported, code)
    found.notes += (
        _of_python(project, framework, entry) if any("==" in each or "<" in each for each in found.lines) else ()
    )
    if late:
        what = f"the project does not ask for {', '.join(late)}, which functions alone import: left out"
        found.notes.append(f"{what}; {_ALL_THE_SAME}")
    unseen = sorted({*map(canonicalize_name, pins)} - set(wanted) - there)
    unseen = [name for name in unseen if not _is_of_framework(name)]
    file = next((file for file in _LISTING if any(pin.source == file for pin in pins.values())), "")
    unseen = [name for name in unseen if pins[name].source == file]
    if 0 < len(unseen) <= _MOST_UNSEEN:  # more are what pip freeze writes
        what = f"{file} has {', '.join(unseen)}, too, which nothing here imports: left out"
        found.notes.append(f"{what}; {_ALL_THE_SAME}")
    return found


def _gone(code: Code, framework: str, entry: Entry | None) -> Iterator[str]:
    """What a script uses that its framework has no more, the first of each kind, with what to do."""
    used = {path.name: source_of(tree).used for path, tree in code.trees.items()}
    names = {name.partition(".compat.")[1] for lines in used.values() for name in lines}
    for kind in _table()["gone"].get(framework, ()) if ".compat." not in names else ():
        full = {f"{framework}.{name}" for name in kind["names"]}
        lines = [(line, path, name) for path, own in used.items() for name, line in own.items() if name in full]
        if lines and entry and Version(entry.version) >= Version(kind["before"]):
            line, path, name = min(lines)
            what = f"it uses {name} ({path}:{line}), which TensorFlow has not had since {kind['before']}"
            yield f"{what}: {kind['instead']}"


def _warned(package: str, imported: Imported, code: Code) -> Iterator[str]:
    """What somebody should know of a package who trains with it on a cluster."""
    named = f"{package} ({imported.place})"
    if package in _table()["compiled"]:
        what = f"{named} is compiled with CUDA's nvcc, which no build of the catalogue has"
        yield f"{what}: take an image of your own that has it (modak.nodes.Image), or do without"
    for variable, value in _table()["online"].get(package, {}).items():
        words = (each for tree in code.trees.values() for each in nodes_of(tree) if isinstance(each, ast.keyword))
        said = {each.value.value for each in words if each.arg == "mode" and isinstance(each.value, ast.Constant)}
        if not said & {"offline", "disabled"} and not any(said_of(tree, variable) for tree in code.trees.values()):
            what = f"{named} sends what is logged to a server, and mostly the nodes of a cluster have no network"
            yield f'{what}: environment: {{ {variable}: "{value}" }} of a blueprint has it write beside the script'


def _of_python(project: Pins, framework: str, entry: Entry | None) -> Iterator[str]:
    """What is to be said of a project that is for another Python than the image has, in which what it pins is made."""
    bases = load_catalogue().bases
    having = bases[entry.base].python if entry and entry.base else ""
    asked = [(each, source) for each, source in project.pythons if having and not each.contains(f"{having}.99")]
    if entry and asked:
        known = (each for each in _builds(framework) if bases[each.base].python and each.version != entry.version)
        fits = [each for each in known if asked[0][0].contains(f"{bases[each.base].python}.99")]
        then = f'version: "{fits[0].version}" has that' if fits else "what it pins may have no wheels for that"
        version = str(asked[0][0]).removeprefix("==").removesuffix(".*")
        yield f"{asked[0][1]} is for Python {version}, and {entry.name} has {having}: {then}"


def _compare(package: str, pins: dict[str, Pin], entry: Entry | None, found: Requirements) -> None:
    """Tells a version that is asked for, and that the image has not got."""
    pin = pins.get(package)
    against = collision(entry, plain(pin.requirement), "") if entry and pin else None
    if pin and against:
        found.notes.append(f"{pin.source}: {against.message}, and keeps it")


def _own_code(
    package: str, imported: Imported, project: Pins, installed: Installed, folders: Sequence[Path], code: Code
) -> str:
    """Why a package is code of the user's own, which no index has, and what to do; empty where it is none."""
    said = project.elsewhere.get(package)
    is_theirs = package in project.asked or bool(installed.version(package)) or bool(said and not said.is_here)
    if is_theirs:
        return ""
    module = imported.name.partition(".")[0]
    around = [*folders, *code.aside]
    places = [folder / inner / name for folder in around for inner in ("", "src") for name in (module, f"{module}.py")]
    place = next((place for place in places if _is_module(place, code.dotted)), None)
    if place and folders and folders[0].is_relative_to(place):
        lies = f"{module}, which {imported.place} imports, is the package that {code.script.name} lies in"
        level = len(folders[0].relative_to(place).parts) + 1
        return f"{lies}: {start_hint(code.trees[code.script], code.script, level)}"
    if place and folders:
        way = Path(os.path.relpath(place, folders[0])).as_posix()
        link = f"link it there (ln -s {shlex.quote(way)} {shlex.quote(str(folders[0]))}/)"
        then = f", and only what is beside the script travels: {link}"
        then = f"; {start_above(code.script, way)}" if folders[0].is_relative_to(place.parent) else then
        return f"{module}, which {imported.place} imports, lies in {way}{then}"
    if said or installed.is_own(package):
        where = said.said if said else "installed from a folder"
        what = f"{package}, which {imported.place} imports, is of this machine ({where})"
        return f"{what}: copy or link it beside the script"
    return ""


def _is_module(place: Path, dotted: set[str]) -> bool:
    """Whether a file or a folder is a module that is imported; of a folder without an __init__.py one that lies in it
    is, for it may be called as a package is, and hold something else."""
    if place.is_file() or (place / "__init__.py").is_file():
        return True
    inner = {name.split(".")[1] for name in dotted if name.startswith(f"{place.name}.")}
    return any((place / f"{name}.py").is_file() or has_code(place / name) for name in inner)


def _wanted(code: Code, project: Pins, installed: Installed, found: Requirements) -> dict[str, Imported]:
    """The packages of all that is imported, or asked for by the script itself, with where that is."""
    wanted: dict[str, Imported] = {}
    for module, imported in sorted(code.modules.items()):
        for package in _packages_of(module, imported, code, project.asked, installed, found):
            if not imported.is_optional or _is_asked(package, project) or _version(package, installed):
                wanted.setdefault(package, imported)
    for name, package in _needed(code):
        by = code.modules.get(name.partition(".")[0])
        if by and by.is_optional and _package_of(by.name.partition(".")[0], project.asked, installed) not in wanted:
            continue
        needed = Requirement(package)
        known = wanted.get(needed.name) or Imported(name, name, False, bool(by and by.is_late))
        wanted[needed.name] = replace(known, extras=known.extras | needed.extras)
    for name in map(_headless, project.inline):
        wanted.setdefault(name, Imported(name, code.script.name, is_optional=False))
    return wanted


def _is_asked(package: str, project: Pins) -> bool:
    """Whether a project asks for a package whatever it is used for."""
    return package in project.asked and package not in project.optional


def _needed(code: Code) -> Iterator[tuple[str, str]]:
    """What is used of modules that ask for another package only then, and that package."""
    nodes = [node for tree in code.trees.values() for node in nodes_of(tree) if isinstance(node, ast.Attribute)]
    used = {name for tree in code.trees.values() for name in source_of(tree).used}
    used = code.dotted.union(code.modules, (name for name in used if name.partition(".")[0] in code.modules))
    for name, packages in _table()["needed"].items():
        yield from ((name, package) for package in packages if name in used)
    keywords = [each for tree in code.trees.values() for each in nodes_of(tree) if isinstance(each, ast.keyword)]
    for keyword in keywords:
        packages = _table()["told"].get(keyword.arg, ())
        said = {str(each.value) for each in ast.walk(keyword.value) if isinstance(each, ast.Constant)}
        known = [packages] if isinstance(packages, str) and said - {"None"} else said.intersection(packages)
        yield from ((str(keyword.arg), package) for package in sorted(known))
    for module, calls in _table()["called"].items():
        if module in code.modules:
            imported = {name.rpartition(".")[2] for name in code.dotted if name.startswith(f"{module}.")}
            called = imported.union(node.attr for node in nodes) & calls.keys()
            yield from ((f"{module}.{name}", calls[name]) for name in sorted(called))


def _packages_of(
    module: str, imported: Imported, code: Code, pins: dict[str, Pin], installed: Installed, found: Requirements
) -> list[str]:
    """The packages that bring a module, and what of it is imported."""
    shared = {name: package for name, package in _table()["shared"].items() if name.startswith(f"{module}.")}
    if not shared:
        return [_package_of(module, pins, installed)]
    below = {package for name, package in shared.items() for each in code.dotted if f"{each}.".startswith(f"{name}.")}
    if not below and not imported.is_optional:
        what = f"{imported.name}, imported in {imported.place}: several packages bring modules of {module}"
        found.notes.append(f"{what}, and which has this one is not known here: name it in requirements_txt")
    return sorted(below)


def _package_of(module: str, pins: dict[str, Pin], installed: Installed) -> str:
    known = _headless(installed.package_of(module) or _table()["packages"].get(module, ""))
    kinds = _table()["headless"].values()
    if known in kinds and known not in pins:
        known = next((kind for kind in kinds if kind in pins), known)
    if not known or (known not in pins and canonicalize_name(module) in pins):
        known = canonicalize_name(module)
    return str(known)


def _headless(package: str) -> str:
    """The package that does the same where nothing has a screen, or the libraries for one, as an image has not."""
    return str(_table()["headless"].get(package, package))


def _without_screen(pins: dict[str, Pin]) -> dict[str, Pin]:
    """What is asked for, with the versions that are asked of what needs a screen."""
    found = dict(pins)
    for name, headless in _table()["headless"].items():
        if name in found:
            pin = found.pop(name)
            found.setdefault(headless, Pin(Requirement(f"{headless}{pin.requirement.specifier}"), pin.source))
    return found


def _version(package: str, installed: Installed) -> str:
    """The version that is installed here, be it of what needs a screen."""
    others = (name for name, headless in _table()["headless"].items() if headless == package)
    return next(filter(None, map(installed.version, (package, *others))), "")


def _is_of_framework(package: str, framework: str = "") -> bool:
    """Whether it is the own package of a framework, under any of its names; of any framework where none is given."""
    own = package.removesuffix("-cpu").removesuffix("-gpu").replace("jaxlib", "jax")
    return own in {PACKAGES.get(name, name) for name in ([framework] if framework else _table()["frameworks"])}


def _backend_of(code: Code) -> str:
    """What a script has Keras compute with, where it says it itself; empty where it leaves it open."""
    told = (said_of(tree, _BACKEND) for tree in code.trees.values())
    return next(filter(None, told), "")


def _line(package: str, imported: Imported, pins: dict[str, Pin], installed: Installed) -> tuple[str, str]:
    """A line of requirements.txt, and where it comes from."""
    pin, version = pins.get(package), _version(package, installed)
    made = Requirement(package)
    made.extras = {*imported.extras, *(pin.requirement.extras if pin else ())}
    if pin and (pin.requirement.specifier or not version):
        made.name, made.specifier = pin.requirement.name, pin.requirement.specifier
        return plain(made), pin.source
    if version:
        return f"{plain(made)}=={version}", "as installed here"
    return plain(made), f"imported in {imported.place}; not installed here, so that its newest version is taken"


def _add(line: str, reason: str, entry: Entry | None, found: Requirements) -> None:
    """Notes a requirement, without its version where that does not go with the image."""
    problem = requirement_problem(line)
    if entry and not problem:
        python = load_catalogue().bases[entry.base].python if entry.base else ""
        against, bare = collision(entry, line, python), Requirement(line).name
        is_bare = bool(against) and collision(entry, bare, python) is None
        if is_bare or (line == bare and any(each.startswith(f"{bare}==") for each in constraints_of(entry))):
            line, reason = bare, f"in the release that goes with {entry.name}"
        problem = against.message if against and not is_bare else ""
    if problem:
        found.notes.append(f"{line} is left out: {problem}")
        return
    found.lines.append(line)
    found.reasons.append(reason)


def _builds(framework: str) -> list[Entry]:
    """Those of a framework of which one is taken, the newest first."""
    return [each for each in load_catalogue().of_framework(framework) if each.origin == "pip" and not each.accelerator]


def python_of(framework: str) -> str:
    """The version of Python in a framework's newest image; empty where that is not known."""
    base = next((each.base for each in _builds(framework)), "")
    return load_catalogue().bases[base].python if base else ""


def _entry(
    framework: str, pins: dict[str, Pin], installed: Installed, found: Requirements, backend: str = ""
) -> Entry | None:
    """The build of the framework whose packages count: of the user's version where the catalogue has it, or the
    newest.

    Args:
        backend: what Keras computes with, as the script says it; any without it.
    """
    known = _builds(framework)
    having = [each for each in known if each.environment.get(_BACKEND) == backend]
    if having:
        found.entry = "" if having[0] is known[0] else having[0].name
        known = having
    elif backend:
        found.notes.append(f"no build of Keras in the catalogue computes with {backend}, as the script has it")
    if not known or framework == PYTHON:
        return known[0] if known else None
    package = PACKAGES.get(framework, framework)
    pin = pins.get(package)
    exact = (
        next((specifier.version for specifier in pin.requirement.specifier if specifier.operator == "=="), "")
        if pin
        else ""
    )
    version = (exact or installed.version(package)).removesuffix(".*")
    if not version:
        return known[0]
    wanted = ".".join(version.split(".")[:2])
    like = [each for each in known if satisfies(each.version, wanted)]
    if like and like[0] is not known[0] and like[0].version.partition("+")[0].startswith(wanted):
        found.version = wanted
        return like[0]
    if not like:
        where = pin.source if pin and exact else "installed here"
        newest = ".".join(known[0].version.split(".")[:2])
        what = f"{package} {version} ({where}) is not in the catalogue: its newest, {newest}, is taken"
        found.notes.append(
            f"{what}; modak catalogue add {package}=={version} adds it, where an image's Python has wheels of it"
        )
    return known[0]


def _bringing(framework: str, code: Code, found: Requirements) -> Entry | None:
    """The newest build that brings what a script imports, and that pip would compile in vain beside another one."""
    sure = {imported.name.partition(".")[0] for imported in code.modules.values() if not imported.is_optional}
    entry = next((each for each in load_catalogue().of_framework(framework) if sure.intersection(each.brings)), None)
    if entry:
        found.entry = entry.name
    return entry


def _in_image(entry: Entry) -> set[str]:
    try:
        return {*map(package_of, lock_of(entry.name).lines if entry.requirements else ()), *entry.brings}
    except ModakError:
        return set()
