"""The jobs of many deployments: judged as each by itself, with one question to the scheduler."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, replace

import pytest

from modak_ansible.schedulers.base import AccountingSilent, JobRecord, JobState, Scheduler, SchedulerSilent
from modak_ansible.schedulers.registry import SCHEDULERS
from modak_ansible.target.core.workspace import Workspace
from modak_ansible.target.jobs.actions import act
from modak_ansible.target.jobs.campaign import Campaign
from modak_ansible.target.jobs.query import query
from modak_ansible.target.jobs.results import joules_of


class FakeScheduler(Scheduler):
    name = "fake"

    def __init__(self):
        self.jobs, self.asked, self.silent = {}, [], False

    def statuses(self, run, job_ids):
        self.asked.append(list(job_ids))
        if self.silent:
            raise SchedulerSilent("hush")
        return {job_id: self.jobs[job_id] for job_id in job_ids if job_id in self.jobs}


@pytest.fixture
def fake(monkeypatch):
    scheduler = FakeScheduler()
    monkeypatch.setitem(SCHEDULERS, "fake", scheduler)
    return scheduler


@pytest.fixture
def workspace(tmp_path):
    return Workspace(str(tmp_path / "workspace"))


def deployed(workspace, name, job_id="", **marks):
    """A deployment's folder, with marks in its state."""
    state = workspace.deployments / name / "state"
    state.mkdir(parents=True)
    if job_id:
        (state / "submitted.json").write_text(json.dumps({"job_id": job_id, "time": 0}))
    for mark, text in marks.items():
        (state / mark).write_text(f"{text}\n")
    return state.parent


def look(workspace, *names):
    return {each.deployment: asdict(each) for each in query(workspace, Campaign(workspace, "fake"), names)}


def test_all_are_judged_by_one_answer(workspace, fake):
    deployed(workspace, "runs", "1", claim="1", started="1 1 node01")
    deployed(workspace, "waits", "2")
    deployed(workspace, "again", "5", claim="5", started="1 5 node01")
    deployed(workspace, "done", "3", started="1 3 node02", finished="0")
    deployed(workspace, "failed", "4", started="1 4 node02", finished="3")
    deployed(workspace, "new")
    began = time.time() - 100
    for name in ("runs", "done", "failed", "again"):
        os.utime(workspace.deployments / name / "state" / "started", (began, began))
    fake.jobs = {
        "1": JobRecord("1", JobState.RUNNING, nodes="node01"),
        "2": JobRecord("2", JobState.QUEUED, reason="Priority", position=7, starts="2026-11-22T01:10:00"),
        "4": JobRecord("4", JobState.TIMEOUT),
        "5": JobRecord("5", JobState.QUEUED),
    }
    found = look(workspace, "runs", "waits", "again", "done", "failed", "new", "gone")
    states = {name: job["situation"]["state"] for name, job in found.items()}
    assert states == {
        "runs": "RUNNING", "waits": "QUEUED", "again": "QUEUED", "done": "COMPLETED", "failed": "TIMEOUT", "new": "NONE", "gone": "NONE",
    }  # fmt: skip
    assert fake.asked == [["1", "2", "4", "5"]]  # the one that says itself that it succeeded is not asked for
    assert (found["waits"]["position"], found["waits"]["starts"]) == (7, "2026-11-22T01:10:00")
    assert 99 < found["runs"]["elapsed"] < 130
    assert 99 < found["done"]["elapsed"] < 102  # to its own end, which was now
    assert found["waits"]["elapsed"] is found["again"]["elapsed"] is None  # though it ran before it was queued again
    assert [found[name]["there"] for name in ("new", "gone")] == [True, False]


def test_who_shows_places_in_the_queue_asks_for_them_and_who_watches_does_not(workspace, fake, monkeypatch):
    deployed(workspace, "waits", "1")
    fake.jobs = {"1": JobRecord("1", JobState.QUEUED)}
    monkeypatch.setattr(fake, "placed", lambda run, jobs: {"1": replace(jobs["1"], position=3)})
    assert look(workspace, "waits")["waits"]["position"] == 3
    monkeypatch.setattr(fake, "placed", lambda run, jobs: pytest.fail("the whole queue was asked for"))
    assert Campaign(workspace, "fake").situations(["waits"])["waits"].state == "QUEUED"


def test_how_long_a_job_runs_is_by_the_clock_of_the_file_system(workspace, fake, monkeypatch):
    """The front end's own may differ from it, and from the node's."""
    deployed(workspace, "runs", "1", claim="1", started="1 1 node01")
    fake.jobs = {"1": JobRecord("1", JobState.RUNNING)}
    now = time.time()
    for skew in (3600, -3600):
        monkeypatch.setattr("time.time", lambda skew=skew: now + skew)
        assert 0 <= look(workspace, "runs")["runs"]["elapsed"] < 60


def test_a_silent_scheduler_hides_no_end(workspace, fake):
    fake.silent = True
    deployed(workspace, "runs", "1")
    deployed(workspace, "done", "2", finished="0")
    found = look(workspace, "runs", "done")
    assert found["runs"]["situation"]["state"] == "UNKNOWN"
    assert "hush" in found["runs"]["situation"]["explanation"]
    assert found["done"]["situation"]["state"] == "COMPLETED"


