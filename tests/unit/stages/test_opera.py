"""Finding out which blueprint opera deploys."""

import json
import os

import pytest

from modak_ansible.errors import ModakError
from modak_ansible.stages.opera import find_opera_deployment, is_run_by_opera, read_opera_storage


def make_storage(folder, inputs):
    folder.mkdir(parents=True)
    (folder / "root_file").write_text("service.yaml")
    (folder / "inputs").write_text(json.dumps(inputs))


def make_process(proc, pid, parent, arguments, cwd):
    (proc / str(pid)).mkdir(parents=True)
    (proc / str(pid) / "cmdline").write_bytes("\0".join(arguments).encode() + b"\0")
    (proc / str(pid) / "stat").write_text(f"{pid} (a (b) c) S {parent} 1 1")
    (proc / str(pid) / "cwd").symlink_to(cwd)


@pytest.mark.parametrize(
    ("options", "storage"),
    [
        ([], ".opera"),
        (["-p", "store"], "store"),
        (["--instance-path", "store"], "store"),
        (["--instance-path=store"], "store"),
    ],
)
def test_an_ancestor_is_opera(tmp_path, monkeypatch, options, storage):
    make_storage(tmp_path / "here" / storage, {"epochs": 2})
    parent = 4711
    monkeypatch.setattr(os, "getppid", lambda: parent)
    arguments = ["/venv/bin/python", "/venv/bin/opera", "deploy", *options, "service.yaml"]
    make_process(tmp_path / "proc", parent, 77, ["ansible-playbook", "x.yml"], tmp_path)
    make_process(tmp_path / "proc", 77, 1, arguments, tmp_path / "here")
    found = find_opera_deployment(tmp_path / "proc")
    assert (found.blueprint, found.inputs) == (tmp_path / "here" / "service.yaml", {"epochs": 2})


def test_no_opera(tmp_path):
    make_process(tmp_path / "proc", os.getppid(), 1, ["bash"], tmp_path)
    with pytest.raises(ModakError, match="opera does not run it"):
        find_opera_deployment(tmp_path / "proc")


def test_processes_of_others_are_hidden(tmp_path, monkeypatch):
    """As where /proc is mounted with hidepid=2, of the login that a shell came from."""
    monkeypatch.setattr(os, "getppid", lambda: 4711)
    make_process(tmp_path / "proc", 4711, 77, ["bash"], tmp_path)
    with pytest.raises(ModakError, match="opera does not run it"):
        find_opera_deployment(tmp_path / "proc")


def test_a_damaged_storage(tmp_path):
    make_storage(tmp_path / ".opera", {})
    (tmp_path / ".opera" / "inputs").write_text("{")
    with pytest.raises(ModakError, match="cannot be read"):
        read_opera_storage(tmp_path, ".opera")


def test_opera_is_known_by_its_callback(monkeypatch):
    monkeypatch.delenv("ANSIBLE_STDOUT_CALLBACK", raising=False)
    assert not is_run_by_opera()
    monkeypatch.setenv("ANSIBLE_STDOUT_CALLBACK", "json_ansible_callback")
    assert is_run_by_opera()
