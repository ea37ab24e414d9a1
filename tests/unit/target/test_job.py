"""A deployment's job: submitted once whatever is killed, and judged by its own marker."""

from __future__ import annotations

import errno
import os
import shutil
import time
from pathlib import Path

import pytest
from fake_deployment import files_of, plan_of, script_of

from modak_ansible.errors import ModakError
from modak_ansible.schedulers.base import (
    JobRecord,
    JobState,
    SchedulerSilent,
    SubmissionRefused,
    SubmissionUncertain,
)
from modak_ansible.target.core.workspace import Workspace
from modak_ansible.target.jobs import attempts as attempts_module
from modak_ansible.target.jobs import judgement
from modak_ansible.target.jobs.campaign import Campaign, JobRequest
from modak_ansible.target.jobs.job import Deployment
from modak_ansible.target.jobs.operations import operate
from modak_ansible.target.jobs.situation import Situation

pytestmark = pytest.mark.usefixtures("passing_time")


def campaign_of(deployment):
    return Campaign(Workspace(str(deployment.path.parent.parent)), deployment.scheduler.name)


def cancel(deployment):
    """Whether its job was cancelled."""
    (job,) = operate(campaign_of(deployment), "cancel", [deployment.path.name])
    return job.changed


def watch(deployment, state, offset, seconds):
    known = JobRequest(deployment.path.name, state=state)
    return campaign_of(deployment).watch([known], seconds, log="output.log", offset=offset)


def asked_in(monkeypatch, state):
    """Notes each look at a job that stays in a state."""
    asked = []

    def situations(self, names):
        asked.append(1)
        return {name: Situation(state, "1") for name in names}

    monkeypatch.setattr(Campaign, "situations", situations)
    return asked


def mark(deployment, name, text):
    (deployment.path / "state" / name).write_text(text)


# --- staging


def test_a_staged_deployment_is_whole_and_known_as_such(deployment, code):
    assert deployment.is_staged(plan_of(code))
    assert (deployment.path / "code" / "train.py").read_bytes() == code.read_bytes()
    (deployment.path / "code" / "train.py").write_text("tampered")
    assert not deployment.is_staged(plan_of(code))


def test_what_differs_from_the_plan_is_not_staged(tmp_path, fake, code):
    deployment = Deployment(Workspace(str(tmp_path / "w")), "one", "fake", "one")
    with pytest.raises(ModakError, match="train.py has changed since the plan was made"):
        deployment.stage(plan_of(code), files_of(**{"train.py": b"other"}))
    assert list((tmp_path / "w" / "deployments").iterdir()) == []


@pytest.mark.parametrize("name", ["../escaped", "/tmp/escaped", "a/../../escaped"])
def test_an_archive_cannot_leave_its_folder(tmp_path, fake, code, name):
    deployment = Deployment(Workspace(str(tmp_path / "w")), "one", "fake", "one")
    with pytest.raises(ModakError, match="not a plain file below its folder"):
        deployment.stage(plan_of(code), files_of(**{name: b"x"}))
    assert not list(tmp_path.rglob("escaped"))


@pytest.mark.parametrize("can_link", [True, False])
def test_of_deployments_with_the_same_files_what_is_ours_lies_there_once(tmp_path, fake, code, monkeypatch, can_link):
    """A quota of files is soon full otherwise; the script is each training's own, to write beside or into."""
    if not can_link:
        monkeypatch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(PermissionError(errno.EPERM, "no links here")))
    files, plan = files_of(**{"train.py": code.read_bytes(), "runtime/a/b.py": b"pass"}), plan_of(code)
    workspace = Workspace(str(tmp_path / "w"))
    for name in ("one", "two", "three"):
        Deployment(workspace, name, "fake", name).stage(plan, files)
        assert (workspace.deployments / name / "runtime/a/b.py").read_bytes() == b"pass"
    paths = [workspace.deployments / name for name in ("one", "two", "three")]
    assert len({(path / "runtime/a/b.py").stat().st_ino for path in paths}) == (1 if can_link else 3)
    assert len({(path / "code/train.py").stat().st_ino for path in paths}) == 3


# --- submission


def test_a_job_is_submitted_once(deployment, fake):
    assert deployment.submit() == ("1", True)
    assert deployment.submit() == ("1", False)
    assert len(fake.submitted) == 1


