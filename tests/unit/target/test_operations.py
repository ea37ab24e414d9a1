"""What a user does to a job: what its state permits is done once, and the rest is refused with the reason."""

from __future__ import annotations

import os
import time
from dataclasses import asdict, replace

import pytest
from fake_deployment import plan_of, script_of

from modak_ansible.errors import ModakError
from modak_ansible.schedulers.base import ActionRefused, JobRecord, JobState, Scheduler, SchedulerSilent
from modak_ansible.schedulers.registry import SCHEDULERS
from modak_ansible.target.core.files import read_json
from modak_ansible.target.core.workspace import Workspace
from modak_ansible.target.jobs import judgement, operations
from modak_ansible.target.jobs.attempts import attempts_of
from modak_ansible.target.jobs.campaign import Campaign
from modak_ansible.target.jobs.job import Deployment
from modak_ansible.target.jobs.operations import operate
from modak_ansible.target.jobs.results import results_of

pytestmark = pytest.mark.usefixtures("passing_time")


class FakeScheduler(Scheduler):
    """A scheduler whose jobs do at once what they are told."""

    name = "fake"
    title = "Fake"

    def __init__(self):
        self.jobs = {}
        self.told = []
        self.trouble = None

    def _tell(self, verb, job_id, state):
        if self.trouble:
            raise self.trouble
        self.told.append(verb)
        self.jobs[job_id] = replace(self.jobs[job_id], state=state)

    def submit(self, run, script, name, waits=None):
        job_id = str(len(self.jobs) + 1)
        self.jobs[job_id] = JobRecord(job_id, JobState.QUEUED, name=name)
        return job_id

    def find(self, run, name, folder):
        if self.trouble:
            raise self.trouble
        return sorted(self.jobs)

    def status(self, run, job_id):
        return self.jobs.get(job_id)

    def statuses(self, run, job_ids):
        return {job_id: self.jobs[job_id] for job_id in job_ids if job_id in self.jobs}

    def cancel(self, run, *job_ids):
        for job_id in job_ids:
            self._tell("cancel", job_id, JobState.CANCELLED)
        self.told[-len(job_ids) :] = ["cancel"]  # in one call

    def hold(self, run, job_id):
        self._tell("hold", job_id, JobState.HELD)

    def release(self, run, job_id):
        self._tell("release", job_id, JobState.QUEUED)

    def requeue(self, run, job_id):
        self._tell("requeue", job_id, JobState.QUEUED)


@pytest.fixture
def fake(monkeypatch):
    scheduler = FakeScheduler()
    monkeypatch.setitem(SCHEDULERS, "fake", scheduler)
    for name in ("_SEEN_SECONDS", "_END_SECONDS", "GRACE"):
        monkeypatch.setattr(operations, name, 0.2)
    monkeypatch.setattr(judgement, "GRACE", 0)
    return scheduler


@pytest.fixture
def deployment(staged):
    staged.submit()
    return staged


def become(fake, state, **more):
    fake.jobs["1"] = JobRecord("1", JobState(state), name="example-1", **more)


def done(deployment, verb):
    """The situation behind an operation, and whether anything was done."""
    campaign = Campaign(Workspace(str(deployment.path.parent.parent)), "fake")
    (job,) = operate(campaign, verb, [deployment.path.name])
    if job.problem:
        raise ModakError(job.problem, hint=job.hint)
    return job.situation, job.changed


def mark(deployment, name, text):
    (deployment.path / "state" / name).write_text(text)


# --- hold, release, requeue, cancel


def test_an_operators_hold_is_none_of_the_users(deployment, fake):
    """When the operator releases the job, it is to stay held."""
    become(fake, "HELD", held_by="operator")
    with pytest.raises(ModakError, match="is held by an operator, and its scheduler does not allow a second hold"):
        done(deployment, "hold")  # as Slurm, which has one reason for each job
    assert not (deployment.path / "state" / "held").exists()

    def hold(run, job_id):
        fake.told.append("hold both")
        become(fake, "HELD", held_by="user")

    fake.hold = hold
    situation, is_done = done(deployment, "hold")
    assert (situation.state, is_done, fake.told) == ("HELD", True, ["hold", "hold both"])
    assert done(deployment, "hold")[1] is False


