"""What ``import modak_ansible as modak`` gives."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

import numpy
import pytest

import modak_ansible as modak
from modak_ansible.deployment import surface
from modak_ansible.deployment.run import Deployed
from modak_ansible.errors import UsageError


@pytest.fixture
def runs(monkeypatch):
    """What would have been carried out: plans, and how."""
    seen = []

    def run(planned, **how):
        seen.append((planned, how))
        return Deployed(1, tuple(each.store for each in planned))

    monkeypatch.setattr(surface, "run_all", run)
    return seen


def test_it_names_all_that_is_public():
    assert {name for name in dir(modak) if not name.startswith("_") or name == "__version__"} == set(modak.__all__)
    assert all(getattr(modak, name).__doc__ for name in ("plan", "deploy", "status", "results", "compare", "export"))
    assert modak.__version__.count(".") == 2


@pytest.mark.component
def test_nothing_is_read_before_it_is_asked_for():
    """Targets import the package, and have the standard library alone."""
    code = "import sys, modak_ansible; print([name for name in sys.modules if name.startswith('modak_ansible.')])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_a_blueprint_is_planned_with_values_of_any_type(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (planned,) = modak.plan("mnist-pytorch-slurm", values={"epochs": 7, "username": "alice"})
    assert planned.plan.application.work.epochs == 7
    assert planned.plan.target.username == "alice"


def test_numbers_of_numpy_and_paths_are_values_too(tmp_path, monkeypatch):
    """As those of a grid are; of what is none of these there is a message and no TypeError."""
    monkeypatch.chdir(tmp_path)
    values = {"epochs": numpy.int64(7), "mnist": [Path("digits")]}
    (planned,) = modak.plan("mnist-pytorch-slurm", values=values)
    assert planned.plan.application.work.epochs == 7
    with pytest.raises(modak.ModakError, match="no input can be of the type set"):
        modak.plan("mnist-pytorch-slurm", values={"mnist": {"digits"}})


def test_what_is_planned_is_deployed_and_told(tmp_path, monkeypatch, runs):
    monkeypatch.chdir(tmp_path)
    planned = modak.plan("mnist-pytorch-slurm")
    planned[0].save()
    (row,) = modak.deploy(planned[0], wait=False, time_limit=60)
    ((plans, how),) = runs
    assert plans == planned
    assert how["wait"] is False and how["deadline"] is not None
    assert (row["deployment"], row["state"]) == (planned[0].plan.deployment, "NONE")
    assert modak.status(ask=False) == [row]
    with pytest.raises(modak.ModakError, match="--training needs a blueprint"):
        modak.status(training="train", ask=False)


def test_trainings_are_compared_and_exported(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, losses in (("a-0", [3, 2]), ("a-1", [3, 1])):
        folder = tmp_path / ".modak/deployments" / name
        (folder / "results").mkdir(parents=True)
        plan = {"digest": name, "name": "a", "training": name, "application": {"arguments": [["seed", name]]}}
        (folder / "plan.json").write_text(json.dumps({**plan, "target": {"name": "x"}}))
        (folder / "state.json").write_text('{"job": {"state": "COMPLETED", "job_id": "7"}}')
        lines = [json.dumps({"step": step, "loss": loss}) + "\n" for step, loss in enumerate(losses, 1)]
        (folder / "results/metrics.jsonl").write_text("".join(lines))
        (folder / "results/manifest.json").write_text('{"files": [{"path": "metrics.jsonl", "size": 1, "sha256": ""}]}')
    found = modak.compare("a-0", "a-1", "a-0", by="loss", ask=False)
    assert [(run.deployment, found.best(run)) for run in found.runs] == [("a-1", (2, 1)), ("a-0", (2, 2))]
    assert modak.export("a-0", "a-1", tool="tensorboard", to=tmp_path / "runs", ask=False) == 2
    assert len(list((tmp_path / "runs").glob("*/events.out.tfevents.*"))) == 2
    with pytest.raises(UsageError, match="runs cannot be exported to mlfow\n  did you mean mlflow"):
        modak.export("a-0", tool="mlfow", to=tmp_path)


def test_what_is_not_there_is_one_clear_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".modak").mkdir()
    with pytest.raises(UsageError, match="there is no blueprint nothing"):
        modak.plan("nothing")
    with pytest.raises(modak.ModakError):
        modak.results("nothing")
    with pytest.raises(UsageError, match="no deployment is named"):
        modak.compare()
    with pytest.raises(UsageError, match="there is no target nowhere"):
        modak.plan("mnist-pytorch-slurm", target="nowhere")


def test_files_and_targets_are_named_as_any_script_names_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "site.yaml").write_text("epochs: 3\n")
    (tmp_path / "fit.py").write_text("print(1)\n")
    (planned,) = modak.plan("mnist-pytorch-local", inputs="site.yaml")
    assert planned.plan.application.work.epochs == 3
    (planned,) = modak.plan("fit.py", target="local")
    assert repr(planned) == f"<Planned {planned.plan.deployment}: training on cluster>"


def test_threads_of_a_script_keep_its_output(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = sys.stdout
    threads = [
        threading.Thread(target=modak.plan, args=("mnist-pytorch-local",), kwargs={"values": {"epochs": 1000 + number}})
        for number in range(4)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sys.stdout is before
