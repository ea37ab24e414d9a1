"""Points of a sweep as a job array: submitted once whatever is killed, in as few arrays as the site lets them be."""

from __future__ import annotations

import pytest
from fake_queue import FakeQueue

from modak_ansible.schedulers.base import JobState, SubmissionUncertain, Waits
from modak_ansible.schedulers.registry import SCHEDULERS
from modak_ansible.target.core.files import read_json
from modak_ansible.target.core.workspace import Workspace
from modak_ansible.target.jobs.campaign import Campaign, JobRequest, Removed

POINTS = ("p0", "p1", "p2", "p3")


@pytest.fixture
def workspace(tmp_path):
    made = Workspace(str(tmp_path / "workspace"))
    made.create()
    for name in ("before", *POINTS):
        (made.deployments / name / "state").mkdir(parents=True)
        (made.deployments / name / "job.sh").write_text("directives\n")
    return made


@pytest.fixture
def queue(workspace, monkeypatch):
    made = FakeQueue(workspace.deployments)
    made.largest_array = 1000
    monkeypatch.setitem(SCHEDULERS, "fake", made)
    return made


@pytest.fixture
def campaign(workspace, queue):
    return Campaign(workspace, "fake")


def point(name, *, after=(), behind=(), barrier=(), parallel=None, again=False, node="sweep"):
    return JobRequest(
        name, after=list(after), behind=list(behind), again=again, node=node, array="sweep", parallel=parallel,
        barrier=list(barrier),
    )  # fmt: skip


def alone(name):
    return JobRequest(name)


def ids(answer):
    assert answer.refused is None
    return {name: job_id for name, (job_id, _) in answer.jobs.items()}


def shapes(queue):
    return [(count, parallel) for _, _, count, parallel in queue.arrays]


def test_points_of_a_sweep_are_one_array(campaign, queue, workspace):
    answer = campaign.submit([alone("before"), *(point(each, after=["before"], parallel=2) for each in POINTS)])
    assert ids(answer) == {"before": "1", "p0": "2_0", "p1": "2_1", "p2": "2_2", "p3": "2_3"}
    assert shapes(queue) == [(4, 2)]
    assert queue.waits["2_3"] == Waits(ok=("1",))
    ((folder, name, _, _),) = queue.arrays
    assert name == "sweep"
    assert (workspace.deployments / folder / "3").resolve() == workspace.deployments / "p3"
    assert (workspace.deployments / folder / "array.sh").read_text() == "array of directives"
    look = campaign.look([JobRequest("p3")])["p3"]
    assert (look.situation.state, look.situation.job_id, look.waited) == (
        "QUEUED",
        "2_3",
        {"before": "1"},
    )
    again = campaign.submit([point(each, after=["before"], parallel=2) for each in POINTS])
    assert not any(is_new for _, is_new in again.jobs.values())
    assert len(queue.arrays) == 1


def test_a_point_that_is_alone_is_a_job(campaign, queue):
    assert ids(campaign.submit([point("p0")])) == {"p0": "1"}
    assert ids(campaign.submit([point("p0"), point("p1")]))["p1"] == "2_0"
    assert shapes(queue) == [(1, None)]


def test_other_directives_are_another_array(campaign, queue, workspace):
    for name in ("p2", "p3"):
        (workspace.deployments / name / "job.sh").write_text("others\n")
    found = ids(campaign.submit([point(each) for each in POINTS]))
    assert found == {"p0": "1_0", "p1": "1_1", "p2": "3_0", "p3": "3_1"}


def test_each_sweep_keeps_its_own_limit_whatever_its_jobs_are_called(campaign, queue):
    wide, narrow = (point("p0"), point("p1")), (point(each, parallel=1, node="narrow") for each in ("p2", "p3"))
    assert ids(campaign.submit([*wide, *narrow])) == {"p0": "1_0", "p1": "1_1", "p2": "3_0", "p3": "3_1"}
    assert shapes(queue) == [(2, None), (2, 1)]


def test_a_site_that_has_no_arrays_gets_jobs(campaign, queue):
    queue.largest_array = 1
    assert ids(campaign.submit([point(each) for each in POINTS])) == dict(zip(POINTS, "1234", strict=True))


