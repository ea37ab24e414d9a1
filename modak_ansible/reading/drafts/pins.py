"""Which packages, in which versions, the files of a project ask for: each kind as its own tool reads it."""

from __future__ import annotations

import ast
import codecs
import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from configparser import ConfigParser, Error
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml
from packaging.markers import Marker
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from modak_ansible.reading.blueprint.forms.text_rules import quote
from modak_ansible.reading.blueprint.script.option import literal
from modak_ansible.reading.blueprint.script.syntax import assigned_in, nodes_of, syntax_of
from modak_ansible.target.core.files import is_file

# conda's names of packages that pip has under others
_OF_CONDA = {"pytorch": "torch", "pytorch-cpu": "torch", "pytorch-gpu": "torch", "tensorflow-base": "tensorflow",
             "opencv": "opencv-python-headless", "py-xgboost": "xgboost", "matplotlib-base": "matplotlib",
             "python-graphviz": "graphviz", "lightning": "lightning"}  # fmt: skip
# What an index has under these names refuses to be built, and says that it is meant to be the other; and builds of one
# release under names of their own.
_STANDS_FOR = {
    "sklearn": "scikit-learn", "pytorch": "torch", "tensorflow-gpu": "tensorflow", "tensorflow-cpu": "tensorflow",
}  # fmt: skip
_CONDA = re.compile(r"(?:[\w.-]+::)?([A-Za-z0-9][\w.-]*)\s*(.*)", re.ASCII)
_LISTED = re.compile(r"([A-Za-z0-9][\w.-]*)\s+v?(\d\S*)", re.ASCII)  # of pip list
_EXPORTED = re.compile(r"[\w.-]+=[^=\s]+=[^=\s]+", re.ASCII)  # of conda list --export
_NUMBERS = re.compile(r"\d+(\.\d+)*", re.ASCII)
_LOCAL = re.compile(r"(==\s*[^\s,;+)]+)\+[\w.]+")  # the part of a version that says who built it: of no index
_PYTHON = re.compile(r"python\s*([<>=!~].*|)")
_MICRO = re.compile(r"==(\d+\.\d+)(\.\d+)?(\.\*)?(?=,|$)")  # of Python, which images have each of
_DEPTH = 5  # files of requirements that name others
_INLINE = re.compile(r"(?m)^# /// script$\s(?P<content>(^#(| .*)$\s)+)^# ///$")  # as PEP 723 has it
# What pixi.lock has of conda, for our targets, and of an index.
_OF_PIXI = re.compile(
    r"(?m)^- (?:conda: \S+/(?:linux-64|noarch)/(?P<conda>\S+)-(?P<of_conda>[^-\s]+)-[^-\s]+"
    r"|pypi: \S+\n  name: (?P<pypi>\S+)\n  version: (?P<of_pypi>\S+))$"
)
_FILES = re.compile(r"\.(whl|zip|tar\.\w+|tgz)$")


@dataclass(frozen=True)
class Pin:
    requirement: Requirement  # as a line of requirements.txt
    source: str  # the file's name
    other: str = ""  # another version that is asked for, which is not taken, and where


@dataclass(frozen=True)
class OutsidePackage:
    """A package that a file has from where no image is built from."""

    said: str  # how the file says it, with its name
    is_here: bool  # a folder or a file of this machine, and no address


