"""What the shell offers: names of deployments, blueprints and entries, at once and whatever is damaged."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from modak_ansible.commands.completion import blueprints, deployments, entries

MODAK = Path(sys.executable).parent / "modak"


@pytest.fixture
def project(tmp_path, monkeypatch):
    for each in ("example-0123456789ab", "example-0123456789ac", "other-0123456789ab"):
        (tmp_path / ".modak" / "deployments" / each).mkdir(parents=True)
    (tmp_path / ".modak" / "deployments" / "example-0123456789ab" / "plan.json").write_text("{")
    (tmp_path / "example").mkdir()
    (tmp_path / "example" / "service.yaml").touch()
    (tmp_path / "sub" / "mine").mkdir(parents=True)
    (tmp_path / "sub" / "mine" / "service.yaml").touch()
    (tmp_path / "pack.csar").touch()
    (tmp_path / "notes.txt").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_deployments_and_blueprints(project):
    assert deployments("ex") == ["example", "example-0123456789ab", "example-0123456789ac"]
    assert deployments("other") == ["other-0123456789ab"]


def test_shipped_blueprints_and_paths(project):
    assert "mnist-pytorch-slurm" in blueprints("mnist")
    assert {"example", "sub/", "pack.csar", "mnist-pytorch-local"} <= set(blueprints(""))
    assert not {".modak/", "notes.txt"} & set(blueprints(""))
    assert blueprints("sub/") == ["sub/mine"]
    assert blueprints("./ex") == ["./example"]
    assert blueprints(f"{project}/pa") == [f"{project}/pack.csar"]


def test_nothing_fits(project):
    assert deployments("nothing") == blueprints("no/such/folder/x") == entries("nothing") == []


def test_entries_are_those_of_the_catalogue():
    assert "pytorch-2.13-cpu" in entries("pytorch-2.13")
    assert all(entry.startswith("jax") for entry in entries("jax"))


@pytest.mark.component
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("modak undeploy other-", "other-0123456789ab"),
        ("modak status other-", "other-0123456789ab"),
        ("modak logs -f other-", "other-0123456789ab"),
        ("modak deploy mnist-tens", "mnist-tensorflow-slurm"),
        ("modak catalogue show openmpi-m", "openmpi-mpi4py"),
        ("modak deploy x --at-time-limit le", "leave"),
        ("modak pack", "package"),
    ],
)
def test_as_bash_asks(project, words, offered):
    asked = subprocess.run(
        [MODAK], capture_output=True, text=True, check=False,
        env={**os.environ, "_MODAK_COMPLETE": "complete_bash", "COMP_WORDS": words,
             "COMP_CWORD": str(len(words.split()) - 1)},
    )  # fmt: skip
    assert asked.stderr == ""
    assert asked.stdout.split() == [offered]


def test_a_folder_that_may_not_be_entered_hides_no_other(closed_folder):
    beside = [blueprint for blueprint in blueprints(f"{closed_folder.parent}/") if "closed" in blueprint]
    assert beside == [f"{closed_folder}/"]
