"""Which packages, in which versions, the files of a project ask for: each kind as its own tool reads it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

# conda's names of packages that pip has under others
_OF_CONDA = {"pytorch": "torch", "pytorch-cpu": "torch", "pytorch-gpu": "torch", "tensorflow-base": "tensorflow",
             "opencv": "opencv-python-headless", "py-xgboost": "xgboost", "matplotlib-base": "matplotlib",
             "python-graphviz": "graphviz", "lightning": "lightning"}  # fmt: skip
_CONDA = re.compile(r"(?:[\w.-]+::)?([A-Za-z0-9][\w.-]*)\s*(.*)", re.ASCII)
_NUMBERS = re.compile(r"\d+(\.\d+)*", re.ASCII)
_DEPTH = 5  # files of requirements that name others


@dataclass(frozen=True)
class Pin:
    requirement: Requirement  # as a line of requirements.txt
    source: str  # the file's name


def pins_of(folders: list[Path]) -> dict[str, Pin]:
    """What the files in some folders ask for, by the packages' canonical names.

    A lock goes before requirements.txt, that before conda's environment.yml, and that before pyproject.toml; of each
    kind the file in the first of the folders counts. A file that cannot be read asks for nothing.
    """
    found: dict[str, Pin] = {}
    for names, read in _KINDS:
        path = next((folder / name for folder in folders for name in names if (folder / name).is_file()), None)
        if path is None:
            continue
        try:
            lines = list(read(path))
        except (OSError, ValueError, TypeError, AttributeError, KeyError, yaml.YAMLError):
            continue
        for line in lines:
            pin = _pin(line, path.name)
            name = canonicalize_name(pin.requirement.name) if pin else ""
            known = found.get(name)
            if pin and (known is None or (not known.requirement.specifier and pin.requirement.specifier)):
                found[name] = pin
    return found


def _pin(line: str, source: str) -> Pin | None:
    """A requirement without an address and a marker that is met; None for what is none."""
    try:
        requirement = Requirement(line)
        if requirement.url or (requirement.marker and not requirement.marker.evaluate()):
            return None
    except (InvalidRequirement, ValueError, KeyError):  # markers that need what is not there raise several
        return None
    requirement.marker = None
    return Pin(requirement, source)


def _lock(path: Path) -> Iterator[str]:
    """uv's and Poetry's: a table for each package."""
    for package in tomllib.loads(path.read_text(encoding="utf-8")).get("package", []):
        source = package.get("source", {})
        if package.get("version") and not {"editable", "virtual", "directory", "path"} & set(source):
            yield f"{package['name']}=={_public(str(package['version']))}"


def _requirements(path: Path, depth: int = 0) -> Iterator[str]:
    text = re.sub(r"\\\r?\n", " ", path.read_text(encoding="utf-8", errors="replace"))
    for raw in text.splitlines():
        line = re.split(r"(?:^|\s)#", raw, maxsplit=1)[0].strip()
        if include := re.match(r"(?:-r|--requirement)[\s=]*(\S+)", line):
            other = path.parent / include.group(1)
            if depth < _DEPTH and other.is_file():
                yield from _requirements(other, depth + 1)
        elif line and not line.startswith("-"):
            yield re.split(r"\s--\w", line, maxsplit=1)[0].strip()


def _conda(path: Path) -> Iterator[str]:
    for dependency in yaml.safe_load(path.read_text(encoding="utf-8"))["dependencies"]:
        if isinstance(dependency, dict):
            yield from map(str, dependency.get("pip") or [])
            continue
        matched = _CONDA.fullmatch(str(dependency).strip())
        if not matched:
            continue
        name, words = matched.group(1).lower(), matched.group(2).split()
        version = words[0] if words else ""
        if version.startswith("=") and not version.startswith("=="):
            version = f"=={version[1:]}" + ("" if len(words) > 1 or version.count("=") > 1 else ".*")
        version = version.replace(".*.*", ".*")
        if version.startswith("==") and "=" in version[2:]:  # a build behind the version
            version = version.rpartition("=")[0].removesuffix(".*")
        if name != "python":
            yield f"{_OF_CONDA.get(name, name)}{version if _is_specifier(version) else ''}"


def _pyproject(path: Path) -> Iterator[str]:
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    yield from data.get("project", {}).get("dependencies", [])
    for name, value in data.get("tool", {}).get("poetry", {}).get("dependencies", {}).items():
        version = value.get("version", "") if isinstance(value, dict) else value
        if name.lower() != "python" and isinstance(version, str):
            yield f"{name}{_of_poetry(version)}"


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


def _is_specifier(text: str) -> bool:
    try:
        SpecifierSet(text)
    except InvalidSpecifier:
        return False
    return True


def _public(version: str) -> str:
    """A version without the label of whoever built it."""
    return version.partition("+")[0]


_KINDS: tuple[tuple[tuple[str, ...], Callable[[Path], Iterator[str]]], ...] = (
    (("uv.lock", "poetry.lock"), _lock),
    (("requirements.txt",), _requirements),
    (("environment.yml", "environment.yaml"), _conda),
    (("pyproject.toml",), _pyproject),
)


def plain(data: Any) -> str:
    """A requirement as one line, as people write it."""
    requirement: Requirement = data
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    return f"{requirement.name}{extras}{requirement.specifier}"