def test_a_limit_of_the_site_makes_several_arrays_that_do_not_run_at_once(campaign, queue):
    queue.largest_array = 2
    assert ids(campaign.submit([point(each, parallel=1) for each in POINTS]))["p3"] == "3_1"
    assert shapes(queue) == [(2, 1), (2, 1)]
    assert queue.waits["3_0"] == Waits(ended=("1_0", "1_1"))


def test_points_that_are_added_wait_for_those_that_live_where_their_number_is_limited(campaign, queue):
    campaign.submit([point("p0", parallel=2), point("p1", parallel=2)])
    campaign.submit([point(each, barrier=["p0", "p1"], parallel=2) for each in ("p2", "p3")])
    assert queue.waits["3_0"] == Waits(ended=("1_0", "1_1"))


def test_where_there_is_room_for_fewer_an_array_is_smaller(campaign, queue):
    queue.room = 3
    answer = campaign.submit([point(each) for each in POINTS])
    assert list(answer.jobs) == ["p0", "p1", "p2"]
    assert (answer.refused[0], shapes(queue)) == ("p3", [(2, None)])
    assert "QOSMaxSubmitJobPerUserLimit" in answer.refused[1].message


def test_with_a_limit_of_its_own_each_then_waits_for_another(campaign, queue):
    queue.room = 3
    wanted = [
        point(each, parallel=1, behind=[POINTS[number - 1]] if number else []) for number, each in enumerate(POINTS)
    ]
    answer = campaign.submit(wanted)
    assert (list(answer.jobs), queue.arrays) == (["p0", "p1", "p2"], [])
    assert queue.waits["3"] == Waits(ended=("2",))


@pytest.mark.parametrize("takes_it", [True, False])
def test_killed_before_the_tasks_are_noted(campaign, queue, takes_it, monkeypatch):
    """The array is looked for once for all of its points, and submitted only where it is not there."""
    submit = queue.submit_array

    def dying(*arguments):
        if takes_it:
            submit(*arguments)
        raise KeyboardInterrupt

    queue.submit_array = dying
    with pytest.raises(KeyboardInterrupt):
        campaign.submit([point(each) for each in POINTS])
    queue.submit_array = submit
    answer = campaign.submit([point(each) for each in POINTS])
    assert sorted(ids(answer).values()) == ["1_0", "1_1", "1_2", "1_3"]
    assert [is_new for _, is_new in answer.jobs.values()] == [not takes_it] * 4
    assert (len(queue.jobs), queue.searches) == (4, 1)


def test_an_array_of_which_nobody_knows_is_not_submitted_twice(campaign, queue):
    submit = queue.submit_array

    def silent(*arguments):
        submit(*arguments)
        raise SubmissionUncertain("sbatch did not answer")

    queue.submit_array = silent
    _, refused = campaign.submit([point(each) for each in POINTS]).refused
    assert refused.message == "it is not known whether the jobs were submitted: sbatch did not answer"
    queue.submit_array = submit
    assert ids(campaign.submit([point(each) for each in POINTS]))["p3"] == "1_3"
    assert len(queue.jobs) == 4


def test_a_point_that_is_cancelled_before_its_task_was_noted_is_found(campaign, queue, workspace):
    submit = queue.submit_array

    def dying(*arguments):
        submit(*arguments)
        raise KeyboardInterrupt

    queue.submit_array = dying
    with pytest.raises(KeyboardInterrupt):
        campaign.submit([point(each) for each in POINTS])
    assert campaign.remove(["p1"]) == Removed({"p1": "1_1"}, ["p1"])
    assert queue.jobs["1_1"] is JobState.CANCELLED
    assert queue.jobs["1_2"] is JobState.QUEUED


def test_the_folder_of_an_array_goes_with_its_last_point(campaign, queue, workspace):
    campaign.submit([point(each) for each in POINTS])
    campaign.remove(POINTS[:3])
    assert list(workspace.deployments.glob(".array-*"))
    campaign.remove(POINTS[3:])
    assert not list(workspace.deployments.glob(".array-*"))


def test_a_refused_array_leaves_nothing_behind(campaign, queue, workspace):
    queue.room = 0
    campaign.submit([point(each, parallel=1) for each in POINTS])
    assert not list(workspace.deployments.glob(".array-*"))
    assert read_json(workspace.deployments / "p0" / "state" / "intent.json") is None
