"""What pip may install for an entry: all that it asks for, pinned, by hashes."""

from __future__ import annotations

import pytest
from locked import check_that_all_is_pinned_by_hashes, pins_in
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from modak_ansible.catalogue import load_catalogue
from modak_ansible.catalogue.locks import FOLDER, TUNER, TUNER_REQUIREMENTS, beside, lock_of
from modak_ansible.errors import ModakError

CATALOGUE = load_catalogue()
INSTALLING = [entry for entry in CATALOGUE.entries if entry.requirements]


def text_of(entry):
    return "\n".join(lock_of(entry.name).lines)


@pytest.mark.parametrize("entry", INSTALLING, ids=lambda entry: entry.name)
def test_an_entry_s_lock_has_what_it_asks_for(entry):
    """In the same build, too: ``torch==2.13.0`` is not the one for processors alone, ``2.13.0+cpu``."""
    pythons = lock_of(entry.name).pythons
    assert CATALOGUE.bases[entry.base].python in pythons
    for python in pythons:
        pins = pins_in(text_of(entry), {"python_version": python})
        for wanted in map(Requirement, entry.requirements):
            pinned = Version(pins[canonicalize_name(wanted.name)])
            assert pinned in wanted.specifier
            assert (pinned.local or "") in str(wanted.specifier)


@pytest.mark.parametrize("entry", INSTALLING, ids=lambda entry: entry.name)
def test_every_line_of_a_lock_pins_one_release_by_its_hashes(entry):
    check_that_all_is_pinned_by_hashes(text_of(entry))


def test_the_tuner_s_lock_has_what_it_asks_for():
    text = "\n".join(lock_of(TUNER).lines)
    check_that_all_is_pinned_by_hashes(text)
    for python in lock_of(TUNER).pythons:
        assert {f"{name}=={version}" for name, version in pins_in(text, {"python_version": python}).items()} >= {
            *TUNER_REQUIREMENTS
        }


@pytest.mark.parametrize("entry", INSTALLING, ids=lambda entry: entry.name)
def test_the_tuner_gets_all_that_it_needs_and_leaves_the_framework_what_it_has(entry):
    for python in set(lock_of(entry.name).pythons) & set(lock_of(TUNER).pythons):
        environment = {"python_version": python}
        needed = pins_in("\n".join(lock_of(TUNER).lines), environment)
        there = pins_in(text_of(entry), environment)
        added = pins_in("\n".join(beside(TUNER, entry.name)), environment)
        assert not set(there) & set(added)
        assert set(needed) <= {*there, *added}


@pytest.mark.parametrize("entry", INSTALLING, ids=lambda entry: entry.name)
def test_whatever_python_an_entry_is_locked_for_the_tuner_is_too(entry):
    """A host without containers may take any of them."""
    if CATALOGUE.bases[entry.base].python in lock_of(TUNER).pythons:
        assert set(lock_of(entry.name).pythons) <= set(lock_of(TUNER).pythons)


def test_what_installs_nothing_has_no_lock():
    assert {path.stem for path in FOLDER.iterdir()} == {TUNER, *(entry.name for entry in INSTALLING)}
    with pytest.raises(ModakError, match="no lock file of the packages that tensorflow-2.1-hub installs"):
        lock_of("tensorflow-2.1-hub")
