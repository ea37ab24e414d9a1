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
from modak_ansible.reading.blueprint.script.syntax import env_of, nodes_of
from modak_ansible.reading.drafts.imports import Code, Imported, has_code
from modak_ansible.reading.drafts.installed import Installed
from modak_ansible.reading.drafts.pins import Pin, Pins, plain

PYTHON = "python"
_LISTING = (
    "requirements.txt",
    "pyproject.toml",
)  # files in which people list what they need, and not all that is there
_BACKEND = "KERAS_BACKEND"  # the variable by which Keras 3 is told what computes
_MOST_UNUSED = 12
_ALL_THE_SAME = "what is needed all the same goes into requirements_txt"


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("packages.yaml").read_text(encoding="utf-8"))
    return table


def frameworks_of(code: Code) -> list[tuple[str, Imported]]:
    """The frameworks that a script imports, the likeliest first, with the module that says so; none for a program of
    another kind."""
    frameworks: dict[str, Imported] = {}
    for kind in ("frameworks", "implied"):
        if frameworks:
            break
        for framework, modules in _table()[kind].items():
            imports = [code.modules[name] for name in modules if name in code.modules]
            certain_imports = [imported for imported in imports if not imported.is_optional] or imports
            if certain_imports:
                frameworks[framework] = certain_imports[0]
    frameworks = {name: imported for name, imported in frameworks.items() if not imported.is_optional} or frameworks
    frameworks = {name: imported for name, imported in frameworks.items() if not imported.is_late} or frameworks
    if "tensorflow" in frameworks:  # whose own Keras it is
        frameworks.pop("keras", None)
    trainers = {name for name, modules in _table()["trains"].items() for module in modules if _is_sure(code, module)}
    return sorted(frameworks.items(), key=lambda item: item[0] not in trainers)


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
    pins, requirements = project.asked, Requirements(notes=list(project.notes))
    entry = _build_that_brings(framework, code, requirements) or _entry(
        framework, pins, installed, requirements, _backend_of(code) if framework == "keras" else ""
    )
    in_image = _in_image(entry) if entry else set()
    requirements.notes += _removed_uses(code, framework, entry)
    imports = _package_imports(code, project, installed, requirements)
    late_imports = []
    for package, imported in imports.items():
        if _is_of_framework(package, framework) or (imported.is_optional and _is_of_framework(package)):
            continue
        if package in in_image:
            _compare(package, pins, entry, requirements)
            continue
        own_note = _own_code(package, imported, project, installed, folders, code)
        if own_note:
            requirements.notes.append(own_note)
            continue
        if package not in pins and (advice := _table()["unlisted"].get(package)):
            what = f"{imported.name}, which {imported.place} imports, is in no index, which has another by that name"
            requirements.notes.append(f"{what}: left out; {advice}")
            continue
        if requirement_problem(package):
            what = f"{imported.name}, which {imported.place} imports, is not the name of a package: left out"
            requirements.notes.append(f"{what}; {_ALL_THE_SAME}")
            continue
        if imported.is_late and pins and not _is_asked(package, project) and not _version(package, installed):
            late_imports.append(f"{package} ({imported.place})")
            continue
        if elsewhere := project.elsewhere.get(package):
            requirements.notes.append(
                f"{elsewhere.said}: an image is built of what an index has, and gets {package} from it"
            )
        line, reason = _line(package, imported, pins, installed)
        if package in pins and pins[package].other:
            requirements.notes.append(f"{line} ({reason}) is taken, and not {pins[package].other}")
        _add(line, reason, entry, requirements)
        requirements.notes += _warnings(package, imported, code)
    requirements.notes += (
        _python_notes(project, framework, entry)
        if any("==" in line or "<" in line for line in requirements.lines)
        else ()
    )
    if late_imports:
        what = f"the project does not ask for {', '.join(late_imports)}, which functions alone import: left out"
        requirements.notes.append(f"{what}; {_ALL_THE_SAME}")
    unused = sorted({*map(canonicalize_name, pins)} - set(imports) - in_image)
    unused = [name for name in unused if not _is_of_framework(name)]
    file = next((file for file in _LISTING if any(pin.source == file for pin in pins.values())), "")
    unused = [name for name in unused if pins[name].source == file]
    if 0 < len(unused) <= _MOST_UNUSED:  # more are what pip freeze writes
        what = f"{file} has {', '.join(unused)}, too, which nothing here imports: left out"
        requirements.notes.append(f"{what}; {_ALL_THE_SAME}")
    return requirements


