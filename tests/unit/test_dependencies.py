"""What this project is installed with is pinned, whole, and what is installed: the part of an audit that needs no network.

``make audit`` asks for known vulnerabilities, too, where it reaches them.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib import metadata

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version


@pytest.fixture(scope="module")
def pins(root):
    lines = (root / "constraints.txt").read_text().split()
    return {canonicalize_name(name): version for name, _, version in (line.partition("==") for line in lines)}


@pytest.fixture(scope="module")
def own(root):
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    return [Requirement(each) for each in (*project["dependencies"], *project["optional-dependencies"]["test"])]


def test_every_line_pins_one_release(root, pins):
    lines = (root / "constraints.txt").read_text().splitlines()
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==\d[A-Za-z0-9.+]*", line) for line in lines)
    assert len(pins) == len(lines), "a name stands there twice"
    assert not [name for name, version in pins.items() if Version(version).is_prerelease]


def test_what_is_asked_for_is_pinned_within_its_range(own, pins):
    for each in own:
        pinned = pins.get(canonicalize_name(each.name))
        assert pinned, f"{each.name} is not in constraints.txt"
        assert Version(pinned) in each.specifier, f"{each.name}=={pinned} is not {each.specifier}"


def test_all_that_comes_along_is_pinned_and_is_what_is_installed(own, pins):
    for name in set(_closure(own)) - {"setuptools"}:  # an environment has its own, up to Python 3.11
        assert name in pins, f"{name} comes along and is not in constraints.txt"
        assert metadata.version(name) == pins[name], f"{name} is installed in another version: make setup"


def test_nothing_comes_from_elsewhere_than_the_index(own):
    assert not [each for each in own if each.url]
    for name in _closure(own):
        assert metadata.distribution(name).read_text("direct_url.json") is None, f"{name} was installed from an address"


def test_what_the_catalogue_installs_is_pinned():
    from modak_ansible.catalogue import load_catalogue

    loose = []
    for entry in load_catalogue().entries:
        for text in entry.requirements:
            requirement = Requirement(text)
            exact = any(each.operator in ("==", "===") and "*" not in each.version for each in requirement.specifier)
            loose += [] if exact or requirement.specifier != SpecifierSet() else [f"{entry.name}: {text}"]
    assert not loose, loose


def _closure(requirements: list[Requirement]) -> Iterator[str]:
    """The names of all that is installed for some requirements, by what the installed packages say of themselves."""
    waiting, known = [(each, extra) for each in requirements for extra in (each.extras or {""})], set()
    while waiting:
        requirement, extra = waiting.pop()
        name = canonicalize_name(requirement.name)
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        if (name, extra) in known:
            continue
        known.add((name, extra))
        for text in metadata.requires(name) or ():
            below = Requirement(text)
            if below.marker is None or any(below.marker.evaluate({"extra": each}) for each in {extra, ""}):
                waiting += [(below, each) for each in (below.extras or {""})]
    yield from sorted({name for name, _ in known})
