"""Packed modules go from run to run, and nothing that stands in the way keeps a run from packing its own."""

from __future__ import annotations

import os
import time

import pytest
from ansible import constants
from example_blueprint import ROOT

from modak_ansible.stages import packing

MODULES = ROOT / "plugins" / "modules"
PACKED_AS = "ansible_collections.modak.hpc.plugins.modules"


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """A run of Ansible whose folder is new: what it found packed, after it packed what it did not find."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(
        packing.module_loader, "find_plugin", lambda name: str(MODULES / "modak_job.py")
    )  # no playbook runs

    def run(name, content=b"packed"):
        ours = tmp_path / f"run-{time.monotonic_ns()}"
        ours.mkdir()
        monkeypatch.setattr(constants, "DEFAULT_LOCAL_TMP", str(ours))
        with packing.packed_module(name):
            folder = ours / "ansiballz_cache"
            folder.mkdir(exist_ok=True)  # as Ansible does
            place = folder / f"{PACKED_AS}.{name}-ZIP_DEFLATED-none"
            found = place.read_bytes() if place.exists() else None
            if found is None:
                place.with_name(f"{place.name}.lock").touch()
                place.write_bytes(content)
        return found

    return run


def kept(tmp_path):
    return sorted(path.name for path in (tmp_path / "cache/modak/modules").glob("*/*"))


def test_a_module_is_packed_once(runs, tmp_path):
    assert [runs("modak_job"), runs("modak_job"), runs("modak_job")] == [None, b"packed", b"packed"]
    assert [name.partition("_")[2] for name in kept(tmp_path)] == [f"{PACKED_AS}.modak_job-ZIP_DEFLATED-none"]


def test_one_that_was_damaged_is_packed_anew(runs, tmp_path):
    runs("modak_job")
    (file,) = (tmp_path / "cache/modak/modules").glob("*/*")
    file.write_bytes(b"pack")
    assert runs("modak_job", b"packed again") is None
    assert runs("modak_job") == b"packed again"


def test_one_name_that_begins_like_another_is_another(runs):
    assert runs("modak_probe") is None
    assert runs("modak_job") is None


def test_other_sources_are_packed_anew(runs, monkeypatch):
    runs("modak_job", b"old")
    monkeypatch.setattr(packing, "ansible_version", "99")
    assert runs("modak_job", b"new") is None
    assert runs("modak_job") == b"new"


def test_a_module_that_was_brought_from_elsewhere_is_another(runs, tmp_path, monkeypatch):
    """opera brings those of a package, which may be of another version than what is installed."""
    runs("modak_job", b"installed")
    brought = tmp_path / "opera" / "plugins" / "modules" / "modak_job.py"
    brought.parent.mkdir(parents=True)
    brought.write_text("version = 1\n")
    monkeypatch.setattr(packing.module_loader, "find_plugin", lambda name: str(brought))
    assert runs("modak_job", b"brought") is None
    assert runs("modak_job") == b"brought"
    brought.write_text("version = 2\n")
    assert runs("modak_job", b"newer") is None
    monkeypatch.setattr(packing.module_loader, "find_plugin", lambda name: str(MODULES / "modak_job.py"))
    assert runs("modak_job") == b"installed"


def test_what_nobody_used_for_long_goes(runs, tmp_path, monkeypatch):
    runs("modak_job")
    (old,) = (tmp_path / "cache/modak/modules").iterdir()
    os.utime(old, (0, 0))
    monkeypatch.setattr(packing, "ansible_version", "99")
    runs("modak_job")
    assert not old.exists()


def test_what_others_may_write_is_not_taken(runs, tmp_path):
    runs("modak_job", b"ours")
    (folder,) = (tmp_path / "cache/modak/modules").iterdir()
    folder.chmod(0o770)
    assert runs("modak_job", b"new") is None
    folder.chmod(0o700)
    assert runs("modak_job") == b"ours"


def test_a_run_goes_on_where_nothing_can_be_kept(runs, tmp_path):
    (tmp_path / "cache").write_text("no folder")
    assert [runs("modak_job"), runs("modak_job")] == [None, None]


def test_a_failure_of_the_module_is_its_own(runs, tmp_path, monkeypatch):
    monkeypatch.setattr(constants, "DEFAULT_LOCAL_TMP", str(tmp_path))
    with pytest.raises(RuntimeError, match="broke"), packing.packed_module("modak_job"):
        raise RuntimeError("it broke")
    assert kept(tmp_path) == []