def test_killed_between_submission_and_note(deployment, fake):
    fake.trouble = SubmissionUncertain("killed")
    with pytest.raises(ModakError, match="it is not known whether the job was submitted"):
        deployment.submit()
    fake.trouble = None
    assert deployment.submit() == ("1", False)
    assert len(fake.submitted) == 1


def test_a_scheduler_that_was_away_has_taken_nothing(deployment, fake, code, monkeypatch):
    """Nor is the job of the same deployment before it was removed, which the scheduler still remembers, this one's."""
    plan, files = plan_of(code), script_of(code)
    deployment.submit()
    cancel(deployment)
    deployment.remove()
    fake.jobs["1"] = JobRecord("1", JobState.CANCELLED, name="example-1")
    deployment.stage(plan, files)
    with monkeypatch.context() as away:
        away.setattr(fake, "submit", lambda *_: (_ for _ in ()).throw(SchedulerSilent("hush")))
        with pytest.raises(ModakError, match="the job was not submitted: hush"):
            deployment.submit()
    assert not deployment.was_submitted()
    assert deployment.submit() == ("2", True)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_keeps_nothing_from_being_removed(deployment, monkeypatch, number):
    """Least of all what takes the room."""

    def full(*_):
        raise OSError(number, os.strerror(number))

    deployment.submit()
    monkeypatch.setattr(attempts_module, "write_whole", full)
    assert deployment.remove()
    assert not deployment.path.exists()


def written_late(monkeypatch, deployment, times):
    """A container writes its last words so many times while its deployment's folder is removed."""
    remove, left = shutil.rmtree, iter(range(times))

    def remove_and_write(path, **options):
        remove(path, **options)
        if path == deployment.path and next(left, None) is not None:
            path.mkdir()
            (path / "output.log").write_text("late")

    monkeypatch.setattr(shutil, "rmtree", remove_and_write)


def test_what_a_process_writes_that_is_just_ending_is_removed_too(deployment, monkeypatch):
    written_late(monkeypatch, deployment, 3)
    assert deployment.remove()
    assert not deployment.path.exists()


def test_a_folder_that_is_written_to_all_the_time_is_for_the_user_to_remove(deployment, monkeypatch):
    written_late(monkeypatch, deployment, 10**6)
    with pytest.raises(ModakError, match="could not be removed"):
        deployment.remove()


def test_killed_before_submission_of_what_was_removed_before(deployment, fake, code):
    deployment.submit()
    deployment.remove()
    deployment.stage(plan_of(code), script_of(code))
    mark(deployment, "intent.json", '{"name": "example-1", "time": 0}')
    assert deployment.submit() == ("2", True)
    deployment.remove()
    deployment.stage(plan_of(code), script_of(code))
    mark(deployment, "intent.json", '{"name": "example-1", "time": 0}')
    assert deployment.submit() == ("3", True)


def test_of_two_jobs_the_one_that_has_claimed_the_deployment_is_its_own(deployment, fake):
    """The other one gave way, with an exit code that is not the training's."""
    deployment.submit()
    mark(deployment, "submitted.json", '{"job_id": "2", "time": 0}')
    mark(deployment, "claim", "1\n")
    fake.jobs["1"] = JobRecord("1", JobState.RUNNING, name="example-1")
    fake.jobs["2"] = JobRecord("2", JobState.FAILED, exit_code=75, name="example-1")
    situation = deployment.situation()
    assert (situation.state, situation.job_id) == ("RUNNING", "1")
    mark(deployment, "requeued", "")
    assert deployment.known_job() == "2", "the next one of a chain has not begun"
    (deployment.path / "state" / "requeued").unlink()
    assert cancel(deployment)
    assert (fake.jobs["1"].state, fake.jobs["2"].state) == (JobState.CANCELLED, JobState.FAILED)


@pytest.mark.parametrize(("submitted", "claimed"), [("7.front", "7.front.example"), ("7.123", "7"), ("7", "7")])
def test_one_job_may_be_called_in_two_ways(deployment, submitted, claimed):
    deployment.submit()
    mark(deployment, "submitted.json", f'{{"job_id": "{submitted}", "time": 0}}')
    mark(deployment, "claim", claimed)
    assert deployment.known_job() == submitted


