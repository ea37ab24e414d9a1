"""The jobs of several deployments: in turn, each at most once, and none whose predecessor has failed."""

from __future__ import annotations

import json
import os
import time

import pytest
from fake_queue import FakeQueue

from modak_ansible.errors import ModakError
from modak_ansible.schedulers.base import JobState, SchedulerSilent, Waits
from modak_ansible.schedulers.registry import SCHEDULERS
from modak_ansible.target.core.workspace import Workspace
from modak_ansible.target.jobs.actions import act
from modak_ansible.target.jobs.arrays import remove_arrays
from modak_ansible.target.jobs.campaign import INCOMING, Campaign, JobRequest, Removed

pytestmark = pytest.mark.usefixtures("passing_time")


@pytest.fixture
def workspace(tmp_path):
    made = Workspace(str(tmp_path / "workspace"))
    made.create()
    return made


@pytest.fixture
def queue(workspace, monkeypatch):
    made = FakeQueue(workspace.deployments)
    monkeypatch.setitem(SCHEDULERS, "fake", made)
    return made


@pytest.fixture
def campaign(workspace, queue):
    for name in ("first", "second", "third"):
        (workspace.deployments / name / "state").mkdir(parents=True)
    return Campaign(workspace, "fake")


def wanted(name, *after, behind=(), again=False):
    return JobRequest(name, after=list(after), behind=list(behind), again=again)


def refusal(answer):
    name, error = answer.refused
    return name, error.message


def states(campaign):
    return {name: each.state for name, each in campaign.situations(["first", "second", "third"]).items()}


def test_what_is_sent_with_a_submission_is_staged_before_it(campaign, workspace, queue, monkeypatch):
    done = []
    monkeypatch.setattr(Campaign, "stage", lambda _, *given: done.append((*given, dict(queue.waits))))
    about = {"workspace": str(workspace.path), "scheduler": "fake", "folder": f"{INCOMING}1"}
    act("submit", {**about, "deployments": json.dumps([{"deployment": "first", "digest": "d"}])})
    assert done == [(f"{INCOMING}1", [JobRequest("first", digest="d")], {})]
    assert list(queue.waits) == ["1"]


def test_each_waits_for_the_jobs_before_it(campaign, queue):
    answer = campaign.submit([wanted("first"), wanted("second", "first"), wanted("third", "first", behind=["second"])])
    assert answer.refused is None
    assert [is_new for _, is_new in answer.jobs.values()] == [True, True, True]
    assert queue.waits == {"1": Waits(), "2": Waits(ok=("1",)), "3": Waits(ok=("1",), ended=("2",))}
    assert queue.waits["3"].words == "afterok:1,afterany:2"
    again = campaign.submit([wanted("first"), wanted("second", "first")])
    assert [is_new for _, is_new in again.jobs.values()] == [False, False]
    assert len(queue.jobs) == 3


def test_what_has_completed_is_not_waited_for(campaign, queue):
    campaign.submit([wanted("first")])
    queue.end("first")
    campaign.submit([wanted("second", "first")])
    assert not queue.waits["2"]


def test_a_scheduler_that_has_forgotten_a_job_is_not_asked_to_wait_for_it(campaign, queue, monkeypatch):
    queue.forgets = True
    campaign.submit([wanted("first")])
    queue.jobs["1"] = JobState.COMPLETED  # and its marker is seen a moment later only
    monkeypatch.setattr("modak_ansible.target.jobs.campaign.time.sleep", lambda _: queue.end("first"))
    assert campaign.submit([wanted("second", "first")]).jobs["second"][1]
    queue.end("first", 3)
    refused = refusal(campaign.submit([wanted("third", "first")]))
    assert refused == ("third", "first, which must run first, has failed")


def test_the_first_that_is_refused_ends_a_submission(campaign, queue):
    queue.room = 1
    answer = campaign.submit([wanted("first"), wanted("second"), wanted("third")])
    assert list(answer.jobs) == ["first"]
    assert refusal(answer)[0] == "second"
    assert "QOSMaxSubmitJobPerUserLimit" in refusal(answer)[1]


def test_nothing_is_submitted_before_what_comes_before(campaign, queue):
    answer = campaign.submit([wanted("second", "first")])
    assert (refusal(answer)[1], queue.jobs) == ("first, which must run first, was not submitted", {})


def test_what_cannot_run_never_begins(campaign, queue):
    campaign.submit([wanted("first"), wanted("second", "first")])
    queue.end("first", 3)
    assert campaign.skip({"second": "not run: first failed", "first": "x"}) == {"second": True, "first": False}
    assert queue.jobs["2"] is JobState.CANCELLED
    situations = campaign.situations(["first", "second"])
    assert (situations["second"].state, situations["second"].explanation) == ("CANCELLED", "not run: first failed")
    assert situations["first"].state == "FAILED"


def test_another_job_takes_the_place_of_one_that_never_began(campaign, queue):
    campaign.submit([wanted("first"), wanted("second", "first")])
    campaign.skip({"second": "not run: first failed"})
    answer = campaign.submit([wanted("second", "first", again=True)])
    assert answer.jobs["second"] == ("3", True)
    assert states(campaign)["second"] == "QUEUED"
    look = campaign.look([JobRequest("second")])["second"]
    assert (look.waited, look.skipped, look.began) == ({"first": "1"}, False, False)