def _removed_uses(code: Code, framework: str, entry: Entry | None) -> Iterator[str]:
    """What a script uses that its framework has no more, the first of each kind, with what to do."""
    used_names = {path.name: source_of(tree).used for path, tree in code.trees.items()}
    names = {name.partition(".compat.")[1] for lines in used_names.values() for name in lines}
    for kind in _table()["gone"].get(framework, ()) if ".compat." not in names else ():
        full_names = {f"{framework}.{name}" for name in kind["names"]}
        lines = [
            (line, path, name)
            for path, lines_by_name in used_names.items()
            for name, line in lines_by_name.items()
            if name in full_names
        ]
        if lines and entry and Version(entry.version) >= Version(kind["before"]):
            line, path, name = min(lines)
            what = f"it uses {name} ({path}:{line}), which TensorFlow has not had since {kind['before']}"
            yield f"{what}: {kind['instead']}"


def _warnings(package: str, imported: Imported, code: Code) -> Iterator[str]:
    """What somebody should know of a package who trains with it on a cluster."""
    described = f"{package} ({imported.place})"
    if package in _table()["compiled"]:
        what = f"{described} is compiled with CUDA's nvcc, which no build of the catalogue has"
        yield f"{what}: take an image of your own that has it (modak.nodes.Image), or do without"
    for variable, value in _table()["online"].get(package, {}).items():
        keywords = (node for tree in code.trees.values() for node in nodes_of(tree) if isinstance(node, ast.keyword))
        modes = {
            keyword.value.value
            for keyword in keywords
            if keyword.arg == "mode" and isinstance(keyword.value, ast.Constant)
        }
        if not modes & {"offline", "disabled"} and not any(env_of(tree, variable) for tree in code.trees.values()):
            what = f"{described} sends what is logged to a server, and mostly the nodes of a cluster have no network"
            yield f'{what}: environment: {{ {variable}: "{value}" }} of a blueprint has it write beside the script'


def _python_notes(project: Pins, framework: str, entry: Entry | None) -> Iterator[str]:
    """What is to be said of a project that is for another Python than the image has, in which what it pins is made."""
    bases = load_catalogue().bases
    image_python = bases[entry.base].python if entry and entry.base else ""
    asked_versions = [
        (specifier, source)
        for specifier, source in project.pythons
        if image_python and not specifier.contains(f"{image_python}.99")
    ]
    if entry and asked_versions:
        builds = (build for build in _builds(framework) if bases[build.base].python and build.version != entry.version)
        matches = [build for build in builds if asked_versions[0][0].contains(f"{bases[build.base].python}.99")]
        hint = f'version: "{matches[0].version}" has that' if matches else "what it pins may have no wheels for that"
        version = str(asked_versions[0][0]).removeprefix("==").removesuffix(".*")
        yield f"{asked_versions[0][1]} is for Python {version}, and {entry.name} has {image_python}: {hint}"


def _compare(package: str, pins: dict[str, Pin], entry: Entry | None, requirements: Requirements) -> None:
    """Tells a version that is asked for, and that the image has not got."""
    pin = pins.get(package)
    conflict = collision(entry, plain(pin.requirement), "") if entry and pin else None
    if pin and conflict:
        requirements.notes.append(f"{pin.source}: {conflict.message}, and keeps it")