@pytest.mark.parametrize(
    ("name", "folder", "is_own"),
    [("example-1", "/x/other", True), ("mine", "{path}", True), ("sweep", "/w/.array-0123", True), ("thesis", "/home/me/x", False),
     ("thesis", "", True), ("", "/home/me/x", True)],
)  # fmt: skip
def test_a_strangers_job_of_the_same_number_is_not_the_deployments(deployment, fake, name, folder, is_own):
    """A scheduler that lost its state begins with 1 again; what the job had noted stays, and nothing is cancelled."""
    deployment.submit()
    mark(deployment, "claim", "1\n")
    mark(deployment, "finished", "3\n")
    folder = folder.format(path=deployment.path)
    fake.jobs["1"] = JobRecord("1", JobState.RUNNING, name=name, folder=folder)
    assert deployment.situation().state == ("ENDING" if is_own else "FAILED")
    assert cancel(deployment) == is_own
    assert deployment.finished() == 3


def test_killed_before_submission(deployment, fake):
    mark(deployment, "intent.json", '{"name": "example-1", "time": 0}')
    assert deployment.submit() == ("1", True)


def test_a_job_that_ran_and_was_forgotten_is_known_by_its_claim(deployment, fake):
    mark(deployment, "intent.json", '{"name": "example-1", "time": 0}')
    mark(deployment, "claim", "77\n")
    assert deployment.submit() == ("77", False)
    assert fake.submitted == []


def test_with_a_silent_scheduler_nothing_is_submitted_twice(deployment, fake):
    mark(deployment, "intent.json", '{"name": "example-1", "time": 0}')
    fake.silent = True
    with pytest.raises(ModakError, match="it is not known whether the job was submitted"):
        deployment.submit()
    assert fake.submitted == []


def test_a_refusal_is_told_and_leaves_nothing(deployment, fake):
    fake.trouble = SubmissionRefused("no such partition")
    with pytest.raises(ModakError, match="Fake refuses the job: no such partition"):
        deployment.submit()
    fake.trouble = None
    assert deployment.submit() == ("1", True)


@pytest.mark.component
def test_two_submitters_at_once(deployment, fake):
    """Two processes race; the lock lets one submit, and the other finds what it did."""
    children = []
    for _ in range(4):
        child = os.fork()
        if child == 0:
            job_id, now = deployment.submit()
            (deployment.path / f"answer-{os.getpid()}").write_text(f"{job_id} {now}")
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    answers = sorted(path.read_text() for path in deployment.path.glob("answer-*"))
    assert answers == ["1 False", "1 False", "1 False", "1 True"]


# --- judgement

ENDS = [
    # finished marker, scheduler's record, verdict, exit code
    ("0", JobRecord("1", JobState.COMPLETED, 0), "COMPLETED", 0),
    ("0", None, "COMPLETED", 0),
    ("0", JobRecord("1", JobState.TIMEOUT), "COMPLETED", 0),
    ("3", JobRecord("1", JobState.FAILED, 3), "FAILED", 3),
    ("3", None, "FAILED", 3),
    ("3", JobRecord("1", JobState.COMPLETED, 0), "FAILED", 3),
    ("143", JobRecord("1", JobState.TIMEOUT), "TIMEOUT", 143),
    ("143", JobRecord("1", JobState.CANCELLED, None, 15), "CANCELLED", 143),
    ("137", JobRecord("1", JobState.OUT_OF_MEMORY, 0, 125), "OUT_OF_MEMORY", 137),
    ("", JobRecord("1", JobState.NODE_FAIL), "NODE_FAIL", None),
    ("", JobRecord("1", JobState.PREEMPTED), "PREEMPTED", None),
    ("", JobRecord("1", JobState.BOOT_FAIL), "BOOT_FAIL", None),
    ("", JobRecord("1", JobState.CANCELLED), "CANCELLED", None),
    ("", JobRecord("1", JobState.FAILED, 127), "FAILED", 127),
    # a node that died can look like success: without the job's own marker it is none
    ("", JobRecord("1", JobState.COMPLETED, 0), "LOST", 0),
    ("", None, "LOST", None),
]


@pytest.mark.parametrize(("finished", "record", "state", "exit_code"), ENDS)
def test_verdicts(deployment, fake, monkeypatch, finished, record, state, exit_code):
    monkeypatch.setattr(judgement, "GRACE", 0)
    deployment.submit()
    if finished:
        mark(deployment, "finished", f"{finished}\n")
    fake.jobs = {"1": record} if record else {}
    situation = deployment.situation()
    assert (situation.state, situation.exit_code) == (state, exit_code)
    assert state == "COMPLETED" or situation.explanation


