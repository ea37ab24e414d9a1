"""Whether a user's packages go with a build of the catalogue: its own versions, and what was made for them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from modak_ansible.catalogue.entry import Entry, satisfies
from modak_ansible.catalogue.locks import lock_of

_FILE = Path(__file__).with_name("companions.yaml")
# The package of a framework whose name is another.
PACKAGES = {"pytorch": "torch"}


@dataclass(frozen=True)
class _Family:
    """One framework's package as an entry has it, and what belongs to it: see companions.yaml."""

    first: str
    package: str
    version: str
    rivals: tuple[str, ...]
    companions: dict[str, str]
    tries: dict[str, str]


@dataclass(frozen=True)
class Collision:
    """Why a requirement does not go with an entry, and what to do."""

    message: str
    hint: str


def constraints_of(entry: Entry) -> tuple[str, ...]:
    """What pip has to keep to besides the versions that are installed: companions in their release, and none of what
    would take the framework's place."""
    constraints: list[str] = []
    for family in _families(entry):
        constraints += [f"{name}=={release}" if release else f"{name}<0" for name, release in family.companions.items()]
        constraints += [f"{name}<0" for name in family.rivals if name not in family.companions]
    return tuple(constraints)


def aliases_of(entry: Entry) -> dict[str, str]:
    """The first name of a framework whose package has another one, and its version: tensorflow of tensorflow-cpu."""
    return {family.first: family.version for family in _families(entry) if family.package != family.first}


def tries_of(entry: Entry) -> dict[str, str]:
    """Python that runs an operator of a companion, by the companion's name."""
    return {name: code for family in _families(entry) for name, code in family.tries.items()}


def collision(entry: Entry, line: str, python: str) -> Collision | None:
    """What is known, before anything is built, against a requirement.

    Args:
        python: the version of the entry's Python, as major.minor; empty where nobody knows it, and what depends on it
            is not judged.
    """
    requirement = Requirement(line.partition(" --hash=")[0])
    name = canonicalize_name(requirement.name)
    if requirement.marker and not (python and requirement.marker.evaluate(_environment(python))):
        return None
    families = _families(entry)
    versions = {**{family.first: family.version for family in families}, **_versions(entry)}
    if name in versions:
        if requirement.specifier.contains(Version(versions[name]), prereleases=True):
            return None
        message = f"{requirement} is asked for, and {entry.name} has {name} {versions[name]}"
        return Collision(message, f"leave {name} out, or take another build: modak catalogue lists them")
    for family in families:
        present = f"{family.package} {family.version}"
        if name in family.rivals:
            message = f"{name} would replace {present}, which {entry.name} has"
            return Collision(message, "leave it out")
        release = family.companions.get(name)
        if release == "":
            message = f"{name} has no release for {present}, which {entry.name} has"
            return Collision(message, "leave it out, or ask for another version of the framework")
        if release and not requirement.specifier.contains(Version(release), prereleases=True):
            message = f"{requirement} is asked for, and {present} of {entry.name} needs {name} {release}"
            return Collision(message, f"write {name} alone, or ask for another version of the framework")
    return None


def _environment(python: str) -> dict[str, str]:
    return {
        "python_version": python, "python_full_version": f"{python}.0", "implementation_name": "cpython",
        "platform_python_implementation": "CPython", "os_name": "posix", "sys_platform": "linux",
        "platform_system": "Linux", "platform_machine": "x86_64", "extra": "",
    }  # fmt: skip


@cache
def _data() -> dict[str, dict[str, Any]]:
    families: dict[str, dict[str, Any]] = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
    return families


def _versions(entry: Entry) -> dict[str, str]:
    if entry.source:
        return {PACKAGES.get(entry.framework, entry.framework): entry.version}
    versions: dict[str, str] = {}
    for line in lock_of(entry.name).lines if entry.requirements else ():
        requirement = Requirement(line.partition(" --hash=")[0])
        versions[canonicalize_name(requirement.name)] = next(iter(requirement.specifier)).version
    return versions


def _families(entry: Entry) -> list[_Family]:
    versions, families = _versions(entry), []
    for first, description in _data().items():
        names = [first, *description.get("also", ())]
        package = next((name for name in names if name in versions), "")
        if not package:
            continue
        version = versions[package]
        label = f"+{local}" if (local := Version(version).local) else ""
        made_for = {
            name: next((companion for parts, companion in releases.items() if satisfies(version, parts)), None)
            for name, releases in description.get("companions", {}).items()
        }
        is_known = any(companion is not None for companion in made_for.values())
        companions = {
            name: f"{companion}{label}" if companion else "" for name, companion in made_for.items() if is_known
        }
        rivals = tuple(name for name in names if name not in (package, first))
        families.append(_Family(first, package, version, rivals, companions, description.get("tries", {})))
    return families
