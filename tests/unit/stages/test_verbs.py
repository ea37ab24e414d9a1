"""What the controller does when a job is acted on, and how a deployment is resumed."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from modak_ansible.errors import ModakError
from modak_ansible.stages.jobs.job import query_job
from modak_ansible.stages.jobs.verbs import DEEDS, act_on_job, act_on_jobs, resume_job
from modak_ansible.store.record import latest
from modak_ansible.store.stage_log import read_stage_log


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
            return {"submitted": True, "situation": self.situation}
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
    assert [entry.text for entry in read_stage_log(stage.folder)][1] == "job 8 submitted"


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


@pytest.mark.parametrize("known", ["CANCELLED", "TIMEOUT", "LOST"])
def test_a_job_that_has_ended_is_not_resumed_while_its_scheduler_is_away(make_stage, known):
    """And its end stays on record, whatever is asked."""
    target = Target("UNKNOWN")
    target.situation["explanation"] = "the scheduler does not answer: qstat: cannot connect to server"
    stage, _ = make_stage(target)
    stage.record.update(job=situation(known))
    words = f"job 7 is {known.lower()}, and is not tried once more now: the scheduler does not answer"
    with pytest.raises(ModakError, match=words) as caught:
        resume_job(stage)
    assert (caught.value.exit_code, caught.value.hint) == (4, "resume when the scheduler answers")
    assert query_job(stage).message == f"job 7 is {known.lower()}"
    assert stage.record.read()["job"]["state"] == known
    assert "submit" not in target.actions


def test_another_job_that_is_unknown_is_news(make_stage):
    stage, _ = make_stage(Target("UNKNOWN"))
    stage.record.update(job=situation("CANCELLED", "6"))
    assert query_job(stage).data["situation"]["state"] == "UNKNOWN"
    assert stage.record.read()["job"]["job_id"] == "7"


@pytest.mark.parametrize("known", ["COMPLETED", "CANCELLED", "RUNNING"])
def test_what_is_known_of_a_job(known):
    before, now = situation(known), situation("UNKNOWN")
    assert latest(before, now) is (now if known == "RUNNING" else before)
    assert latest(None, now) is now
    assert latest(before, situation("FAILED")) == situation("FAILED")


# --- several at once


def answering(problem="", *, permitted=True):
    """A target that holds the first job, and of the second says that there is a problem."""

    def call(name, action, deployments, **arguments):
        assert (name, action) == ("modak_campaign", "hold")
        jobs = [
            {"deployment": deployment["deployment"], "situation": situation("HELD"), "changed": True, "problem": "", "hint": "",
             "permitted": True}
            for deployment in deployments
        ]  # fmt: skip
        jobs[-1].update(changed=not problem, problem=problem, hint="a hint", permitted=permitted)
        return {"jobs": json.dumps(jobs)}

    return call


def test_a_deed_on_several_is_one_call_and_all_remember_it(make_stage):
    stage, _ = make_stage(answering())
    outcome = act_on_jobs([stage], "held")
    assert (outcome.changed, outcome.message) == (True, "1 of 1 jobs held")
    (row,) = json.loads(outcome.data["jobs"])
    assert (row["training"], row["message"]) == (stage.plan["training"], "job 7 is held")
    assert stage.record.read()["job"]["state"] == "HELD"


def test_what_no_job_permits_is_an_error(make_stage):
    stage, _ = make_stage(answering("job 7 is running and cannot be held", permitted=False))
    with pytest.raises(ModakError) as caught:
        act_on_jobs([stage], "held")
    said = f"1 of 1 jobs are not as they were to be:\n  {stage.plan['training']}: job 7 is running and cannot be held"
    assert (caught.value.message, caught.value.hint) == (said, "a hint")


@pytest.mark.parametrize("permitted", [True, False])
def test_what_some_do_not_permit_is_only_said_and_a_refusal_is_an_error(make_stage, permitted, tmp_path):
    stage, _ = make_stage(answering("refused", permitted=permitted))
    other = replace(stage, folder=tmp_path / "other")
    other.folder.mkdir()
    if permitted:
        with pytest.raises(ModakError, match="1 of 2 jobs"):
            act_on_jobs([stage, other], "held")
    else:
        outcome = act_on_jobs([stage, other], "held")
        assert [row["message"] for row in json.loads(outcome.data["jobs"])] == ["job 7 is held", "refused"]
