"""What pip may install for an entry of the catalogue: every package in one version, with the SHA-256 of its files."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

from modak_ansible.errors import ModakError

FOLDER = Path(__file__).parent / "locks"


class Lock(NamedTuple):
    """What is known of the packages of an entry.

    Attributes:
        pythons: the versions of Python for whose wheels the hashes are known, as major.minor.
        lines: in the form of pip's requirements files, one for each package.
    """

    pythons: tuple[str, ...]
    lines: tuple[str, ...]


@cache
def lock_of(name: str) -> Lock:
    """The lock of an entry, by its name.

    Raises:
        ModakError: nobody has locked it.
    """
    path = FOLDER / f"{name}.txt"
    if not path.exists():
        raise ModakError(f"the catalogue has no lock of what {name} installs", hint="make lock")
    first, *lines = path.read_text(encoding="utf-8").splitlines()
    return Lock(tuple(first.partition("Python ")[2].split()), tuple(lines))