def test_a_job_that_waits_for_others_can_be_held(deployment, fake):
    become(fake, "QUEUED", reason="it waits for other jobs")
    assert done(deployment, "release")[1] is False
    assert done(deployment, "hold")[1] is True


DONE = [("hold", "QUEUED", "HELD"), ("release", "HELD", "QUEUED"), ("requeue", "RUNNING", "QUEUED"),
        ("requeue", "SUSPENDED", "QUEUED")]  # fmt: skip
NOTHING_TO_DO = [
    ("hold", "HELD"),
    ("release", "QUEUED"),
    ("release", "RUNNING"),
    ("requeue", "QUEUED"),
    ("requeue", "HELD"),
]
REFUSED = [
    ("hold", "RUNNING", "job 1 is running and cannot be held"), ("hold", "SUSPENDED", "cannot be held"),
    ("hold", "FAILED", r"job 1 is failed \(.*\) and cannot be held"), ("release", "TIMEOUT", "cannot be released"),
    ("requeue", "CANCELLED", r"job 1 is cancelled \(it was cancelled\) and cannot be requeued"),
    ("requeue", "NODE_FAIL", "cannot be requeued"),
    ("hold", "COMPLETED", "job 1 is completed and cannot be held"),
]  # fmt: skip


@pytest.mark.parametrize(("verb", "before", "after"), DONE)
def test_what_the_state_permits_is_done(deployment, fake, verb, before, after):
    become(fake, before)
    situation, changed = done(deployment, verb)
    assert (situation.state, changed, fake.told) == (after, True, [verb])


@pytest.mark.parametrize(("verb", "state"), NOTHING_TO_DO)
def test_what_is_so_already_changes_nothing(deployment, fake, verb, state):
    become(fake, state)
    situation, changed = done(deployment, verb)
    assert (situation.state, changed, fake.told) == (state, False, [])


@pytest.mark.parametrize(("verb", "state", "words"), REFUSED)
def test_what_the_state_does_not_permit_is_refused(deployment, fake, verb, state, words):
    become(fake, state)
    if state == "COMPLETED":
        mark(deployment, "finished", "0")
    with pytest.raises(ModakError, match=words) as caught:
        done(deployment, verb)
    ends = {"RUNNING": "modak cancel ends it", "SUSPENDED": "modak cancel ends it", "COMPLETED": "modak results"}
    assert ends.get(state, "modak resume runs it again") in caught.value.hint
    assert fake.told == []


@pytest.mark.parametrize("verb", ["hold", "release", "requeue", "cancel"])
def test_without_a_job_there_is_nothing_to_act_on(staged, verb):
    with pytest.raises(ModakError, match="no job was submitted"):
        done(staged, verb)


@pytest.mark.parametrize(("verb", "state"), [("hold", "QUEUED"), ("release", "HELD"), ("requeue", "RUNNING")])
def test_the_scheduler_may_refuse_or_be_silent(deployment, fake, verb, state):
    become(fake, state)
    fake.trouble = ActionRefused("leave it")
    with pytest.raises(ModakError, match=r"job 1 cannot be \w+: leave it"):
        done(deployment, verb)
    fake.trouble = SchedulerSilent("hush")
    with pytest.raises(ModakError, match=r"it is not known whether job 1 was \w+: hush"):
        done(deployment, verb)


def test_a_job_that_begins_while_it_is_held_is_let_go(deployment, fake):
    """Slurm takes the hold of a running job without a word, and keeps it for when the job is requeued."""
    become(fake, "QUEUED")
    fake.hold = lambda run, job_id: become(fake, "RUNNING")
    released = []
    fake.release = lambda run, job_id: released.append(job_id)
    with pytest.raises(ModakError, match="job 1 is running and cannot be held"):
        done(deployment, "hold")
    assert released == ["1"]


def test_a_hold_that_somebody_else_took_back_meanwhile_is_told_as_any(deployment, fake):
    become(fake, "QUEUED")

    found = fake.statuses

    def statuses(run, job_ids):
        (deployment.state / "held").unlink(missing_ok=True)  # by modak release, elsewhere
        return found(run, job_ids)

    fake.hold, fake.statuses = lambda run, job_id: become(fake, "RUNNING"), statuses
    with pytest.raises(ModakError, match="job 1 is running and cannot be held"):
        done(deployment, "hold")