@pytest.mark.parametrize(("marker", "state"), [("claim", "COMPLETED"), ("requeued", "LOST"), ("", "LOST")])
def test_a_job_without_room_for_its_last_word(deployment, fake, monkeypatch, marker, state):
    """Slurm knows that it succeeded; where modak cannot note for how long it misses the job's word, it does not wait."""
    deployment.submit()
    monkeypatch.setattr(fake, "knows_success", True)
    if marker:
        mark(deployment, "claim", "1\n")
        mark(deployment, marker, "1\n")
    fake.jobs["1"] = JobRecord("1", JobState.COMPLETED, 0)
    assert deployment.situation().state == "ENDING"
    (deployment.path / "state" / "missed").unlink()

    def no_room(self, **_):
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr(Path, "touch", no_room)
    assert deployment.situation().state == state


@pytest.mark.parametrize("state", ["QUEUED", "HELD", "RUNNING", "SUSPENDED", "ENDING"])
def test_living_jobs(deployment, fake, state):
    deployment.submit()
    fake.jobs["1"] = JobRecord("1", JobState(state), reason="Resources")
    assert deployment.situation().state == state


RERUNS = [
    # runs, finished marker, whether the job asked for another run, the scheduler's word, verdict, explanation
    (1, "", True, JobRecord("1", JobState.ENDING), "QUEUED", "queued again for run 2"),
    (1, "", True, JobRecord("1", JobState.QUEUED, reason="BeginTime"), "QUEUED", "queued again for run 2, BeginTime"),
    (2, "143", False, JobRecord("1", JobState.QUEUED), "QUEUED", "queued again for run 3"),
    (1, "143", False, JobRecord("1", JobState.HELD), "HELD", "queued again for run 2"),
    (2, "", False, JobRecord("1", JobState.RUNNING), "RUNNING", "run 2"),
    (2, "143", False, JobRecord("1", JobState.ENDING), "ENDING", "run 2"),
    (1, "", False, JobRecord("1", JobState.RUNNING), "RUNNING", ""),
    (0, "", False, JobRecord("1", JobState.QUEUED, reason="Resources"), "QUEUED", "Resources"),
    (3, "85", False, JobRecord("1", JobState.FAILED, 85), "TIMEOUT", "it reached its wall time"),
    (1, None, False, JobRecord("1", JobState.TIMEOUT, limit="deadline"), "TIMEOUT", "its deadline passed"),
    (2, "0", False, None, "COMPLETED", ""),
    (2, "", True, JobRecord("1", JobState.CANCELLED), "CANCELLED", "it was cancelled"),
]


def test_a_job_that_waits_for_what_does_not_come_says_so(deployment, fake):
    deployment.submit()
    fake.jobs = {"1": JobRecord("1", JobState.QUEUED, reason="PartitionTimeLimit", obstacle="it asks for too much")}
    situation = deployment.situation()
    assert situation.reason == "PartitionTimeLimit"
    assert situation.explanation == "PartitionTimeLimit: it asks for too much"


@pytest.mark.parametrize(("runs", "finished", "requeued", "record", "state", "explanation"), RERUNS)
def test_a_job_that_is_queued_again(deployment, fake, runs, finished, requeued, record, state, explanation):
    deployment.submit()
    fake.jobs = {"1": record} if record else {}
    mark(deployment, "runs", "".join(f"{number} 1 node\n" for number in range(runs)))
    if finished:
        mark(deployment, "finished", f"{finished}\n")
    if finished == "85":
        mark(deployment, "ended", "timeout\n")
    if requeued:
        mark(deployment, "requeued", "")
    situation = deployment.situation()
    assert (situation.state, situation.explanation, situation.run) == (state, explanation, max(1, runs))


def test_a_job_that_waits_again_is_looked_at_no_more_often_for_what_it_noted(deployment, fake, monkeypatch):
    deployment.submit()
    mark(deployment, "finished", "143\n")
    asked = asked_in(monkeypatch, "QUEUED")
    watch(deployment, "QUEUED", 0, 2)
    assert len(asked) <= 3


def test_a_marker_may_come_late(deployment, fake):
    deployment.submit()
    fake.jobs = {}
    assert deployment.situation().state == "ENDING"
    mark(deployment, "finished", "0\n")
    assert deployment.situation().state == "COMPLETED"


