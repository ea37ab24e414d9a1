"""The job of one deployment: run, measured, acted on, resumed and removed."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from job_target import JobTarget, answered, situation

from modak_ansible.errors import ModakError
from modak_ansible.stages.jobs import campaign
from modak_ansible.stages.jobs.operations import (
    OPERATIONS,
    follow_job,
    operate,
    query_jobs,
    remove_jobs,
    resume_jobs,
    run_jobs,
)
from modak_ansible.store.forecasts import BEFORE
from modak_ansible.store.logs import read_stage_log
from modak_ansible.store.record import latest


@pytest.fixture
def sent(monkeypatch):
    """The folders that were sent to the target."""
    folders = []
    monkeypatch.setattr(campaign, "push", lambda connection, files, folder, say: folders.append(folder))
    return folders


# --- run


def test_a_job_that_is_measured_is_waited_for_and_not_read(make_stage):
    target = JobTarget("QUEUED", states=["RUNNING", "RUNNING", "COMPLETED"])
    stage, said = make_stage(target)
    stage.record.update()
    run_jobs([stage], quietly=True)
    assert target.actions == ["look", "watch", "watch", "watch"]
    assert all(given["quietly"] and "log" not in given for given in target.given[1:])
    assert said == ["job 7 is completed"]
    assert stage.record.read()["job"]["state"] == "COMPLETED"


def test_a_job_is_looked_at_once_before_it_is_submitted_and_watched(make_stage):
    target = JobTarget("NONE", "")
    stage, said = make_stage(target)
    outcome = run_jobs([stage], wait=False)
    assert target.actions == ["look", "submit"]
    assert (outcome.changed, outcome.message, said) == (True, "job 8 is running", ["job 8 submitted"])
    assert stage.record.read()["job"]["job_id"] == "8"


def test_a_training_alone_is_staged_by_the_call_that_submits_it(make_stage, sent):
    target = JobTarget("NONE", "")
    stage, _ = make_stage(None)

    def call(name, action, **arguments):
        answer = json.loads(target(name, action, **arguments)["answer"])
        for known in answer.get("known", {}).values():
            known["staged"] = False
        return answered(**answer)

    stage.call = call
    run_jobs([stage], wait=False)
    assert target.actions == ["look", "submit"]
    assert sent[0].endswith(f"/{target.given[1]['folder']}")


def test_what_a_job_writes_is_shown_to_its_end(make_stage):
    target = JobTarget("RUNNING")
    stage, said = make_stage(target)
    outputs = ["epoch 1\n", "epoch 2 10%\repoch 2\n", ""]

    def call(name, action, **arguments):
        answer = json.loads(target(name, action, **arguments)["answer"])
        if action == "watch" and outputs:
            answer.update(output=outputs.pop(0), offset=arguments["offset"] + 8)
        return answered(**answer)

    stage.call = call
    outcome = run_jobs([stage])
    assert (outcome.changed, outcome.message) == (False, "job 7 is completed")
    assert said == ["job 7 is running", "epoch 1", "epoch 2", "job 7 is completed"]


def test_a_job_that_completed_before_is_not_read_again(make_stage):
    target = JobTarget("COMPLETED")
    stage, said = make_stage(target)
    assert (run_jobs([stage]).changed, target.actions, said) == (False, ["look"], [])


def test_a_log_is_followed_from_where_somebody_left_off(make_stage):
    target = JobTarget("RUNNING")
    stage, said = make_stage(target)
    assert follow_job(stage, "error.log", 80).message == "job 7 is completed"
    assert (target.given[1]["log"], target.given[1]["offset"]) == ("error.log", 80)
    assert said[-1] == "job 7 is completed"
    stage.call = JobTarget("NONE", "")
    with pytest.raises(ModakError, match="no job was submitted"):
        follow_job(stage, "output.log", 0)


def test_a_transfer_that_was_cut_short_goes_on_in_the_same_folder(make_stage, sent, tmp_path):
    stage, _ = make_stage(None)

    def call(name, action, **arguments):
        answer = json.loads(JobTarget("NONE", "")(name, action, **arguments)["answer"]) if action == "look" else {}
        for known in answer.get("known", {}).values():
            known["staged"] = False
        if action == "submit":
            raise ModakError("the connection broke")
        return answered(**answer)

    stage.call = call
    for each in (stage, stage, replace(stage, folder=tmp_path / stage.folder.name)):
        each.folder.mkdir(exist_ok=True)
        with pytest.raises(ModakError, match="the connection broke"):
            run_jobs([each])
    assert sent[0] == sent[1] != sent[2], "another project of the same plan sends into a folder of its own"


# --- when it may begin


def test_when_a_job_may_begin_is_said_before_it_is_submitted_and_kept(make_stage):
    target = JobTarget("NONE", "")
    target.forecast = {"said": 1000.0, "starts": 1600.0}
    stage, said = make_stage(target)
    stage.plan["job"]["script"] = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --time=00:10:00\n\nexport KEY=value\n"
    run_jobs([stage], wait=False)
    assert target.given[0]["directives"] == "#SBATCH --nodes=1\n#SBATCH --time=00:10:00"
    assert said[0].startswith("it is expected to begin at ")
    assert said[0].endswith(", in 10 min")
    (noted,) = stage.record.read()["forecasts"]
    assert (noted["run"], noted["when"], noted["starts"]) == ("8 1 1", BEFORE, 1600.0)
    again, said = make_stage(JobTarget("COMPLETED"))
    run_jobs([again])
    assert said == []


def test_check_mode_says_when_it_would_begin(make_stage):
    target = JobTarget("NONE", "")
    target.forecast = {"said": 1000.0, "starts": 1010.0}
    stage, _ = make_stage(target)
    message = run_jobs([replace(stage, check=True)]).message
    assert message.startswith("would submit the job; it is expected to begin at ")
    assert message.endswith(", at once")


# --- removed


def test_images_go_with_a_deployment_only_where_that_is_wanted(make_stage):
    target = JobTarget("COMPLETED")
    stage, _ = make_stage(target)
    assert remove_jobs([stage]).message == "its folder removed"
    images = [layer["path"] for layer in stage.plan["image"]["layers"]]
    target.removed = {"images": ["pytorch-2.13-cpu (0123456789ab)"]}
    outcome = remove_jobs([stage], remove_images=True)
    assert outcome.message == "its folder removed, removed pytorch-2.13-cpu (0123456789ab)"
    target.removed = {}
    outcome = remove_jobs([stage], remove_images=True)
    assert outcome.message.endswith("no image removed: others use them, or they are gone")
    assert [given["images"] for given in target.given] == [[], images, images]


def test_an_image_that_somebody_else_put_there_stays(make_stage):
    target = JobTarget("COMPLETED")
    stage, _ = make_stage(target)
    stage.plan["image"]["layers"] = [{"kind": "file", "path": "/shared/images/ours.sif"}]
    assert remove_jobs([stage], remove_images=True).message == "its folder removed"
    assert target.given[0]["images"] == []


def test_a_job_that_is_cancelled_or_left_alone_is_named(make_stage):
    target = JobTarget("RUNNING")
    stage, _ = make_stage(target)
    target.removed = {"cancelled": {"x": "7"}}
    assert remove_jobs([stage]).message == "job 7 cancelled, its folder removed"
    target.removed = {"left": {"x": "job 7 was cancelled but has not ended within 60 s; node2 is down"}}
    words = (
        "the job is left alone: job 7 was cancelled but has not ended within 60 s; node2 is down, its folder removed"
    )
    assert remove_jobs([stage], leave=True).message == words


# --- acted on, and resumed


@pytest.mark.parametrize(("state", "operation"), OPERATIONS.items())
def test_an_operation_is_done_and_remembered(make_stage, state, operation):
    target = JobTarget("HELD")
    stage, _ = make_stage(target)
    outcome = operate([stage], state)
    assert (outcome.changed, outcome.message, target.actions) == (True, "job 7 is held", [operation])
    assert stage.record.read()["job"]["state"] == "HELD"
    assert [entry.text for entry in read_stage_log(stage.folder)] == ["job 7 is held"]


def test_an_operation_that_was_done_before(make_stage):
    target = JobTarget("HELD")
    target.changed = False
    stage, _ = make_stage(target)
    assert operate([stage], "held").message == "nothing changed: job 7 is held"


def test_a_known_end_outlives_an_operation_on_what_is_gone_on_the_target(make_stage):
    """Where its scratch had been cleared, modak cancel had a training that had completed forget its job."""
    target = JobTarget("NONE", "")
    target.changed = False
    stage, _ = make_stage(target)
    stage.record.update(job=situation("COMPLETED"))
    operate([stage], "cancelled")
    assert stage.record.read()["job"]["state"] == "COMPLETED"


def test_check_mode_only_looks(make_stage):
    target = JobTarget("RUNNING")
    stage, _ = make_stage(target, check=True)
    assert operate([stage], "cancelled").message == "would cancel: job 7 is running"
    resume_jobs([stage])
    assert set(target.actions) == {"look"}


@pytest.mark.parametrize("state", ["FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "LOST"])
def test_a_failed_job_is_submitted_once_more(make_stage, state):
    target = JobTarget(state)
    stage, said = make_stage(target)
    stage.record.update(job=situation(state))
    assert resume_jobs([stage]).message == "job 8 is completed"
    assert target.actions[:4] == ["look", "set_aside", "look", "submit"]
    assert said[0].endswith("what it left is kept in attempts/1")
    assert [entry.text for entry in read_stage_log(stage.folder)][1] == "job 8 submitted"


@pytest.mark.parametrize(
    ("job", "undeployed", "known"),
    [
        ("RUNNING", None, "7"),
        ("QUEUED", None, "7"),
        ("COMPLETED", None, None),
        ("FAILED", None, None),
        ("RUNNING", 1.0, None),
    ],
)
def test_the_target_is_told_which_job_is_known_to_live(make_stage, job, undeployed, known):
    """It finds it by that where the deployment's folder was removed there."""
    target = JobTarget("RUNNING")
    stage, _ = make_stage(target)
    stage.record.update(job=situation(job), undeployed=undeployed)
    query_jobs([stage])
    assert target.given[0].get("job_id") == known