def test_a_job_of_a_killed_submitter_is_known_by_its_claim(workspace, fake):
    deployed(workspace, "one", claim="5")
    fake.jobs = {"5": JobRecord("5", JobState.RUNNING)}
    assert look(workspace, "one")["one"]["situation"]["state"] == "RUNNING"


@pytest.mark.parametrize("text", ["", '{"time": 0}', '{"job_id": "--all"}', '{"job_id": [2]}', "\x00\x01"])
def test_a_damaged_deployment_hides_no_other(workspace, fake, text):
    marks = {"submitted.json": text}
    deployed(workspace, "good", "1")
    deployed(workspace, "bad", "2", **marks)
    fake.jobs = {each: JobRecord(each, JobState.RUNNING) for each in ("1", "2")}
    found = look(workspace, "bad", "good")
    assert found["good"]["situation"]["state"] == "RUNNING"
    assert found["bad"]["situation"]["state"] == "DAMAGED"
    assert "modak looks for the job" in found["bad"]["situation"]["explanation"]


def test_progress_comes_along(workspace, fake):
    folder = deployed(workspace, "runs", "1", started="1 1 node01")
    (folder / "progress.json").write_text('{"step": 12, "epoch": 2, "epochs": null, "loss": 0.5}')
    fake.jobs = {"1": JobRecord("1", JobState.RUNNING)}
    assert look(workspace, "runs")["runs"]["progress"] == {"step": 12, "epoch": 2, "loss": 0.5}


def test_how_a_job_ended_that_only_a_silent_accounting_knows_is_not_guessed(workspace, monkeypatch):
    """What it noted itself, and what the queue knows, are told all the same."""
    silence = AccountingSilent("sacct: away", {"1": JobRecord("1", JobState.RUNNING)})

    class Silent(Scheduler):
        name = "fake"

        @staticmethod
        def statuses(run, job_ids):
            raise silence

    monkeypatch.setitem(SCHEDULERS, "fake", Silent())
    deployed(workspace, "runs", "1")
    deployed(workspace, "gone", "2", started="5 2 node01")
    deployed(workspace, "failed", "3", started="5 3 node01", finished="4")
    found = look(workspace, "runs", "gone", "failed")
    states = [found[each]["situation"]["state"] for each in ("runs", "gone", "failed")]
    assert states == ["RUNNING", "UNKNOWN", "FAILED"]
    assert found["gone"]["situation"]["explanation"] == "the scheduler does not answer: sacct: away"


def test_when_those_begin_that_wait(workspace, fake, monkeypatch):
    """What its scheduler does not say with the others is asked for one by one, until it has no answer."""
    asked = []

    def start_of(run, job_id):
        asked.append(job_id)
        return "2099-01-01T10:00:00" if job_id != "4" else ""

    monkeypatch.setattr(fake, "start_of", start_of, raising=False)
    names = {str(number): f"job{number}" for number in range(1, 7)}
    for job_id, name in names.items():
        deployed(workspace, name, job_id)
    fake.jobs = {each: JobRecord(each, JobState.QUEUED) for each in names}
    fake.jobs["1"] = JobRecord("1", JobState.RUNNING, starts="2099-01-01T09:00:00")
    fake.jobs["2"] = JobRecord("2", JobState.QUEUED, starts="2099-01-01T09:00:00")
    found = look(workspace, *names.values())
    assert [found[name]["starts"][11:13] for name in names.values()] == ["09", "09", "10", "", "", ""]
    assert [found[name]["forecast"] is not None for name in names.values()] == [False, True, True, False, False, False]
    assert asked == ["3", "4"]


def test_the_accounting_is_asked_once_for_the_energy_of_all_that_have_ended(workspace, fake, monkeypatch):
    asked = []

    def joules(run, job_ids):
        asked.append(job_ids)
        return {"1": 50.0, "3": 70.0}

    monkeypatch.setattr(fake, "joules", joules, raising=False)
    for name, job_id, marks in (("one", "1", {"finished": "0"}), ("two", "2", {"finished": "1"}), ("runs", "3", {})):
        folder = deployed(workspace, name, job_id, **marks)
        (folder / "plan.json").write_text('{"job": {"scheduler": "fake"}}')
    deployed(workspace, "damaged", "1", finished="0")
    assert joules_of(workspace.deployments, ["one", "two", "runs", "damaged", "gone"]) == {"one": 50.0}
    assert asked == [["1", "2"]]


def test_when_a_job_would_begin_is_asked_of_one_that_there_is_not(workspace, fake, monkeypatch):
    asked = []

    def forecast(run, directives):
        asked.append(directives)
        return "2099-01-01T10:00:00"

    monkeypatch.setattr(fake, "forecast", forecast, raising=False)
    deployed(workspace, "runs", "1")
    fake.jobs = {"1": JobRecord("1", JobState.RUNNING)}
    where = {"workspace": str(workspace.path), "scheduler": "fake"}
    for name, directives, is_told in (("new", "#SBATCH -N2", True), ("runs", "#SBATCH -N2", False), ("new", "", False)):
        wanted = json.dumps([{"deployment": name}])
        answer = json.loads(act("look", {**where, "deployments": wanted, "directives": directives})["answer"])
        assert (answer["forecast"] is not None) == is_told
    assert asked == ["#SBATCH -N2"]
    wanted = json.dumps([{"deployment": "runs"}, {"deployment": "new"}])
    answer = json.loads(act("look", {**where, "deployments": wanted, "directives": "#SBATCH -N3"})["answer"])
    assert answer["forecast"] is not None