@pytest.mark.parametrize(("noted", "state"), [(0, "COMPLETED"), (1, "FAILED")])
def test_a_job_that_ends_while_the_scheduler_is_asked(deployment, fake, noted, state):
    """The scheduler knows only that it ended, as Slurm's own qstat does; the job has noted how in the meantime."""
    job_id, _ = deployment.submit()

    def ask(_):
        mark(deployment, "finished", f"{noted}\n")
        return JobRecord(job_id, JobState.COMPLETED)

    situation = deployment.situation(ask)
    assert (situation.state, situation.exit_code) == (state, noted)


def test_a_silent_scheduler_is_no_verdict(deployment, fake):
    deployment.submit()
    fake.silent = True
    assert deployment.situation().state == "UNKNOWN"
    mark(deployment, "finished", "0\n")
    assert deployment.situation().state == "COMPLETED"


@pytest.mark.parametrize("finished", ["", "137"])
def test_a_job_that_was_killed_for_its_memory_and_only_its_output_says_so(deployment, fake, finished):
    deployment.submit()
    if finished:
        mark(deployment, "finished", f"{finished}\n")
    fake.jobs["1"] = JobRecord("1", JobState.FAILED, 0, 9)
    words = "slurmstepd: error: StepId=4.batch exceeded memory limit (819200000 > 104857600), being killed\n"
    (deployment.path / "scheduler.log").write_text(words)
    situation = deployment.situation()
    assert (situation.state, situation.explanation) == ("OUT_OF_MEMORY", "it used more memory than it was given")


def test_the_end_of_the_error_output_is_told(deployment, fake):
    deployment.submit()
    mark(deployment, "finished", "1\n")
    fake.jobs = {}
    (deployment.path / "error.log").write_text("".join(f"line {number}\n" for number in range(100)))
    assert deployment.situation().error_tail[-1] == "line 99"
    assert len(deployment.situation().error_tail) == 15


def test_a_job_that_its_scheduler_removes_for_what_it_comes_after_says_so(deployment, fake):
    deployment.submit(waited={"before": "9"})
    fake.jobs = {"1": JobRecord("1", JobState.CANCELLED)}
    before = deployment.path.parent / "before" / "state"
    before.mkdir(parents=True)
    assert deployment.situation().explanation == "it was cancelled"
    (before / "finished").write_text("3\n")
    assert deployment.situation().explanation == "a job that it depends on has failed"


def test_the_signal_that_ended_a_training_is_named(deployment, fake):
    deployment.submit()
    mark(deployment, "finished", "139\n")
    fake.jobs = {}
    assert deployment.situation().explanation == "the training ended with exit code 139 (SIGSEGV)"


def test_the_end_of_the_output_is_told_where_only_the_containers_runtime_wrote_errors(deployment, fake):
    deployment.submit()
    mark(deployment, "finished", "3\n")
    fake.jobs = {}
    own = "INFO:    gocryptfs not found, will not be able to use gocryptfs"
    (deployment.path / "error.log").write_text(f"{own}\n")
    assert deployment.situation().error_tail == [own]
    (deployment.path / "output.log").write_text("no such data set\n")
    assert deployment.situation().error_tail == ["no such data set"]


@pytest.mark.parametrize(("number", "last"), [(3, "of the third"), (0, "of the first"), (5, "of the first")])
def test_the_rank_that_failed_first_is_told(deployment, fake, number, last):
    deployment.submit()
    fake.jobs = {}
    mark(deployment, "finished", "9\n")
    mark(deployment, "failed_rank", f"{number} 9 node02\n")
    (deployment.path / "error.log").write_text("of the first\n")
    (deployment.path / "ranks" / "3").mkdir(parents=True)
    (deployment.path / "ranks" / "3" / "error.log").write_text("of the third\n")
    words = f"the training ended with exit code 9; rank {number} on node02 failed first, with exit code 9"
    assert (deployment.situation().explanation, deployment.situation().error_tail) == (words, [last])


def test_a_rank_that_failed_is_no_cause_of_an_end_from_outside(deployment, fake):
    deployment.submit()
    mark(deployment, "failed_rank", "1 9 node02\n")
    fake.jobs["1"] = JobRecord("1", JobState.TIMEOUT)
    assert deployment.situation().explanation == "it reached its wall time"


# --- watching and cancelling