@dataclass
class Pins:
    """What the files of a project ask for, by the packages' canonical names."""

    asked: dict[str, Pin] = field(default_factory=dict)
    elsewhere: dict[str, OutsidePackage] = field(default_factory=dict)
    inline: list[str] = field(default_factory=list)  # the names of what the script itself asks for
    optional: set[str] = field(default_factory=set)  # the names of what only groups and extras ask for
    notes: list[str] = field(default_factory=list)  # what is asked for and cannot be followed
    pythons: list[tuple[SpecifierSet, str]] = field(default_factory=list)  # that the project is for, and who says it
    python: str = ""  # of the images, as major.minor; empty for the one of this machine

    def is_met(self, marker: Marker) -> bool:
        """Whether something is asked for in an image, and not on another system, or for another Python."""
        version = {"python_version": self.python, "python_full_version": f"{self.python}.0"} if self.python else {}
        return marker.evaluate({"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix", **version})

    def add(self, line: str, source: str, folder: Path) -> str:
        """Takes what a line of requirements.txt says, and gives the name of the package that it asks for; empty where
        it asks for none."""
        words = line.split(maxsplit=1)
        if "\0" in line:
            self.note(f"{source}: {quote(line)} is not a requirement, and is ignored")
            return ""
        if words[0] in ("-e", "--editable") or line.startswith("--editable="):
            return self._add_elsewhere(line, re.sub(r"^(-e|--editable)[\s=]*", "", line), source, folder)
        if line.startswith("-"):
            if re.match(r"-i\b|-f\b|--(extra-)?index-url|--find-links|--no-index", line):
                where = "the target's file says where packages come from (pip_extra_index_urls, pip_find_links)"
                self.note(f"{source}: {words[0].partition('=')[0]} is not followed: {where}")
            return ""
        try:
            requirement = Requirement(_LOCAL.sub(r"\1", line))
            is_met = not requirement.marker or self.is_met(requirement.marker)
        except InvalidRequirement:
            if "://" in line or line.startswith((".", "/", "~")) or _FILES.search(words[0]):
                return self._add_elsewhere(line, words[0], source, folder)
            self.note(f"{source}: {quote(line)} is not a requirement, and is ignored")
            return ""
        except (ValueError, KeyError):  # markers that need what is not there raise several
            return ""
        name = canonicalize_name(requirement.name)
        if not is_met:
            return ""
        if requirement.url:
            return self._add_elsewhere(line, requirement.url, source, folder, name)
        requirement.marker = None
        if name in _STANDS_FOR:
            name = canonicalize_name(_STANDS_FOR[name])
            requirement.name = name
            requirement.specifier = SpecifierSet() if "==0.0" in str(requirement.specifier) else requirement.specifier
        earlier = self.asked.get(name)
        if earlier is None or (not earlier.requirement.specifier and requirement.specifier):
            self.asked[name] = Pin(requirement, source)
        elif _differ(earlier.requirement.specifier, requirement.specifier):
            self.asked[name] = replace(earlier, other=earlier.other or f"{plain(requirement)} ({source})")
        return name

    def _add_elsewhere(self, line: str, place: str, source: str, folder: Path, name: str = "") -> str:
        is_here = "://" not in place or place.startswith("file:")
        path, _, fragment = place.partition("#")
        last_part = path.rstrip("/").rpartition("/")[2]
        if match := re.search(r"egg=([\w.-]+)", fragment):
            name = canonicalize_name(match.group(1))
        elif not name and _FILES.search(last_part):
            name = canonicalize_name(re.split(r"-\d", last_part, maxsplit=1)[0])
        elif not name and is_here:
            project_folder = (folder / path.partition("[")[0].removeprefix("file:")).resolve()
            name = _name_of(project_folder) or canonicalize_name(project_folder.name)
        name = name or canonicalize_name(last_part.partition("@")[0].removesuffix(".git"))
        self.elsewhere.setdefault(name, OutsidePackage(f"{source}: {quote(line)}", is_here))
        return name

    def note(self, text: str) -> None:
        """Tells something once."""
        if text not in self.notes:
            self.notes.append(text)


def pins_of(folders: list[Path], script: Path | None = None, python: str = "") -> Pins:
    """What a script and the files in some folders ask for.

    What stands in the script goes first, then a lock, then the other kinds in their order; of each kind the file in the
    first of the folders counts. A file that cannot be read asks for nothing, and is told.

    Args:
        python: the version of the images' Python, for which alone something may be asked; this one's without it.
    """
    pins = Pins(python=python)
    files = [(path, reader) for names, reader in _KINDS if (path := _first(folders, names))]
    for path, reader in [(script, _inline), *files] if script else files:
        try:
            lines = list(reader(path, pins))
        except (
            OSError,
            ValueError,
            TypeError,
            AttributeError,
            KeyError,
            RecursionError,
            Error,
            yaml.YAMLError,
        ) as error:
            reason = " ".join(str(error).split())[:100]
            pins.note(f"{path.name} cannot be read, and asks for nothing: {reason}")
            continue
        earlier = {*pins.asked}
        for line in lines:
            source = f"{path.name}, optional" if reader is _optional else path.name
            if (match := _PYTHON.fullmatch(line.lower())) and _is_specifier(match[1]):
                pins.pythons.append((SpecifierSet(_MICRO.sub(r"==\1.*", match[1])), source))
                continue
            name = pins.add(line, source, path.parent) if line.strip() else ""
            if reader is _inline and name:
                pins.inline.append(name)
        if reader is _optional:
            pins.optional = {*pins.asked} - earlier
    return pins


