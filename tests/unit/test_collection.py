"""The collection modak.hpc: what an archive and a wheel hold of it, and that the playbooks find it beside them."""

from __future__ import annotations

import importlib.util
import re
from fnmatch import fnmatch

import pytest
import yaml
from example_blueprint import ROOT

from modak_ansible.store.project import COLLECTION

GALAXY = yaml.safe_load((ROOT / "galaxy.yml").read_text())
NAMESPACE, NAME = COLLECTION.split(".")
BESIDE = ROOT / "playbooks" / "collections" / "ansible_collections" / NAMESPACE / NAME
ON_TARGETS = {"errors.py", "schedulers", "target"}


def archived(folder):
    """What of a folder of this project goes into the archive."""
    names = (str(path.relative_to(ROOT)) for path in folder.iterdir() if path.name != "__pycache__")
    return {name for name in names if not any(fnmatch(name, pattern) for pattern in GALAXY["build_ignore"])}


def test_it_has_one_name():
    assert (GALAXY["namespace"], GALAXY["name"]) == (NAMESPACE, NAME)


def test_an_archive_holds_what_the_target_needs_and_nothing_else_of_the_package():
    assert archived(ROOT) - {"galaxy.yml", "build", "dist"} == {
        "LICENSE", "README.md", "modak_ansible", "playbooks", "plugins", "roles",
    }  # fmt: skip
    assert archived(ROOT / "modak_ansible") == {f"modak_ansible/{name}" for name in ON_TARGETS}
    names = archived(ROOT / "playbooks")
    assert all(re.fullmatch(r"playbooks/\w+\.yml", name) for name in names)  # as Ansible finds them: modak.hpc.NAME


def test_playbooks_find_it_beside_them():
    for name in ("action", "modules", "module_utils"):
        assert (BESIDE / "plugins" / name).resolve() == ROOT / "plugins" / name
    assert (BESIDE / "roles").resolve() == ROOT / "roles"
    beside = {path.resolve() for path in (ROOT / "playbooks" / "callback_plugins").glob("*.py")}
    assert beside == set((ROOT / "plugins" / "callback").glob("*.py"))


@pytest.fixture(scope="module")
def wheel():
    """Where each file goes that a wheel holds beside the package."""
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    hook = module.CustomBuildHook(str(ROOT), {}, None, None, str(ROOT), "wheel")
    given = {"force_include": {}}
    hook.initialize("standard", given)
    hook.finalize("standard", given, "")
    return given["force_include"]


def test_a_wheel_holds_what_targets_get_where_ansible_looks_for_it(wheel):
    utilities = f"modak_ansible/share/{BESIDE.relative_to(ROOT)}/plugins/module_utils"
    there = {path for name in ON_TARGETS for path in (ROOT / "modak_ansible").glob(f"{name}/**/*.py")}
    for path in {*there, ROOT / "modak_ansible" / "errors.py"}:
        # by its real name, so that hatchling leaves it out of the package
        assert wheel[str(path)] == f"{utilities}/{path.relative_to(ROOT / 'modak_ansible')}"
    assert len(there) > 40


def test_a_wheel_holds_each_plugin_and_each_role_once(wheel):
    sources = [ROOT / source for source in wheel if "/playbooks/" in source]
    held = [path.resolve() for path in sources]
    assert len(held) == len(set(held))
    for folder in ("plugins", "roles"):
        files = {path for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts}
        assert {path for path in files if "module_utils" not in path.parts} <= set(held)


def test_a_wheel_holds_the_records_compressed_and_together(wheel):
    held = {place for place in wheel.values() if "/records/" in place and ".jsonl" in place}
    assert held == {"modak_ansible/share/benchmarks/records/measured.jsonl.xz"}


def test_a_wheel_holds_each_type_once(wheel):
    types = [(ROOT / source).resolve() for source in wheel if "/types/" in source]
    assert sorted(types) == sorted((ROOT / "tosca" / "types").iterdir())