def test_a_cancel_that_was_not_heard_is_told_where_its_mark_went_with_the_folder(deployment, fake):
    def cancel(run, *job_ids):
        (deployment.state / "cancelled").unlink()  # by modak undeploy --leave-job, elsewhere
        raise SchedulerSilent("hush")

    fake.cancel = cancel
    with pytest.raises(ModakError, match="could not be cancelled: hush"):
        done(deployment, "cancel")


def test_a_job_that_stays_held_is_no_success(deployment, fake):
    become(fake, "HELD", reason="JobHeldAdmin")
    fake.release = lambda run, job_id: None
    with pytest.raises(ModakError, match="job 1 is still held: JobHeldAdmin"):
        done(deployment, "release")


@pytest.mark.parametrize("state", ["QUEUED", "HELD", "RUNNING"])
def test_cancelling_keeps_the_folder_and_says_who_it_was(deployment, fake, state):
    become(fake, state)
    (deployment.path / "output.log").write_text("epoch 1\n")
    situation, changed = done(deployment, "cancel")
    assert (situation.state, situation.explanation, changed) == ("CANCELLED", "by modak", True)
    assert (deployment.path / "output.log").read_text() == "epoch 1\n"
    assert done(deployment, "cancel")[1] is False
    assert fake.told == ["cancel"]


@pytest.mark.parametrize("state", ["FAILED", "TIMEOUT"])
def test_a_job_that_had_ended_is_not_cancelled(deployment, fake, state):
    become(fake, state)
    situation, changed = done(deployment, "cancel")
    assert (situation.state, changed) == (state, False)


def test_a_cancel_that_the_scheduler_did_not_hear_leaves_no_mark(deployment, fake):
    fake.trouble = SchedulerSilent("hush")
    with pytest.raises(ModakError, match="could not be cancelled"):
        done(deployment, "cancel")
    fake.trouble = None
    become(fake, "FAILED")
    assert deployment.situation().state == "FAILED"


def test_a_job_that_was_never_noted_is_cancelled_too(staged, fake):
    """Its submitter was killed between the scheduler's taking it and its own note."""
    mark(staged, "intent.json", "{}")
    become(fake, "RUNNING")
    assert done(staged, "cancel")[0].state == "CANCELLED"


# --- a job that the scheduler runs again


def test_a_requeued_job_waits_whatever_its_earlier_life_noted(deployment, fake):
    for name, text in (("started", "1 1 node01"), ("finished", "143\n"), ("ended", "timeout\n")):
        mark(deployment, name, text)
    become(fake, "RUNNING")
    assert deployment.situation().state == "ENDING"
    become(fake, "QUEUED", reason="BeginTime")
    assert deployment.situation().state == "QUEUED"
    assert deployment.finished() == 143, "it may be younger than the scheduler's answer"
    long_ago = time.time() - 100
    os.utime(deployment.path / "state" / "finished", (long_ago, long_ago))
    situation = deployment.situation()
    assert (situation.state, situation.explanation, situation.started) == ("QUEUED", "BeginTime", None)
    assert deployment.finished() is None
    become(fake, "NODE_FAIL")
    assert deployment.situation().state == "NODE_FAIL"


# --- another attempt

ENDS = ["FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL"]


@pytest.mark.parametrize("state", ENDS)
def test_an_attempt_without_success_makes_room(deployment, fake, state):
    become(fake, state)
    (deployment.path / "output.log").write_text("epoch 1\n")
    (deployment.path / "progress.json").write_text('{"epoch": 9}')
    (deployment.path / "code" / "checkpoint.pt").write_text("weights")
    for name, text in (("claim", "1\n"), ("started", "1 1 node01"), ("finished", "1\n"), ("ended", "timeout\n")):
        mark(deployment, name, text)
    mark(deployment, "cancelled", "modak\n")
    assert deployment.set_aside("1") == 1
    aside = deployment.path / "attempts" / "1"
    assert (aside / "output.log").read_text() == "epoch 1\n"
    assert (aside / "state" / "claim").read_text() == "1\n"
    assert (deployment.path / "code" / "checkpoint.pt").read_text() == "weights"
    assert deployment.situation().state == "NONE"
    assert not (deployment.path / "progress.json").exists(), "the next attempt has not got there"
    assert deployment.submit() == ("2", True)
    situation = deployment.situation()
    assert (situation.state, situation.job_id, situation.attempt, situation.started) == ("QUEUED", "2", 2, None)
    assert deployment.submit() == ("2", False)
    listed = {result["path"] for result in results_of(deployment.path, [])["files"]}
    assert {"attempts/1/output.log", "attempts/1/state/finished", "attempts/1/jobs.json"} <= listed


