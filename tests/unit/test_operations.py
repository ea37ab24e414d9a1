"""The operations of our TOSCA types name all that their playbooks need: opera brings nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml_files

from modak_ansible.store.project import shipped

TYPES = shipped("tosca") / "types"
COLLECTION = shipped("playbooks") / "collections/ansible_collections/modak/hpc"
# Beside the types in a blueprint's folder lies a link to the playbooks.
BLUEPRINT = next((shipped("tosca") / "blueprints").iterdir())


def implementations(value, name=""):
    """Every implementation below a value, by the name of its operation."""
    if isinstance(value, dict):
        for key, each in value.items():
            if key == "implementation" and isinstance(each, dict):
                yield name, each
            yield from implementations(each, key)
    elif isinstance(value, list):
        for each in value:
            yield from implementations(each, name)


FOUND = [
    pytest.param(implementation, id=f"{file.stem}-{name}-{Path(implementation['primary']).stem}")
    for file in sorted(TYPES.glob("*.yaml"))
    for name, implementation in implementations(yaml_files.read(file))
]


def needed(playbook):
    """The roles and the other playbooks that a playbook needs."""
    for play in yaml_files.read(playbook):
        if "ansible.builtin.import_playbook" in play:
            other = playbook.parent / play["ansible.builtin.import_playbook"]
            yield from (other, *needed(other))
        for role in play.get("roles", ()):
            yield COLLECTION / "roles" / role["role"].removeprefix("modak.hpc.")


def place(text):
    return (BLUEPRINT / text.removeprefix("../")).resolve()


@pytest.mark.parametrize("implementation", FOUND)
def test_an_operation_brings_what_its_playbook_needs(implementation):
    brought = {place(dependency) for dependency in implementation["dependencies"]}
    assert all(each.exists() for each in brought)
    # opera takes no link for a dependency, but follows those in it
    assert not any(
        (BLUEPRINT / dependency.removeprefix("../")).is_symlink() for dependency in implementation["dependencies"]
    )
    (collections,) = (each for each in brought if each.name == "collections")
    assert COLLECTION.is_relative_to(collections)
    for each in needed(place(implementation["primary"])):
        assert each.exists()
        assert each.is_relative_to(collections) or each in brought


def test_there_are_operations():
    assert len(FOUND) > 4
