"""What pip may install for an entry of the catalogue: every package in one version, with the SHA-256 of its files."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from modak_ansible.errors import ModakError
from modak_ansible.store.configuration import own_entries

if TYPE_CHECKING:
    from packaging.requirements import Requirement

    from modak_ansible.catalogue.entry import Entry

FOLDER = Path(__file__).parent / "locks"
SUFFIX = ".txt"
# What a tuner needs in the image, in the release that the tests have, and the name of its lock.
TUNER = "optuna"
TUNER_REQUIREMENTS = ("optuna==5.0.0",)
# What a build that is Python alone takes of a host.
_MAINTAINED = ("3.10", "3.11", "3.12", "3.13", "3.14")


class PackageLock(NamedTuple):
    """What is known of the packages of an entry."""

    pythons: tuple[str, ...]  # the versions of Python for whose wheels the hashes are known, as major.minor
    lines: tuple[str, ...]  # in the form of pip's requirements files, one for each package


def lock_of(name: str) -> PackageLock:
    """The lock of an entry, by its name: beside the file of one that does not ship.

    Raises:
        ModakError: nobody has locked it.
    """
    own = own_entries().get(name)
    path = own.with_suffix(SUFFIX) if own else FOLDER / f"{name}{SUFFIX}"
    try:
        return _read(path, path.stat().st_mtime_ns)
    except FileNotFoundError:
        hint = f"modak catalogue add {own} --replace" if own else "make lock"
        raise ModakError(f"the catalogue has no lock file of the packages that {name} installs", hint=hint) from None


@cache
def _read(path: Path, _changed: int) -> PackageLock:
    first, *lines = path.read_text(encoding="utf-8").splitlines()
    return PackageLock(tuple(first.partition("Python ")[2].split()), tuple(lines))


def pythons_of(entry: Entry) -> tuple[str, ...]:
    """The versions of Python, as major.minor, with which a host without containers can have an entry.

    Raises:
        ModakError: nobody has locked it.
    """
    return lock_of(entry.name).pythons if entry.requirements else _MAINTAINED


def beside(name: str, entry: str) -> tuple[str, ...]:
    """The lines of a lock that name no package of an entry's: what both need, the framework brings in its own release.

    Raises:
        ModakError: nobody has locked one of them.
    """
    return without(name, map(package_of, lock_of(entry).lines))


def without(name: str, packages: Iterable[str]) -> tuple[str, ...]:
    """The lines of a lock that name none of some packages, whatever way these are written in.

    Raises:
        ModakError: nobody has locked it.
    """
    from packaging.utils import canonicalize_name  # noqa: PLC0415 - packaging is slow to import, and few ask for packages

    names = set(map(canonicalize_name, packages))
    return tuple(line for line in lock_of(name).lines if package_of(line) not in names)


def package_of(line: str) -> str:
    """The package that a line of requirements.txt names."""
    from packaging.utils import canonicalize_name  # noqa: PLC0415 - packaging is slow to import, and few ask for packages

    return canonicalize_name(_requirement(line).name)


def pin_of(line: str) -> str:
    """A line of requirements.txt as a constraint, which has neither hashes nor extras."""
    requirement = _requirement(line)
    return f"{requirement.name}{requirement.specifier}" + (f" ; {requirement.marker}" if requirement.marker else "")


def _requirement(line: str) -> Requirement:
    from packaging.requirements import Requirement  # noqa: PLC0415 - packaging is slow to import, and few ask for packages

    return Requirement(line.partition(" --hash=")[0])
