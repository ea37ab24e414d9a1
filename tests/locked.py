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
            yield Requirement(words), [each.strip() for each in hashes]


def pins_in(text: str, environment: dict[str, str] | None = None) -> dict[str, str]:
    """The versions by their names, for the Python that runs or for another one; none stands there twice."""
    there = [each for each, _ in locked(text) if each.marker is None or each.marker.evaluate(environment)]
    pins = {canonicalize_name(each.name): next(iter(each.specifier)).version for each in there}
    assert len(pins) == len(there), "a name stands there twice"
    return pins


def check_that_all_is_pinned_by_hashes(text: str) -> None:
    lines = list(locked(text))
    assert lines
    for each, hashes in lines:
        (pin,) = each.specifier
        assert pin.operator == "=="
        assert "*" not in pin.version
        assert not Version(pin.version).is_prerelease
        assert hashes and all(re.fullmatch("sha256:[0-9a-f]{64}", digest) for digest in hashes)