def _first(folders: list[Path], names: tuple[str, ...]) -> Path | None:
    return next((folder / name for folder in folders for name in names if (folder / name).is_file()), None)


def _name_of(folder: Path) -> str:
    """What the project in a folder calls itself; empty where it does not say it."""
    try:
        data = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
        project = data["project"] if "name" in data.get("project", {}) else data["tool"]["poetry"]
        return canonicalize_name(str(project["name"]))
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return ""


def _inline(path: Path, _: Pins) -> Iterator[str]:
    """What stands in a script as uv and pipx read it."""
    match = _INLINE.search(path.read_text(encoding="utf-8", errors="replace").replace("\r\n", "\n") + "\n")
    if match:
        lines = match.group("content").splitlines()
        yield from _texts(tomllib.loads("\n".join(line[2:] for line in lines)).get("dependencies", []))


def _lock(path: Path, pins: Pins) -> Iterator[str]:
    """uv's, Poetry's and PDM's, and that of PEP 751: a table for each package."""
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    for package in data.get("package") or data.get("packages", []):
        if not _is_for_images(package, pins):
            continue
        if place := _own_place(package.get("source", {})):
            yield f"{package['name']} @ {place}"
        elif package.get("version"):
            yield f"{package['name']}=={package['version']}"


def _listed(value: Any) -> list[Any]:
    """
    Raises:
        TypeError: it is no list: of a text each letter would be asked for.
    """
    if not isinstance(value, list):
        raise TypeError(f"{quote(str(value))} is no list")
    return value


def _texts(value: Any) -> list[str]:
    """
    Raises:
        TypeError: it is no list of texts.
    """
    items = _listed(value)
    if odd := [item for item in items if not isinstance(item, str)]:
        raise TypeError(f"{quote(str(odd[0]))} is no text")
    return items


def _is_for_images(package: Mapping[str, Any], pins: Pins) -> bool:
    """Whether one of a lock's versions of a package is that of the images; it is where nobody can tell."""
    value = package.get("resolution-markers") or package.get("markers") or []
    markers = value if isinstance(value, list) else [*value.values()] if isinstance(value, dict) else [value]
    try:
        return not markers or any(pins.is_met(Marker(marker)) for marker in markers)
    except (ValueError, KeyError):  # of an extra, or of what is no marker
        return True


def _own_place(source: Mapping[str, Any]) -> str:
    """Where uv's or Poetry's words for a source have a package from, as an address; empty for an index."""
    for name in ("editable", "virtual", "directory", "path"):
        if isinstance(source.get(name), str):  # editable may be true, beside a path
            return f"file:{source[name]}"
    if source.get("workspace"):
        return "file:workspace"
    if "type" in source:  # as Poetry's lock says it, whose "legacy" is an index
        prefix = {"git": "git+", "url": "", "file": "file:", "directory": "file:"}.get(source["type"])
        return "" if prefix is None else f"{prefix}{source['url']}"
    return f"git+{source['git']}" if source.get("git") else str(source.get("url") or "")


def _decoded(content: bytes) -> str:
    """As pip reads it: by its byte order mark, such as PowerShell writes one; else as UTF-8."""
    marks = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
    encoding = next((name for mark, name in marks.items() if content.startswith(mark)), "utf-8")
    return content.decode(encoding, errors="replace")


def _requirements(path: Path, pins: Pins, depth: int = 0) -> Iterator[str]:
    text = re.sub(r"\\\r?\n", " ", _decoded(path.read_bytes()))
    return _required(text.splitlines(), path, pins, depth)