def test_watching_brings_whole_lines_and_comes_back_for_news(deployment, fake):
    deployment.submit()
    fake.jobs["1"] = JobRecord("1", JobState.RUNNING)
    (deployment.path / "output.log").write_text("epoch 1\nepo")
    news = watch(deployment, "QUEUED", 0, 5)
    assert (news.situations["example-1"].state, news.output, news.offset) == ("RUNNING", "epoch 1\n", 8)
    began = time.monotonic()
    assert watch(deployment, "RUNNING", 8, 0.5).output == ""
    assert 0.4 < time.monotonic() - began < 3


def test_a_line_that_is_not_ended_asks_the_scheduler_no_more_often(deployment, fake, monkeypatch):
    deployment.submit()
    fake.jobs["1"] = JobRecord("1", JobState.RUNNING)
    (deployment.path / "output.log").write_text("Epoch 1 ... ")
    asked = asked_in(monkeypatch, "RUNNING")
    watch(deployment, "RUNNING", 0, 2)
    assert len(asked) <= 3


def test_a_job_that_is_waited_for_quietly_is_asked_for_at_its_end_only(deployment, fake, monkeypatch):
    deployment.submit()
    known = [JobRequest("example-1", state="QUEUED")]
    with monkeypatch.context() as patched:
        asked = asked_in(patched, "RUNNING")
        news = campaign_of(deployment).watch(known, 1.5, quietly=True)
    assert news.situations["example-1"].state == "RUNNING"
    assert len(asked) == 1
    mark(deployment, "finished", "0")
    began = time.monotonic()
    news = campaign_of(deployment).watch(known, 60, quietly=True)
    assert news.situations["example-1"].state == "COMPLETED"
    assert time.monotonic() - began < 1


def test_a_line_without_end_does_not_hold_up_what_is_behind_it(deployment, fake):
    deployment.submit()
    fake.jobs["1"] = JobRecord("1", JobState.RUNNING)
    (deployment.path / "output.log").write_text("x" * 600_000 + "\nnext\nlast words")
    offset, output = 0, ""
    for _ in range(4):
        news = watch(deployment, "RUNNING", offset, 0.1)
        offset, output = news.offset, output + news.output
    assert output.endswith("x\nnext\n")
    mark(deployment, "finished", "0")
    assert watch(deployment, "COMPLETED", offset, 0.1).output == "last words"


def test_cancelling_and_removing(deployment, fake):
    deployment.submit()
    fake.jobs["1"] = JobRecord("1", JobState.RUNNING)
    assert cancel(deployment)
    assert deployment.situation().state == "CANCELLED"
    assert not cancel(deployment)
    assert deployment.wait_for_end(1)
    assert deployment.remove()
    assert not deployment.remove()
    assert not cancel(deployment)


@pytest.mark.component
def test_a_real_process_is_a_job_without_a_scheduler(tmp_path, code):
    deployment = Deployment(Workspace(str(tmp_path / "w")), "one", "none", "one")
    plan = plan_of(code)
    plan["job"]["script"] = "#!/bin/bash\necho begun > output.log\nsleep 30\n"
    deployment.stage(plan, script_of(code))
    job_id, submitted = deployment.submit()
    assert submitted
    assert deployment.situation().state == "RUNNING"
    assert deployment.submit() == (job_id, False)
    assert cancel(deployment)
    assert deployment.wait_for_end(5)
    assert deployment.situation().state == "CANCELLED"


@pytest.mark.parametrize("text", ["", "\x00junk", None])
def test_an_end_that_was_noted_and_cannot_be_read_is_told_by_the_scheduler(deployment, fake, text):
    """The marker comes at the end, and at once: that it is there says that the job came to its end."""
    deployment.submit()
    if text is None:
        (deployment.path / "state" / "finished").mkdir()
    else:
        mark(deployment, "finished", text)
    fake.jobs["1"] = JobRecord("1", JobState.COMPLETED, exit_code=0)
    situation = deployment.situation()
    assert (situation.state, situation.exit_code) == ("COMPLETED", 0)
    fake.jobs["1"] = JobRecord("1", JobState.FAILED, exit_code=3)
    assert (deployment.situation().state, deployment.situation().exit_code) == ("FAILED", 3)
    fake.jobs["1"] = JobRecord("1", JobState.COMPLETED)  # nobody knows how it ended
    assert deployment.situation().state != "COMPLETED"
