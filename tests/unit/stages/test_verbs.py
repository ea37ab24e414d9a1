"""What the controller does when a job is acted on, and how a deployment is resumed."""

from __future__ import annotations

import pytest

from modak_ansible.stages.diary import read_diary
from modak_ansible.stages.verbs import DEEDS, act_on_job, resume_job


def situation(state, job_id="7"):
    return {"job_id": job_id, "nodes": "", "explanation": "", "state": state, "exit_code": None}


class Target:
    """Answers as the job's module does: the first job has ended in a state, and a second one completes."""

    def __init__(self, state, *, is_quicker=False):
        self.situation = situation(state)
        self.is_quicker = is_quicker
        self.actions = []

    def __call__(self, name, action, **arguments):
        self.actions.append(action)
        if action == "await":
            self.situation = situation("LOST")
        if action == "set_aside":
            assert arguments["ended"] == "7"
            self.situation = situation("RUNNING", "8") if self.is_quicker else situation("NONE", "")
            return {"changed": not self.is_quicker, "attempt": None if self.is_quicker else 1}
        if action == "submit":
            self.situation = situation("RUNNING", "8")
            return {"submitted": True}
        if action == "watch":
            self.situation = situation("COMPLETED", self.situation["job_id"])
            return {"situation": self.situation, "output": "", "offset": 0}
        return {"situation": self.situation, "staged": True, "there": True, "folder": "deployments", "changed": True}


@pytest.mark.parametrize(("state", "deed"), DEEDS.items())
def test_a_deed_is_done_and_remembered(make_stage, state, deed):
    target = Target("HELD")
    stage, _ = make_stage(target)
    outcome = act_on_job(stage, state)
    assert (outcome.changed, outcome.message, target.actions) == (True, "job 7 is held", [deed])
    assert stage.record.read()["job"]["state"] == "HELD"


def test_a_deed_that_was_done_before(make_stage):
    stage, _ = make_stage(lambda name, **arguments: {"situation": situation("HELD"), "changed": False})
    assert act_on_job(stage, "held").message == "nothing changed: job 7 is held"


def test_check_mode_only_looks(make_stage):
    target = Target("RUNNING")
    stage, _ = make_stage(target, check=True)
    assert act_on_job(stage, "cancelled").message == "would cancel: job 7 is running"
    resume_job(stage)
    assert set(target.actions) == {"look"}


@pytest.mark.parametrize("state", ["FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "LOST"])
def test_a_failed_job_is_submitted_once_more(make_stage, state):
    target = Target(state)
    stage, said = make_stage(target)
    stage.record.update(job=situation(state))
    outcome = resume_job(stage)
    assert outcome.data["situation"]["state"] == "COMPLETED"
    assert target.actions[:4] == ["look", "set_aside", "look", "submit"]
    assert said[0].endswith("what it left is kept in attempts/1")
    assert [each.text for each in read_diary(stage.folder)][1] == "job 8 submitted"


@pytest.mark.parametrize("state", ["QUEUED", "HELD", "RUNNING", "UNKNOWN"])
def test_a_living_job_is_watched(make_stage, state):
    target = Target(state)
    stage, _ = make_stage(target)
    assert resume_job(stage).data["situation"]["state"] == "COMPLETED"
    assert "set_aside" not in target.actions
    assert "submit" not in target.actions


def test_a_completed_job_is_left_alone(make_stage):
    target = Target("COMPLETED")
    stage, _ = make_stage(target)
    assert not resume_job(stage).changed
    assert target.actions == ["look", "look"]


def test_a_job_that_is_about_to_end_is_waited_for(make_stage):
    target = Target("ENDING")
    stage, _ = make_stage(target)
    resume_job(stage)
    assert target.actions[:3] == ["look", "await", "set_aside"]


def test_another_resume_was_quicker(make_stage):
    target = Target("FAILED", is_quicker=True)
    stage, _ = make_stage(target)
    assert resume_job(stage).data["situation"]["job_id"] == "8"
    assert "submit" not in target.actions