def _required(lines: Iterable[str], path: Path, pins: Pins, depth: int = 0) -> Iterator[str]:
    """The lines of requirements.txt, or of pip's among those of conda, with those of the files that they name."""
    for raw in lines:
        line = re.split(r"(?:^|\s)#|^Package\s+Version\b", raw, maxsplit=1)[0].strip()
        if include := re.match(r"(?:-r|--requirement|-c|--constraint)[\s=]*(\S+)", line):
            other_file = path.parent / include[1]
            if "://" in include[1] or not is_file(other_file):
                why = "is an address, and not read" if "://" in include[1] else "is not there"
                pins.note(f"{path.name} names {include[1]}, which {why}")
            elif depth < _DEPTH:
                yield from _requirements(other_file, pins, depth + 1)
        elif _EXPORTED.fullmatch(line):
            yield _of_conda(line)
        elif listing := _LISTED.fullmatch(line):
            yield f"{listing[1]}=={listing[2]}"
        else:
            yield line if line.startswith("-") else re.split(r"\s--\w", line, maxsplit=1)[0].strip()


def _conda(path: Path, pins: Pins) -> Iterator[str]:
    for dependency in _listed(yaml.safe_load(path.read_text(encoding="utf-8"))["dependencies"]):
        if isinstance(dependency, dict):
            yield from _required(map(str, _listed(dependency.get("pip") or [])), path, pins)
            continue
        yield _of_conda(str(dependency))


def _of_conda(dependency: str) -> str:
    """What conda's words for a package are as a line of requirements.txt."""
    match = _CONDA.fullmatch(dependency.strip())
    name, words = (match[1].lower(), match[2].split()) if match else ("python", [])
    version = words[0] if words else ""
    if version.startswith("=") and not version.startswith("=="):
        version = f"=={version[1:]}" + ("" if len(words) > 1 or version.count("=") > 1 else ".*")
    if version[:1].isdigit():  # with a space before it
        version = f"=={version}"
    version = re.sub(r"(?<=\d)\*", ".*", version).replace(".*.*", ".*")
    if version.startswith("==") and "=" in version[2:]:  # a build behind the version
        version = version.rpartition("=")[0].removesuffix(".*")
    return f"{_OF_CONDA.get(name, name)}{version if _is_specifier(version) else ''}"


def _pyproject(path: Path, pins: Pins) -> Iterator[str]:
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    if name := _name_of(path.parent):
        pins.elsewhere.setdefault(name, OutsidePackage(f"{path.name}: it is the project itself", is_here=True))
    yield f"python{data.get('project', {}).get('requires-python', '')}"
    yield from _texts(data.get("project", {}).get("dependencies", []))
    tools = data.get("tool", {})
    sources = tools.get("uv", {}).get("sources", {}) | tools.get("poetry", {}).get("dependencies", {})
    for name, value in sources.items():
        if isinstance(value, dict) and (place := _own_place(value)):
            yield f"{name} @ {place}"
    yield from _pixi(tools.get("pixi", {}))
    yield from _poetry(tools.get("poetry", {}))
    files = tools.get("setuptools", {}).get("dynamic", {}).get("dependencies", {}).get("file", [])
    yield from _required((f"-r {file}" for file in ([files] if isinstance(files, str) else files)), path, pins)


def _optional(path: Path, _: Pins) -> Iterator[str]:
    """What pyproject.toml asks for in groups and extras, which people install some of."""
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    tools = data.get("tool", {})
    groups = [*data.get("project", {}).get("optional-dependencies", {}).values()]
    groups += [*data.get("dependency-groups", {}).values(), *tools.get("pdm", {}).get("dev-dependencies", {}).values()]
    groups += [environment.get("dependencies", []) for environment in tools.get("hatch", {}).get("envs", {}).values()]
    yield from (line for group in groups for line in _listed(group) if isinstance(line, str))  # a table names a group
    for group in tools.get("poetry", {}).get("group", {}).values():
        yield from _poetry(group)


def _poetry(data: Mapping[str, Any]) -> Iterator[str]:
    for name, value in data.get("dependencies", {}).items():
        version = value.get("version", "") if isinstance(value, dict) else value
        if isinstance(value, dict) and _own_place(value):
            continue
        if isinstance(version, str):
            yield f"{name}{_of_poetry(version)}"


def _pixi_toml(path: Path, _: Pins) -> Iterator[str]:
    yield from _pixi(tomllib.loads(path.read_text(encoding="utf-8")))


def _pixi_lock(path: Path, _: Pins) -> Iterator[str]:
    for match in _OF_PIXI.finditer(path.read_text(encoding="utf-8")):  # of YAML by the megabyte
        if name := match["conda"]:
            yield _of_conda(f"{name}=={match['of_conda']}")
        else:
            yield f"{match['pypi']}=={match['of_pypi']}"