def _own_code(
    package: str, imported: Imported, project: Pins, installed: Installed, folders: Sequence[Path], code: Code
) -> str:
    """Why a package is code of the user's own, which no index has, and what to do; empty where it is none."""
    elsewhere = project.elsewhere.get(package)
    is_theirs = (
        package in project.asked or bool(installed.version(package)) or bool(elsewhere and not elsewhere.is_here)
    )
    if is_theirs:
        return ""
    module = imported.name.partition(".")[0]
    all_folders = [*folders, *code.search_path]
    places = [
        folder / inner / name for folder in all_folders for inner in ("", "src") for name in (module, f"{module}.py")
    ]
    place = next((place for place in places if _is_module(place, code.dotted)), None)
    if place and folders and folders[0].is_relative_to(place):
        lies = f"{module}, which {imported.place} imports, is the package that {code.script.name} lies in"
        level = len(folders[0].relative_to(place).parts) + 1
        return f"{lies}: {start_hint(code.trees[code.script], code.script, level)}"
    if place and folders:
        path = Path(os.path.relpath(place, folders[0])).as_posix()
        link = f"link it there (ln -s {shlex.quote(path)} {shlex.quote(str(folders[0]))}/)"
        hint = f", and only what is beside the script travels: {link}"
        hint = f"; {start_above(code.script, path)}" if folders[0].is_relative_to(place.parent) else hint
        return f"{module}, which {imported.place} imports, lies in {path}{hint}"
    if elsewhere or installed.is_own(package):
        origin = elsewhere.said if elsewhere else "installed from a folder"
        what = f"{package}, which {imported.place} imports, is of this machine ({origin})"
        return f"{what}: copy or link it beside the script"
    return ""


def _is_module(place: Path, dotted: set[str]) -> bool:
    """Whether a file or a folder is a module that is imported; of a folder without an __init__.py one that lies in it
    is, for it may be called as a package is, and hold something else."""
    if place.is_file() or (place / "__init__.py").is_file():
        return True
    inner = {name.split(".")[1] for name in dotted if name.startswith(f"{place.name}.")}
    return any((place / f"{name}.py").is_file() or has_code(place / name) for name in inner)


def _package_imports(
    code: Code, project: Pins, installed: Installed, requirements: Requirements
) -> dict[str, Imported]:
    """The packages of all that is imported, or asked for by the script itself, with where that is."""
    imports: dict[str, Imported] = {}
    for module, imported in sorted(code.modules.items()):
        for package in _packages_of(module, imported, code, project.asked, installed, requirements):
            if not imported.is_optional or _is_asked(package, project) or _version(package, installed):
                imports.setdefault(package, imported)
    for name, package in _needed_packages(code):
        use = code.modules.get(name.partition(".")[0])
        if use and use.is_optional and _package_of(use.name.partition(".")[0], project.asked, installed) not in imports:
            continue
        requirement = Requirement(package)
        earlier = imports.get(requirement.name) or Imported(name, name, False, bool(use and use.is_late))
        imports[requirement.name] = replace(earlier, extras=earlier.extras | requirement.extras)
    for name in map(_headless, project.inline):
        imports.setdefault(name, Imported(name, code.script.name, is_optional=False))
    return imports


def _is_asked(package: str, project: Pins) -> bool:
    """Whether a project asks for a package whatever it is used for."""
    return package in project.asked and package not in project.optional


