"""What has completed is looked at over ssh and brought from there, and nothing is played again."""

from __future__ import annotations

import json
import shutil
import socket
import time

import pytest

import modak_ansible as modak
from modak_ansible.deployment import run as running
from modak_ansible.deployment.fetching import fetch_results
from modak_ansible.deployment.playbook import Listener
from modak_ansible.deployment.results import ResultsWarning, results_of
from modak_ansible.errors import TargetUnreachable, TimeIsOver
from modak_ansible.store.record import DeploymentRecord
from modak_ansible.target.core.workspace import Workspace

pytestmark = pytest.mark.component


class Heard(Listener):
    def __init__(self):
        self.lines = []

    def progress(self, stage, text):
        self.lines.append(f"{stage} {text}")

    def finished(self, action, result):
        self.lines.append(f"{action} {result['msg']} {result['changed']}")


class There:
    """The folder of a deployment on this machine as a target, whose job has completed."""

    def __init__(self, store, workspace):
        self.folder = Workspace(workspace).deployments / store.name
        (self.folder / "state").mkdir(parents=True)
        self.write("state/submitted.json", json.dumps({"job_id": "7", "time": 5.0}))
        self.ends("0")
        self.write("output.log", "trained\n")

    def write(self, name, text):
        (self.folder / name).write_text(text)

    def ends(self, code):
        self.write("state/finished", code)


@pytest.fixture
def deployed(tmp_path, monkeypatch):
    """A plan whose job has completed, what is there of it, and how often a playbook ran."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (planned,) = modak.plan("mnist-pytorch-local")
    store = planned.save() and planned.store
    played = []
    monkeypatch.setattr(running, "run_playbook", lambda name, *_, **__: played.append(name) or Played)
    return planned, There(store, planned.plan.target.workspace), played


def _is_at(store, port):
    plan = json.loads(store.plan_file.read_text())
    plan["target"].update(local=False, address="127.0.0.1", port=port)
    store.plan_file.write_text(json.dumps(plan))


class Played:
    changed = 3


def test_what_is_brought_once_is_not_played_again(deployed):
    planned, _, played = deployed
    assert running.deploy([planned]).changed == 3  # nothing is known of it here
    fetch_results(planned.store)
    DeploymentRecord(planned.folder).note_stage(
        "job", state="done", seconds=9.0, changed=True, message="job 7 is completed"
    )
    assert planned.store.job["state"] == "COMPLETED"
    assert (planned.store.results / "output.log").read_text() == "trained\n"
    heard = Heard()
    assert running.deploy([planned], listener=heard).changed == 0
    assert played == ["deploy"]
    stages = planned.store.record_now()["stages"]
    assert (stages["job"]["changed"], stages["job"]["worked"]["seconds"], stages["results"]["changed"]) == (
        False,
        9,
        False,
    )
    assert heard.lines[0] == "modak_job job 7 is completed False"
    assert heard.lines[-1].startswith("modak_results 1 file, ") and heard.lines[-1].endswith("False")


def test_what_is_damaged_here_is_brought_again(deployed):
    planned, _, played = deployed
    fetch_results(planned.store)
    (planned.store.results / "output.log").write_text("damaged")
    assert running.deploy([planned]).changed == 1
    assert (planned.store.results / "output.log").read_text() == "trained\n"
    assert played == []


@pytest.mark.parametrize("gone", ["folder", "end", "record"])
def test_what_is_not_there_any_more_is_carried_out(deployed, gone):
    planned, there, played = deployed
    fetch_results(planned.store)
    if gone == "folder":
        shutil.rmtree(there.folder)
    elif gone == "end":
        there.ends("1")
    else:
        shutil.rmtree(planned.folder)
        planned.save()
    assert running.deploy([planned]).changed == 3
    assert played == ["deploy"]


def test_where_no_job_was_submitted_nothing_has_failed_and_no_results_are_come_to(deployed):
    """Results that are asked for while the image is built, as in another terminal: the job "ended as NONE"."""
    planned, there, _ = deployed
    shutil.rmtree(there.folder)
    DeploymentRecord(planned.folder).note_stage("image", state="done", seconds=9.0, changed=True, message="made")
    fetch_results(planned.store)
    record = planned.store.record_now()
    assert (record["stage"], list(record["stages"])) == ("image", ["image"])


def test_what_was_brought_stays_where_the_target_has_cleared_its_file_system(deployed):
    """As scratch is cleared after some weeks: how the job ended, and what it left, is known here alone."""
    planned, there, _ = deployed
    (there.folder / "ranks" / "1").mkdir(parents=True)
    there.write("ranks/1/error.log", "x")
    fetch_results(planned.store)
    shutil.rmtree(there.folder)
    fetch_results(planned.store)
    assert planned.store.job["state"] == "COMPLETED"
    assert (planned.store.results / "ranks" / "1" / "error.log").exists()
    assert planned.store.record_now()["stages"]["results"]["message"].startswith("its folder is not on the target")


def test_in_a_limited_time_only_a_playbook_which_can_be_ended_brings_anything(deployed):
    planned, _, played = deployed
    fetch_results(planned.store)
    later = time.monotonic() + 60
    assert running.deploy([planned], deadline=later).changed == 0
    assert played == []
    (planned.store.results / "output.log").unlink()
    assert running.deploy([planned], deadline=later).changed == 3
    assert played == ["deploy"]


def test_a_target_that_is_silent_until_the_time_is_over(deployed):
    planned, _, _ = deployed
    fetch_results(planned.store)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        _is_at(planned.store, silent.getsockname()[1])
        began = time.monotonic()
        with pytest.raises(TimeIsOver):
            running.fetch_if_completed([planned.store], None, began + 0.5)
        assert time.monotonic() - began < 5


def test_a_target_that_cannot_be_entered_is_told_once_and_nothing_is_played(deployed):
    planned, _, played = deployed
    fetch_results(planned.store)
    _is_at(planned.store, 1)
    with pytest.raises(TargetUnreachable, match="refuses the connection"):
        running.fetch_if_completed([planned.store], None, None)
    assert played == []


def test_what_is_here_is_listed_while_its_target_is_away(deployed):
    """As for a day of maintenance; where anything could be missing, the target is asked for."""
    planned, _, _ = deployed
    fetch_results(planned.store)
    _is_at(planned.store, 1)
    with pytest.warns(ResultsWarning, match="refuses the connection; what it had left so far is here"):
        (found,) = results_of([planned.store])
    assert [file.path for file in found.files] == ["output.log"]
    with pytest.raises(TargetUnreachable):
        results_of([planned.store], also=["*.pt"])


def test_a_pattern_that_fitted_nothing_of_a_job_that_is_over_is_asked_for_once(deployed):
    """A slip in --also was told again with all later results, by whatever command."""
    planned, there, _ = deployed
    (there.folder / "code").mkdir()
    there.write("code/model.pt", "x")
    (found,) = results_of([planned.store], also=["nothing*", "*.pt"])
    assert found.missing == ("nothing*",)
    (found,) = results_of([planned.store])
    assert (found.missing, "code/model.pt" in [file.path for file in found.files]) == ((), True)


def test_a_plan_that_is_damaged_hides_no_other(deployed):
    planned, _, _ = deployed
    (other,) = modak.plan("mnist-pytorch-slurm")
    damaged = other.save() and other.store
    damaged.plan_file.write_text("{")
    with pytest.raises(modak.ModakError, match="is not a plan that can be carried out"):
        fetch_results(damaged, planned.store)
    assert (planned.store.results / "output.log").exists()
