"""modak targets: listed, shown and removed, and offered by the shell."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from modak_ansible.commands import completion
from modak_ansible.commands.admin.targets import app
from modak_ansible.discovery.target_files import TargetFiles
from modak_ansible.errors import UsageError
from modak_ansible.store.targets import new_target


def run(*words):
    return CliRunner().invoke(app, words, catch_exceptions=False).output


def saved(name, text):
    path = new_target(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.component
def test_they_are_listed_with_what_they_are():
    assert "modak discover USER@HOST --save NAME" in run()
    saved("hpc", "scheduler: torque\nfrontend: login.example\nusername: bob\npartitions: [ { name: batch } ]\n")
    saved("broken", "scheduler: slurm\nfrontend: [\n")
    saved("two", "a: { scheduler: none, frontend: x.example }\nb: { scheduler: local }\n")
    rows = {line.split()[0]: " ".join(line.split()) for line in run("list").splitlines()}
    assert rows["hpc"] == "hpc torque at bob@login.example batch"
    assert "broken.yaml:3:1: yaml-syntax" in rows["broken"]
    assert rows["two"] == "two a: a host at x.example; b: this machine"
    assert rows["local"] == "local this machine"
    # where somebody's own testbed runs meanwhile, a connection to it may be open
    assert rows["testbed"].replace(" open", "") == "testbed slurm at testbed debug"
    found = {row["name"]: row for row in json.loads(run("list", "--json"))}
    assert [name for name, row in found.items() if row["own"]] == ["broken", "hpc", "two"]
    assert found["hpc"]["targets"][0]["partitions"] == ["batch"]


def test_one_is_shown_and_removed():
    path = saved("hpc", "scheduler: slurm\nfrontend: login.example # \x1b[31m\n")
    shown = run("show", "hpc")
    assert shown.startswith(f"# {path}\nscheduler: slurm\n")
    assert "\x1b" not in shown
    assert str(path) in run("remove", "hpc")
    assert not path.exists()
    with pytest.raises(UsageError, match="is built in"):
        run("remove", "testbed")


def test_an_option_before_a_command_is_refused_as_it_would_be_lost():
    with pytest.raises(UsageError, match="options go after show"):
        run("--json", "show", "testbed")


def test_the_shell_offers_their_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    saved("hpc", "")
    (tmp_path / "home.yaml").touch()
    assert completion.targets("h") == ["home.yaml", "hpc"]
    assert completion.targets("") == ["home.yaml", "hpc", "local", "testbed"]
    assert completion.own_targets("") == ["hpc"]


def test_discover_writes_one_and_not_over_another():
    path = new_target("hpc")
    files = TargetFiles(str(path), name="hpc")
    files.check()
    saved("hpc", "")
    with pytest.raises(UsageError, match="--force overwrites"):
        files.check()
    assert files.next_steps(None) == ["next: modak check hpc", "any blueprint or request takes it: --on hpc"]