def test_a_job_that_was_given_up_is_not_found_again(campaign, queue, workspace):
    campaign.submit([wanted("first")])
    campaign.skip({"first": "not run"})
    campaign.deployment("first").start_over()
    (workspace.deployments / "first" / "state" / "intent.json").write_text('{"name": "first", "time": 0}')
    assert campaign.submit([wanted("first")]).jobs["first"] == ("2", True)


def test_a_job_that_began_is_never_given_up(campaign, queue):
    campaign.submit([wanted("first")])
    queue.end("first", 3)
    assert campaign.submit([wanted("first", again=True)]).jobs["first"] == ("1", False)


def test_only_news_is_told(campaign, queue):
    campaign.submit([wanted("first"), wanted("second"), wanted("third")])
    seen = [JobRequest(name, state="QUEUED") for name in ("first", "second", "third")]
    began = time.monotonic()
    assert campaign.watch(seen, 0.6).situations == {}
    assert time.monotonic() - began >= 0.6
    queue.end("second")
    queue.jobs["3"] = JobState.RUNNING
    assert {name: each.state for name, each in campaign.watch(seen, 60).situations.items()} == {
        "second": "COMPLETED", "third": "RUNNING"
    }  # fmt: skip


def test_a_silent_scheduler_tells_nothing_of_those_that_live(campaign, queue):
    campaign.submit([wanted("first"), wanted("second")])
    queue.end("first")
    queue.silent = True
    assert states(campaign) == {"first": "COMPLETED", "second": "UNKNOWN", "third": "NONE"}
    with pytest.raises(ModakError, match="could not be removed from the queue: hush"):
        campaign.skip({"second": "not run"})
    assert states(campaign)["second"] == "UNKNOWN"


def test_all_are_removed_and_those_that_live_cancelled(campaign, queue, workspace):
    campaign.submit([wanted("first"), wanted("second", "first")])
    queue.end("first")
    answer = campaign.remove(["first", "second", "third", "fourth"])
    assert answer == Removed({"second": "2"}, ["first", "second", "third"])
    assert queue.jobs == {"1": JobState.COMPLETED, "2": JobState.CANCELLED}
    assert [path for path in workspace.deployments.iterdir() if path.is_dir()] == []


def test_what_nobody_took_up_is_removed(campaign, workspace):
    old, new = (workspace.deployments / f"{INCOMING}{name}" for name in ("old", "new"))
    for each in (old, new):
        each.mkdir()
    os.utime(old, (1, 1))
    with pytest.raises(OSError, match="plans"):
        campaign.stage(f"{INCOMING}none")
    assert (old.exists(), new.exists()) == (False, True)


def test_what_another_removes_meanwhile_is_no_error(campaign, workspace):
    for name in (f"{INCOMING}gone", ".array-gone"):
        (workspace.deployments / name).symlink_to("nowhere")  # which was there a moment ago
    with pytest.raises(OSError, match="plans"):
        campaign.stage(f"{INCOMING}none")
    remove_arrays(workspace.deployments)


def test_a_job_that_ends_while_it_is_cancelled_is_none_that_lives(campaign, queue):
    campaign.submit([wanted("first"), wanted("second", "first")])
    queue.end("first", 3)
    cancel = queue.cancel

    def meanwhile(run, job_id):
        queue.jobs[job_id] = JobState.CANCELLED
        cancel(run, job_id)

    queue.cancel = meanwhile
    assert campaign.skip({"second": "not run: first failed"}) == {"second": True}


@pytest.mark.parametrize("hangs", [True, False])
def test_jobs_on_a_node_that_is_down_can_be_left_alone(campaign, queue, workspace, monkeypatch, hangs):
    campaign.submit([wanted("first"), wanted("second")])
    queue.jobs["1"], queue.down = JobState.RUNNING, {"1": "node2"}

    def cancel(run, *job_ids):
        queue.jobs["2"] = JobState.CANCELLED
        if hangs:
            raise SchedulerSilent("qdel: did not answer within 60 s")

    monkeypatch.setattr(queue, "cancel", cancel)
    with pytest.raises(ModakError, match="; node2 is down") as caught:
        campaign.remove(["first", "second"], 0.1)
    assert caught.value.hint.endswith("modak undeploy --leave-job leaves the job to the scheduler")
    answer = campaign.remove(["first", "second"], 0.1, leave=True)
    assert (answer.removed, "first" in answer.left) == (["first", "second"], True)
    assert "first" not in answer.cancelled


def test_that_a_node_is_down_is_news_once(campaign, queue):
    campaign.submit([wanted("first")])
    queue.jobs["1"] = JobState.RUNNING
    assert campaign.watch([JobRequest("first", state="RUNNING")], 0.1).situations == {}
    queue.down = {"1": "node2"}
    (news,) = campaign.watch([JobRequest("first", state="RUNNING")], 5).situations.values()
    assert (news.state, news.down) == ("RUNNING", "node2")
    known = JobRequest("first", state="RUNNING", explanation=news.explanation)
    assert campaign.watch([known], 0.1).situations == {}
