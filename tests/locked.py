"""What stands in a lock, in the form of pip's requirements files."""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version


def locked(text: str) -> Iterator[tuple[Requirement, list[str]]]:
    """The requirements in the text of a lock, and their hashes."""
    for line in text.replace("\\\n", "").splitlines():
        if line and not line.startswith("#"):
            words, *hashes = line.split(" --hash=")
            yield Requirement(words), [digest.strip() for digest in hashes]


def pins_in(text: str, environment: dict[str, str] | None = None) -> dict[str, str]:
    """The versions by their names, for the Python that runs or for another one; none stands there twice."""
    requirements = [
        requirement
        for requirement, _ in locked(text)
        if requirement.marker is None or requirement.marker.evaluate(environment)
    ]
    pins = {
        canonicalize_name(requirement.name): next(iter(requirement.specifier)).version for requirement in requirements
    }
    assert len(pins) == len(requirements), "a name stands there twice"
    return pins


def check_that_all_is_pinned_by_hashes(text: str) -> None:
    lines = list(locked(text))
    assert lines
    for requirement, hashes in lines:
        (pin,) = requirement.specifier
        assert pin.operator == "=="
        assert "*" not in pin.version
        assert not Version(pin.version).is_prerelease
        assert hashes and all(re.fullmatch("sha256:[0-9a-f]{64}", digest) for digest in hashes)