@pytest.mark.parametrize("state", ["QUEUED", "HELD", "RUNNING", "UNKNOWN"])
def test_a_living_job_is_watched(make_stage, state):
    target = JobTarget(state)
    stage, _ = make_stage(target)
    assert resume_jobs([stage]).message == "job 7 is completed"
    assert "set_aside" not in target.actions
    assert "submit" not in target.actions


def test_a_completed_job_is_left_alone(make_stage):
    target = JobTarget("COMPLETED")
    stage, _ = make_stage(target)
    assert not resume_jobs([stage]).changed
    assert target.actions == ["look", "look"]


def test_a_job_that_is_about_to_end_is_waited_for(make_stage):
    target = JobTarget("ENDING", states=["LOST", "COMPLETED"])
    stage, _ = make_stage(target)
    resume_jobs([stage])
    assert target.actions[:3] == ["look", "watch", "set_aside"]


def test_another_resume_was_quicker(make_stage):
    target = JobTarget("FAILED", is_quicker=True)
    stage, _ = make_stage(target)
    assert resume_jobs([stage]).message == "job 8 is completed"
    assert "submit" not in target.actions


@pytest.mark.parametrize("known", ["CANCELLED", "TIMEOUT", "LOST"])
def test_a_job_that_has_ended_is_not_resumed_while_its_scheduler_is_away(make_stage, known):
    """And its end stays on record, whatever is asked."""
    target = JobTarget("UNKNOWN")
    target.situation["explanation"] = "the scheduler does not answer: qstat: cannot connect to server"
    stage, _ = make_stage(target)
    stage.record.update(job=situation(known))
    words = f"job 7 is {known.lower()}, and is not tried again now: the scheduler does not answer"
    with pytest.raises(ModakError, match=words) as caught:
        resume_jobs([stage])
    assert (caught.value.exit_code, caught.value.hint) == (4, "resume when the scheduler answers")
    assert query_jobs([stage]).message == f"job 7 is {known.lower()}"
    assert stage.record.read()["job"]["state"] == known
    assert "submit" not in target.actions