def _pixi(data: Mapping[str, Any]) -> Iterator[str]:
    """What pixi has of conda's, and of an index."""
    yield from _from_table(data.get("dependencies", {}), _of_conda)
    yield from _from_table(data.get("pypi-dependencies", {}))
    for feature in data.get("feature", {}).values():
        yield from _pixi(feature)


def _from_table(table: Mapping[str, Any], convert: Callable[[str], str] = str) -> Iterator[str]:
    """Of a table with a version, or more words, for each package."""
    for name, value in table.items():
        fields = value if isinstance(value, dict) else {"version": value}
        version = str(fields.get("version", "*"))
        version = f"=={version}" if version[:1].isdigit() else version.replace("*", "", version == "*")
        place = _own_place(fields)
        yield convert(f"{name} @ {place}" if place else f"{name} {version}")


def _pipfile(path: Path, _: Pins) -> Iterator[str]:
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    yield from _from_table({"python": data.get("requires", {}).get("python_version", "*"), **data.get("packages", {})})


def _pipfile_lock(path: Path, _: Pins) -> Iterator[str]:
    return _from_table(json.loads(path.read_text(encoding="utf-8")).get("default", {}))


def _setup_cfg(path: Path, _: Pins) -> Iterator[str]:
    parser = ConfigParser(interpolation=None)
    parser.read(path, encoding="utf-8")
    yield from parser.get("options", "install_requires", fallback="").splitlines()


def _setup_py(path: Path, _: Pins) -> Iterator[str]:
    """The list that a setup.py spells out, where it is needed or under a name."""
    nodes = nodes_of(tree) if (tree := syntax_of(path)) else ()
    lists = assigned_in(nodes)
    for node in nodes:
        if isinstance(node, ast.keyword) and node.arg == "install_requires":
            value = lists.get(node.value.id) if isinstance(node.value, ast.Name) else node.value
            texts = (literal(element) for element in (value.elts if isinstance(value, ast.List | ast.Tuple) else ()))
            yield from (text for text in texts if isinstance(text, str))


def _of_poetry(version: str) -> str:
    """Poetry's ^1.2 and ~1.2 as pip has them; nothing for what is no version."""
    version = version.strip()
    numbers = version.lstrip("^~")
    if version[:1] in ("^", "~") and _NUMBERS.fullmatch(numbers):
        parts = [int(part) for part in numbers.split(".")]
        kept = next((number for number, part in enumerate(parts) if part), len(parts) - 1) if version[0] == "^" else 0
        kept = min(1, len(parts) - 1) if version[0] == "~" else kept
        above = [*parts[:kept], parts[kept] + 1]
        return f">={numbers},<{'.'.join(map(str, above))}"
    if _NUMBERS.fullmatch(version):
        return f"=={version}"
    return version if _is_specifier(version) else ""


def _differ(one: SpecifierSet, other: SpecifierSet) -> bool:
    """Whether no version is both, as far as one of them names a single one."""
    versions = [
        spec.version for specs in (one, other) for spec in specs if spec.operator == "==" and "*" not in spec.version
    ]
    return any(not specs.contains(version, prereleases=True) for specs in (one, other) for version in versions)


def _is_specifier(text: str) -> bool:
    try:
        SpecifierSet(text)
    except InvalidSpecifier:
        return False
    return True


_KINDS: tuple[tuple[tuple[str, ...], Callable[[Path, Pins], Iterator[str]]], ...] = (
    (("uv.lock", "poetry.lock", "pdm.lock", "pylock.toml"), _lock),
    (("pixi.lock",), _pixi_lock),
    (("Pipfile.lock",), _pipfile_lock),
    (("requirements.txt",), _requirements),
    (("environment.yml", "environment.yaml"), _conda),
    (("pixi.toml",), _pixi_toml),
    (("Pipfile",), _pipfile),
    (
        (".python-version",),
        lambda path, _: (f"python=={line}" for line in path.read_text(encoding="utf-8").split()[:1]),
    ),
    (("pyproject.toml",), _pyproject),
    (("setup.cfg",), _setup_cfg),
    (("setup.py",), _setup_py),
    (("pyproject.toml",), _optional),
)


def plain(data: Any) -> str:
    """A requirement as one line, as people write it."""
    requirement: Requirement = data
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    return f"{requirement.name}{extras}{requirement.specifier}"