@pytest.mark.parametrize("state", ["QUEUED", "HELD", "RUNNING", "COMPLETED"])
def test_a_job_that_lives_or_has_completed_stays(deployment, fake, state):
    become(fake, state)
    if state == "COMPLETED":
        mark(deployment, "finished", "0\n")
    assert deployment.set_aside("1") is None
    assert attempts_of(deployment.path) == []


def test_only_the_job_that_was_seen_ended_is_set_aside(deployment, fake):
    """A second resume, or the first one tried again over a new connection, leaves the new attempt alone."""
    become(fake, "FAILED")
    assert deployment.set_aside("1") == 1
    deployment.submit()
    fake.jobs["2"] = JobRecord("2", JobState.FAILED, name="example-1")
    assert deployment.set_aside("1") is None
    assert deployment.set_aside("2") == 2
    assert [path.name for path in attempts_of(deployment.path)] == ["1", "2"]


def test_jobs_of_earlier_attempts_are_not_taken_for_the_next_ones(deployment, fake):
    """Killed between submission and note, in the second attempt."""
    become(fake, "FAILED")
    fake.jobs["9"] = JobRecord("9", JobState.FAILED, name="example-1")  # submitted twice, and left alone by its claim
    deployment.set_aside("1")
    (deployment.path / "state").mkdir()
    mark(deployment, "intent.json", "{}")
    assert deployment.submit() == ("3", True)
    (deployment.path / "state" / "submitted.json").unlink()
    assert deployment.submit() == ("3", False)


def test_setting_aside_goes_on_where_it_was_cut_short(deployment, fake):
    become(fake, "FAILED")
    (deployment.path / "output.log").write_text("epoch 1\n")
    (deployment.path / "attempts" / "1").mkdir(parents=True)
    (deployment.path / "output.log").rename(deployment.path / "attempts" / "1" / "output.log")
    (deployment.path / "metrics.json").write_text("{}")
    assert deployment.set_aside("1") == 1
    kept = {path.name for path in (deployment.path / "attempts" / "1").iterdir()}
    assert kept == {"jobs.json", "metrics.json", "output.log", "state"}
    assert read_json(deployment.path / "attempts" / "1" / "jobs.json") == {"jobs": ["1"]}


def test_with_a_silent_scheduler_nothing_is_set_aside(deployment, fake):
    become(fake, "FAILED")
    fake.trouble = SchedulerSilent("hush")
    with pytest.raises(ModakError, match="it is not known which jobs there were"):
        deployment.set_aside("1")
    assert deployment.situation().state == "FAILED"


def test_files_that_the_training_changed_are_put_back_and_nothing_else(deployment, fake, code):
    """A second attempt begins with the plan's own files, among what the first one made."""
    become(fake, "FAILED")
    deployment.set_aside("1")
    (deployment.path / "code" / "train.py").write_text("changed by itself")
    (deployment.path / "code" / "checkpoints").mkdir()
    (deployment.path / "code" / "checkpoints" / "1.pt").write_text("weights")
    assert not deployment.is_staged(plan_of(code))
    deployment.stage(plan_of(code), script_of(code))
    assert deployment.is_staged(plan_of(code))
    assert (deployment.path / "code" / "checkpoints" / "1.pt").read_text() == "weights"
    assert len(attempts_of(deployment.path)) == 1


@pytest.mark.component
def test_two_resumes_at_once_make_one_attempt(deployment, fake):
    import os

    become(fake, "FAILED")
    children = []
    for _ in range(4):
        child = os.fork()
        if child == 0:
            attempt = deployment.set_aside("1")
            (deployment.path / f"answer-{os.getpid()}").write_text(str(attempt))
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    assert sorted(path.read_text() for path in deployment.path.glob("answer-*")) == ["1", "None", "None", "None"]


