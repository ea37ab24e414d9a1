"""A deployment's folder that was removed on the target while its job lived: the job is not submitted a second time."""

from __future__ import annotations

import json
import shutil

import pytest
from fake_deployment import plan_of, script_of

from modak_ansible.schedulers.base import JobRecord, JobState
from modak_ansible.target.jobs import judgement
from modak_ansible.target.jobs.actions import act
from modak_ansible.target.jobs.query import queried

pytestmark = pytest.mark.usefixtures("passing_time")


def asked(deployment, action, job_id="1", **more):
    """What the target's module answers for a deployment whose controller knows its job."""
    wanted = [{"deployment": deployment.path.name, "job_name": "example-1", "job_id": job_id}]
    workspace = str(deployment.path.parent.parent)
    given = {"workspace": workspace, "scheduler": "fake", "action": action, "deployments": json.dumps(wanted), **more}
    return json.loads(act(action, given)["answer"])


@pytest.fixture
def lost(deployment):
    """A deployment whose job lives, and whose whole workspace was removed."""
    deployment.submit()
    shutil.rmtree(deployment.path.parent.parent)
    return deployment


def staged(deployment, code):
    deployment.stage(plan_of(code), script_of(code))


def test_a_job_that_lives_is_known_again(lost, fake):
    fake.jobs["1"] = JobRecord("1", JobState.RUNNING, name="example-1")
    situation = asked(lost, "look")["known"]["example-1"]["situation"]
    assert (situation["state"], situation["job_id"]) == ("RUNNING", "1")
    assert "was removed" in situation["explanation"]


@pytest.mark.parametrize(
    ("there", "shown"), [(JobState.RUNNING, "RUNNING"), (JobState.COMPLETED, "LOST"), (None, "LOST")]
)
def test_status_tells_of_it_and_writes_nothing(lost, fake, there, shown):
    fake.jobs = {"1": JobRecord("1", there, name="example-1")} if there else {}
    workspace = str(lost.path.parent.parent)
    asked = {"workspace": workspace, "scheduler": "fake", "deployments": ["example-1"], "job_ids": {"example-1": "1"}}
    (job,) = queried({**asked, "inside": ""})["jobs"]
    assert (job["situation"]["state"], job["situation"]["job_id"]) == (shown, "1")
    assert "was removed" in job["situation"]["explanation"]
    assert not lost.path.exists()


def test_it_is_not_submitted_again(lost, fake, code):
    staged(lost, code)
    answer = asked(lost, "submit")
    assert answer["jobs"]["example-1"]["submitted"] is False
    assert answer["jobs"]["example-1"]["situation"]["job_id"] == "1"
    assert len(fake.submitted) == 1


def test_it_can_be_cancelled_and_undeployed(lost, fake):
    assert asked(lost, "remove")["cancelled"] == {"example-1": "1"}
    assert fake.jobs["1"].state is JobState.CANCELLED
    assert not lost.path.exists()


@pytest.mark.parametrize(
    "record", [None, JobRecord("1", JobState.COMPLETED), JobRecord("1", JobState.RUNNING, name="other", folder="/x")]
)
def test_one_that_is_gone_is_followed_by_another(lost, fake, code, record):
    fake.jobs = {"1": record} if record else {}
    staged(lost, code)
    assert asked(lost, "submit")["jobs"]["example-1"]["submitted"] is True
    assert len(fake.submitted) == 2


def test_nothing_is_submitted_where_the_scheduler_does_not_tell(lost, fake, code):
    staged(lost, code)
    fake.silent = True
    answer = asked(lost, "submit")
    assert not answer["refused"]
    assert answer["jobs"]["example-1"]["situation"]["state"] == "UNKNOWN"
    assert len(fake.submitted) == 1


def test_a_job_of_what_was_undeployed_is_no_longer_its_job(deployment, fake, code):
    deployment.submit()
    deployment.remove()
    staged(deployment, code)
    assert asked(deployment, "submit")["jobs"]["example-1"]["submitted"] is True


def test_what_became_of_it_says_that_its_folder_went(lost, fake, monkeypatch):
    monkeypatch.setattr(judgement, "GRACE", 0.0)
    asked(lost, "look")
    fake.jobs["1"] = JobRecord("1", JobState.COMPLETED, name="example-1", exit_code=0)
    situation = asked(lost, "look")["known"]["example-1"]["situation"]
    assert situation["state"] in ("LOST", "FAILED")
    assert "was removed" in situation["explanation"]