@pytest.mark.parametrize(("there", "known"), [(False, "COMPLETED"), (True, "NONE")])
def test_the_end_of_a_job_whose_folder_was_cleared_since_stays_on_record(make_stage, there, known):
    target = JobTarget("NONE", "")
    target.there = there
    stage, _ = make_stage(target)
    stage.record.update(job=situation("COMPLETED"))
    assert query_jobs([stage]).message == "no job was submitted"
    assert stage.record.read()["job"]["state"] == known


def test_another_job_that_is_unknown_is_news(make_stage):
    stage, _ = make_stage(JobTarget("UNKNOWN"))
    stage.record.update(job=situation("CANCELLED", "6"))
    assert query_jobs([stage]).message == "job 7 is unknown"
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
        assert (name, action) == ("modak_job", "hold")
        jobs = [
            {"deployment": deployment["deployment"], "situation": situation("HELD"), "changed": True, "problem": "", "hint": "",
             "permitted": True, "exit_code": 1}
            for deployment in json.loads(deployments)
        ]  # fmt: skip
        jobs[-1].update(changed=not problem, problem=problem, hint="a hint", permitted=permitted)
        return answered(jobs=jobs)

    return call


@pytest.fixture
def two(make_stage, tmp_path):
    def make(call):
        stage, _ = make_stage(call)
        other = replace(stage, plan={**stage.plan, "digest": "f" * 64, "training": "other"}, folder=tmp_path / "other")
        other.folder.mkdir()
        return [stage, other]

    return make


def test_an_operation_on_several_is_one_call_and_all_remember_it(two):
    stages = two(answering())
    outcome = operate(stages, "held")
    assert (outcome.changed, outcome.message) == (True, "2 of 2 jobs held")
    rows = json.loads(outcome.data["jobs"])
    assert [(row["training"], row["message"]) for row in rows] == [
        (stage.plan["training"], "job 7 is held") for stage in stages
    ]
    assert [stage.record.read()["job"]["state"] for stage in stages] == ["HELD", "HELD"]


def test_what_no_job_permits_is_an_error_in_its_own_words(make_stage):
    stage, _ = make_stage(answering("job 7 is running and cannot be held", permitted=False))
    with pytest.raises(ModakError) as caught:
        operate([stage], "held")
    assert (caught.value.message, caught.value.hint) == ("job 7 is running and cannot be held", "a hint")


@pytest.mark.parametrize("permitted", [True, False])
def test_what_some_do_not_permit_is_only_said_and_a_refusal_is_an_error(two, permitted):
    stages = two(answering("refused", permitted=permitted))
    if permitted:
        with pytest.raises(ModakError) as caught:
            operate(stages, "held")
        assert caught.value.message == "1 of 2 jobs are not in the state that was asked for:\n  other: refused"
    else:
        outcome = operate(stages, "held")
        assert [row["message"] for row in json.loads(outcome.data["jobs"])] == ["job 7 is held", "refused"]