def test_a_hold_that_the_scheduler_does_not_show_is_released_all_the_same(deployment, fake):
    """Slurm's own qstat, where it plays Torque's."""
    become(fake, "QUEUED")
    fake.hold = lambda run, job_id: fake.told.append("hold")
    situation, changed = done(deployment, "hold")
    assert (situation.state, changed) == ("QUEUED", True)
    assert done(deployment, "release")[1]
    assert not done(deployment, "release")[1]
    assert fake.told == ["hold", "release"]


# --- several at once


@pytest.fixture
def three(tmp_path, fake, code):
    """Jobs 1 to 3, of deployments a, b and c; d has none."""
    workspace = Workspace(str(tmp_path / "workspace"))
    for name in "abcd":
        made = Deployment(workspace, name, "fake", name)
        made.stage(plan_of(code), script_of(code))
        if name != "d":
            made.submit()
    return workspace


def rows(workspace, verb, names="abc"):
    return {job.deployment: asdict(job) for job in operate(Campaign(workspace, "fake"), verb, names)}


def test_a_deed_on_several_jobs_is_done_where_their_states_permit_it(three, fake):
    fake.jobs["2"] = JobRecord("2", JobState.RUNNING)
    found = rows(three, "hold", "abcd")
    assert {name: (each["situation"]["state"], each["changed"]) for name, each in found.items()} == {
        "a": ("HELD", True), "b": ("RUNNING", False), "c": ("HELD", True), "d": ("NONE", False)
    }  # fmt: skip
    assert found["b"]["problem"] == "job 2 is running and cannot be held"
    assert (found["b"]["permitted"], found["d"]["permitted"]) == (False, False)
    assert found["d"]["problem"] == "no job was submitted"
    again = rows(three, "hold", "ac")
    assert [(each["changed"], each["problem"]) for each in again.values()] == [(False, "")] * 2
    assert {name: each["situation"]["state"] for name, each in rows(three, "release").items()} == {
        "a": "QUEUED", "b": "RUNNING", "c": "QUEUED"
    }  # fmt: skip


def test_several_jobs_are_cancelled_in_one_call(three, fake):
    fake.jobs["2"] = JobRecord("2", JobState.COMPLETED)
    (three.deployments / "b" / "state" / "finished").write_text("0")
    found = rows(three, "cancel")
    assert {name: (each["situation"]["state"], each["changed"]) for name, each in found.items()} == {
        "a": ("CANCELLED", True), "b": ("COMPLETED", False), "c": ("CANCELLED", True)
    }  # fmt: skip
    assert fake.told == ["cancel"]


def test_a_refusal_is_told_of_the_job_that_it_is_about(three, fake):
    for number in "123":
        fake.jobs[number] = JobRecord(number, JobState.RUNNING)
    fake.trouble = ActionRefused("the server lets only its operators do that")
    found = rows(three, "requeue")
    assert all(
        each["problem"].endswith("cannot be requeued: the server lets only its operators do that")
        for each in found.values()
    )
    assert all(each["permitted"] for each in found.values())


def test_of_a_silent_scheduler_nothing_is_known_of_several_either(three, fake, monkeypatch):
    def silent(run, job_ids):
        raise SchedulerSilent("hush")

    monkeypatch.setattr(fake, "statuses", silent)
    assert all("the scheduler does not answer: hush" in row["problem"] for row in rows(three, "hold").values())


def test_an_attempt_is_never_kept_over_another_one(deployment, fake):
    """The user may have removed earlier ones to make room, or copied one."""
    for number in (1, 2):
        fake.jobs[str(number)] = JobRecord(str(number), JobState.FAILED, name="example-1")
        (deployment.path / "output.log").write_text(f"attempt {number}\n")
        assert deployment.set_aside(str(number)) == number
        deployment.submit()
    kept = deployment.path / "attempts"
    (kept / "1").rename(kept / "1-copy")
    fake.jobs["3"] = JobRecord("3", JobState.FAILED, name="example-1")
    (deployment.path / "output.log").write_text("attempt 3\n")
    assert deployment.set_aside("3") == 3
    assert (kept / "2" / "output.log").read_text() == "attempt 2\n"
    deployment.submit()
    assert deployment.situation().attempt == 4
