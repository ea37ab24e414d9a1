"""What this project is installed with is pinned, whole, and what is installed: the part of an audit that needs no network.

``make audit`` asks for known vulnerabilities, too, where it reaches them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from importlib import metadata

import pytest
from locked import check_that_all_is_pinned_by_hashes, pins_in
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

LOCKS = ("modak", "opera", "opera-build", "tools", "docs")


def text_of(root, name):
    return (root / "requirements" / f"{name}.txt").read_text()


@pytest.fixture(scope="module")
def pins(root):
    return pins_in(text_of(root, "modak"))


@pytest.fixture(scope="module")
def own(root):
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    return [Requirement(each) for each in (*project["dependencies"], *project["optional-dependencies"]["test"])]


@pytest.mark.parametrize("name", LOCKS)
def test_every_line_pins_one_release_by_its_hashes(root, name):
    check_that_all_is_pinned_by_hashes(text_of(root, name))


def test_what_make_installs_is_locked(root):
    """pip is started by two lines only, of which one downloads, and wants hashes."""
    lines = [line for line in (root / "Makefile").read_text().splitlines() if "pip install" in line]
    assert len(lines) == 2
    assert all("--require-hashes" in line or "--no-deps -e ." in line for line in lines)
    assert all("--no-build-isolation" in line for line in lines)


def test_what_is_asked_for_is_pinned_within_its_range(own, pins):
    for each in own:
        pinned = pins.get(canonicalize_name(each.name))
        assert pinned, f"{each.name} is not in requirements/modak.txt"
        assert Version(pinned) in each.specifier, f"{each.name}=={pinned} is not {each.specifier}"


def test_all_that_comes_along_is_pinned_and_is_what_is_installed(own, pins):
    for name in set(_closure(own)):
        assert name in pins, f"{name} comes along and is not in requirements/modak.txt"
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
    waiting, known = (
        [(requirement, extra) for requirement in requirements for extra in (requirement.extras or {""})],
        set(),
    )
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
                waiting += [(below, extra) for extra in (below.extras or {""})]
    yield from sorted({name for name, _ in known})