def _needed_packages(code: Code) -> Iterator[tuple[str, str]]:
    """What is used of modules that ask for another package only then, and that package."""
    nodes = [node for tree in code.trees.values() for node in nodes_of(tree) if isinstance(node, ast.Attribute)]
    names = {name for tree in code.trees.values() for name in source_of(tree).used}
    names = code.dotted.union(code.modules, (name for name in names if name.partition(".")[0] in code.modules))
    for name, packages in _table()["needed"].items():
        yield from ((name, package) for package in packages if name in names)
    keywords = [node for tree in code.trees.values() for node in nodes_of(tree) if isinstance(node, ast.keyword)]
    for keyword in keywords:
        packages = _table()["told"].get(keyword.arg, ())
        values = {str(node.value) for node in ast.walk(keyword.value) if isinstance(node, ast.Constant)}
        needed = [packages] if isinstance(packages, str) and values - {"None"} else values.intersection(packages)
        yield from ((str(keyword.arg), package) for package in sorted(needed))
    for module, calls in _table()["called"].items():
        if module in code.modules:
            imported_names = {name.rpartition(".")[2] for name in code.dotted if name.startswith(f"{module}.")}
            called_names = imported_names.union(node.attr for node in nodes) & calls.keys()
            yield from ((f"{module}.{name}", calls[name]) for name in sorted(called_names))


def _packages_of(
    module: str, imported: Imported, code: Code, pins: dict[str, Pin], installed: Installed, requirements: Requirements
) -> list[str]:
    """The packages that bring a module, and what of it is imported."""
    shared = {name: package for name, package in _table()["shared"].items() if name.startswith(f"{module}.")}
    if not shared:
        return [_package_of(module, pins, installed)]
    packages = {
        package
        for name, package in shared.items()
        for dotted_name in code.dotted
        if f"{dotted_name}.".startswith(f"{name}.")
    }
    if not packages and not imported.is_optional:
        what = f"{imported.name}, imported in {imported.place}: several packages bring modules of {module}"
        requirements.notes.append(f"{what}, and which has this one is not known here: name it in requirements_txt")
    return sorted(packages)


def _package_of(module: str, pins: dict[str, Pin], installed: Installed) -> str:
    package = _headless(installed.package_of(module) or _table()["packages"].get(module, ""))
    kinds = _table()["headless"].values()
    if package in kinds and package not in pins:
        package = next((kind for kind in kinds if kind in pins), package)
    if not package or (package not in pins and canonicalize_name(module) in pins):
        package = canonicalize_name(module)
    return str(package)


def _headless(package: str) -> str:
    """The package that does the same where nothing has a screen, or the libraries for one, as an image has not."""
    return str(_table()["headless"].get(package, package))


def _without_screen(pins: dict[str, Pin]) -> dict[str, Pin]:
    """What is asked for, with the versions that are asked of what needs a screen."""
    headless_pins = dict(pins)
    for name, headless in _table()["headless"].items():
        if name in headless_pins:
            pin = headless_pins.pop(name)
            headless_pins.setdefault(headless, Pin(Requirement(f"{headless}{pin.requirement.specifier}"), pin.source))
    return headless_pins


def _version(package: str, installed: Installed) -> str:
    """The version that is installed here, be it of what needs a screen."""
    other_names = (name for name, headless in _table()["headless"].items() if headless == package)
    return next(filter(None, map(installed.version, (package, *other_names))), "")


def _is_of_framework(package: str, framework: str = "") -> bool:
    """Whether it is the own package of a framework, under any of its names; of any framework where none is given."""
    base_name = package.removesuffix("-cpu").removesuffix("-gpu").replace("jaxlib", "jax")
    return base_name in {PACKAGES.get(name, name) for name in ([framework] if framework else _table()["frameworks"])}


def _backend_of(code: Code) -> str:
    """What a script has Keras compute with, where it says it itself; empty where it leaves it open."""
    backends = (env_of(tree, _BACKEND) for tree in code.trees.values())
    return next(filter(None, backends), "")


def _line(package: str, imported: Imported, pins: dict[str, Pin], installed: Installed) -> tuple[str, str]:
    """A line of requirements.txt, and where it comes from."""
    pin, version = pins.get(package), _version(package, installed)
    requirement = Requirement(package)
    requirement.extras = {*imported.extras, *(pin.requirement.extras if pin else ())}
    if pin and (pin.requirement.specifier or not version):
        requirement.name, requirement.specifier = pin.requirement.name, pin.requirement.specifier
        return plain(requirement), pin.source
    if version:
        return f"{plain(requirement)}=={version}", "as installed here"
    return plain(requirement), f"imported in {imported.place}; not installed here, so that its newest version is taken"


def _add(line: str, reason: str, entry: Entry | None, requirements: Requirements) -> None:
    """Notes a requirement, without its version where that does not go with the image."""
    problem = requirement_problem(line)
    if entry and not problem:
        python = load_catalogue().bases[entry.base].python if entry.base else ""
        conflict, bare_name = collision(entry, line, python), Requirement(line).name
        is_bare = bool(conflict) and collision(entry, bare_name, python) is None
        if is_bare or (
            line == bare_name and any(constraint.startswith(f"{bare_name}==") for constraint in constraints_of(entry))
        ):
            line, reason = bare_name, f"in the release that goes with {entry.framework}"
        problem = conflict.message if conflict and not is_bare else ""
    if problem:
        requirements.notes.append(f"{line} is left out: {problem}")
        return
    requirements.lines.append(line)
    requirements.reasons.append(reason)


def _builds(framework: str) -> list[Entry]:
    """Those of a framework of which one is taken, the newest first."""
    return [
        build for build in load_catalogue().of_framework(framework) if build.origin == "pip" and not build.accelerator
    ]


def python_of(framework: str) -> str:
    """The version of Python in a framework's newest image; empty where that is not known."""
    base = next((build.base for build in _builds(framework)), "")
    return load_catalogue().bases[base].python if base else ""


def _entry(
    framework: str, pins: dict[str, Pin], installed: Installed, requirements: Requirements, backend: str = ""
) -> Entry | None:
    """The build of the framework whose packages count: of the user's version where the catalogue has it, or the
    newest.

    Args:
        backend: what Keras computes with, as the script says it; any without it.
    """
    builds = _builds(framework)
    matches = [build for build in builds if build.environment.get(_BACKEND) == backend]
    if matches:
        requirements.entry = "" if matches[0] is builds[0] else matches[0].name
        builds = matches
    elif backend:
        requirements.notes.append(f"no build of Keras in the catalogue computes with {backend}, as the script has it")
    if not builds or framework == PYTHON:
        return builds[0] if builds else None
    package = PACKAGES.get(framework, framework)
    pin = pins.get(package)
    exact = (
        next((specifier.version for specifier in pin.requirement.specifier if specifier.operator == "=="), "")
        if pin
        else ""
    )
    version = (exact or installed.version(package)).removesuffix(".*")
    if not version:
        return builds[0]
    wanted_version = ".".join(version.split(".")[:2])
    matching = [build for build in builds if satisfies(build.version, wanted_version)]
    if matching and matching[0] is not builds[0] and matching[0].version.partition("+")[0].startswith(wanted_version):
        requirements.version = wanted_version
        return matching[0]
    if not matching:
        where = pin.source if pin and exact else "installed here"
        newest = ".".join(builds[0].version.split(".")[:2])
        what = f"{package} {version} ({where}) is not in the catalogue: its newest, {newest}, is taken"
        requirements.notes.append(
            f"{what}; modak catalogue add {package}=={version} adds it, where an image's Python has wheels of it"
        )
    return builds[0]


def _build_that_brings(framework: str, code: Code, requirements: Requirements) -> Entry | None:
    """The newest build that brings what a script imports, and that pip would compile in vain beside another one."""
    modules = {imported.name.partition(".")[0] for imported in code.modules.values() if not imported.is_optional}
    entry = next(
        (build for build in load_catalogue().of_framework(framework) if modules.intersection(build.brings)), None
    )
    if entry:
        requirements.entry = entry.name
    return entry


def _in_image(entry: Entry) -> set[str]:
    try:
        return {*map(package_of, lock_of(entry.name).lines if entry.requirements else ()), *entry.brings}
    except ModakError:
        return set()
