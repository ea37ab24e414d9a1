"""How a job ended whose scheduler has forgotten it, or does not answer: by what it wrote, and by what was known before."""

from __future__ import annotations

import json
import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.errors import TARGET_UNREACHABLE, ModakError
from modak_ansible.schedulers.base import AccountingSilent, JobRecord, JobState, Scheduler, SchedulerSilent
from modak_ansible.schedulers.direct import Direct
from modak_ansible.schedulers.registry import SCHEDULERS
from modak_ansible.target.core.answer import answer
from modak_ansible.target.core.workspace import Workspace
from modak_ansible.target.jobs import judgement, operations
from modak_ansible.target.jobs.campaign import Campaign, JobRequest, Removed
from modak_ansible.target.jobs.job import Deployment
from modak_ansible.target.jobs.markers import _killed_for, kill_of
from modak_ansible.target.jobs.operations import operate
from modak_ansible.target.jobs.query import query

pytestmark = pytest.mark.usefixtures("passing_time")

JOB = "135.frontend"
BEGAN = 1_700_000_000


class Forgetful(Scheduler):
    """Knows what a test has it know; a node may be down, on which nothing can be cancelled."""

    name = "fake"
    title = "Torque"

    def __init__(self):
        self.job, self.silence, self.hangs, self.finds = None, None, False, []

    def status(self, run, job_id):
        if self.silence:
            raise self.silence
        return self.job

    def statuses(self, run, job_ids):
        return {job_id: self.status(run, job_id) for job_id in job_ids if self.status(run, job_id)}

    def find(self, run, name, folder):
        if self.silence:
            raise self.silence
        return self.finds

    def cancel(self, run, *job_ids):
        if self.silence or self.hangs:
            raise self.silence or SchedulerSilent("qdel: did not answer within 60 s")
        self.job = None

    def removal_by_operator(self, job_id):
        return f"qdel -p {job_id}"


@pytest.fixture
def fake(monkeypatch):
    scheduler = Forgetful()
    monkeypatch.setitem(SCHEDULERS, "fake", scheduler)
    monkeypatch.setattr(judgement, "GRACE", 0)
    return scheduler


def campaign_of(deployment):
    return Campaign(Workspace(str(deployment.path.parent.parent)), "fake")


@pytest.fixture
def deployment(tmp_path, fake):
    """One whose job has begun."""
    made = Deployment(Workspace(str(tmp_path / "workspace")), "example-1", "fake", "example-1")
    state = made.path / "state"
    state.mkdir(parents=True)
    (state / "submitted.json").write_text(json.dumps({"job_id": JOB}))
    (state / "claim").write_text(f"{JOB}\n")
    (state / "started").write_text(f"{BEGAN} {JOB} node2\n")
    os.utime(state / "started", (BEGAN, BEGAN))
    return made


def write(deployment, name, text, age=None):
    path = deployment.path / name
    path.write_text(text)
    if age is not None:
        os.utime(path, (BEGAN + age, BEGAN + age))


def ended(deployment, text=""):
    write(deployment, "scheduler.log", text)
    situation = deployment.situation()
    return situation.state, situation.explanation


# --- what the scheduler wrote into the job's output

KILLS = [
    ("walltime 32 exceeded limit 30", "TIMEOUT", "it reached its wall time, walltime 32 exceeded limit 30"),
    ("cput 12 exceeded limit 10", "TIMEOUT", "it used up its cpu time, cput 12 exceeded limit 10"),
    ("pcput exceeded limit 10", "TIMEOUT", "it used up its cpu time, pcput exceeded limit 10"),
    ("cput job total 12 secs exceeded limit 10 secs", "TIMEOUT", "it used up its cpu time"),
    ("mem job total 2048 kb exceeded limit 1024 kb", "OUT_OF_MEMORY", "it used more memory than it was given"),
    ("mem 2048kb exceeded limit 1024kb", "OUT_OF_MEMORY", "it used more memory than it was given"),
    ("vmem 2097152 exceeded limit 1048576", "OUT_OF_MEMORY", "it used more memory than it was given"),
    ("pvmem exceeded limit 1048576", "OUT_OF_MEMORY", "it used more memory than it was given"),
    ("pmem 12 exceeded limit 10", "OUT_OF_MEMORY", "it used more memory than it was given"),
    ("swap rate due to memory oversubscription is too high", "OUT_OF_MEMORY", "it used more memory than it was given"),
    ("node 1 (node2) requested job terminate, 'EOF' (code 1099) - received SISTER_EOF", "NODE_FAIL", "one of its nodes failed"),
    ("something that no version wrote so far", "FAILED", "its scheduler ended it, something that no version wrote so far"),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "state", "words"), KILLS)
def test_why_a_job_was_killed_that_torque_has_forgotten(deployment, reason, state, words):
    found, said = ended(deployment, f"start\n=>> PBS: job killed: {reason}\n")
    assert (found, said[: len(words)]) == (state, words)
    assert reason in said


@pytest.mark.parametrize(
    ("reason", "state", "words"),
    [("TERM_RUNLIMIT: job killed after reaching LSF run time limit.", "TIMEOUT", "it reached its wall time, job killed after"),
     ("TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.", "OUT_OF_MEMORY", "it used more memory than it was given"),
     ("TERM_OWNER: job killed by owner.", "CANCELLED", "its scheduler ended it, job killed by owner")],
)  # fmt: skip
def test_why_a_job_was_killed_that_lsf_has_forgotten(deployment, reason, state, words):
    found, said = ended(deployment, f"\n{reason}\nExited with exit code 140.\n\nResource usage summary:\n")
    assert (found, said[: len(words)]) == (state, words)


@pytest.mark.parametrize(
    "record",
    [None, JobRecord(JOB, JobState.COMPLETED, 0), JobRecord(JOB, JobState.CANCELLED, None, 15), JobRecord(JOB, JobState.FAILED, 1)],
)  # fmt: skip
@pytest.mark.parametrize("finished", ["", "143\n"])
def test_the_output_says_more_than_a_signal_does(deployment, fake, record, finished):
    """A job over several nodes that outgrew its memory is killed with TERM, as one that its user deletes."""
    fake.job = record
    if finished:
        write(deployment, "state/finished", finished)
    assert ended(deployment, "=>> PBS: job killed: mem job total 9 kb exceeded limit 8 kb\n")[0] == "OUT_OF_MEMORY"


def test_what_modak_cancelled_was_cancelled(deployment):
    write(deployment, "state/cancelled", "modak\n")
    assert ended(deployment, "=>> PBS: job killed: walltime 32 exceeded limit 30\n") == ("CANCELLED", "by modak")


def test_what_cancelled_itself_says_why(deployment):
    write(deployment, "state/cancelled", "the notebook itself, idle for 60 s\n")
    write(deployment, "state/finished", "143\n")
    assert ended(deployment) == ("CANCELLED", "by the notebook itself, idle for 60 s")


def test_a_cpu_time_is_no_wall_time(deployment, fake):
    fake.job = JobRecord(JOB, JobState.TIMEOUT, limit="cput")
    assert ended(deployment) == ("TIMEOUT", "it used up its cpu time")
    fake.job = JobRecord(JOB, JobState.TIMEOUT, limit="walltime")
    assert ended(deployment) == ("TIMEOUT", "it reached its wall time")


@pytest.mark.parametrize(
    ("name", "job_id", "is_found"),
    [("mine.e135", JOB, True), ("mine.o135", JOB, True), ("mine.e135-1", "135[1].frontend", True), ("scheduler.log-1", "135[1].frontend", True),
     ("mine.e135-2", "135[1].frontend", False), ("mine.e1350", JOB, False), ("mine.e135-1", JOB, False), ("error.log", JOB, True)],
)  # fmt: skip
def test_where_torque_writes_of_a_job(tmp_path, name, job_id, is_found):
    (tmp_path / name).write_text("=>> PBS: job killed: walltime 32 exceeded limit 30\n")
    assert bool(kill_of(tmp_path, job_id)) == is_found


def test_the_job_may_have_written_more_behind_it(tmp_path):
    lines = ["=>> PBS: job killed: cput 12 exceeded limit 10", *(f"  traceback line {number}" for number in range(300))]
    (tmp_path / "scheduler.log").write_text("\n".join(lines))
    assert kill_of(tmp_path, JOB).state is JobState.TIMEOUT


@pytest.mark.parametrize(
    ("cause", "state"), [("TIME LIMIT", "TIMEOUT"), ("NODE FAILURE", "NODE_FAIL"), ("PREEMPTION", "PREEMPTED"), ("JOB REQUEUE", "LOST")]
)  # fmt: skip
def test_slurm_says_so_in_the_output_too(deployment, cause, state):
    """Where it keeps no accounting, and has forgotten the job."""
    words = f"slurmstepd: error: *** JOB 135 ON node2 CANCELLED AT 2026-11-22T01:10:00 DUE TO {cause} ***\n"
    assert ended(deployment, words)[0] == state
    write(deployment, "scheduler.log", words, age=-60)  # of a run before this one
    (deployment.path / "state" / "end.json").unlink(missing_ok=True)
    assert deployment.situation().state == "LOST"


def test_an_output_that_was_not_delivered_is_missed(deployment):
    said = deployment.situation().explanation
    assert said.endswith("Torque has not delivered its output (scheduler.log)")
    assert "not brought" not in ended(deployment)[1]


def test_where_nothing_schedules_no_output_is_missed(deployment, fake):
    """A process of this machine that was killed: said was ``no scheduler has not delivered its output``."""
    fake.brings_output = Direct.brings_output
    assert deployment.situation().explanation.endswith("it was killed")


@given(st.text(max_size=80))
def test_any_reason_has_a_state(text):
    assert _killed_for(text).state.is_final


# --- for how long it ran


def test_how_long_a_job_ran_that_was_killed(deployment, fake):
    write(deployment, "output.log", "epoch 1\n", age=20)
    situation = deployment.situation()
    assert (situation.state, situation.ended - situation.started) == ("LOST", 20)  # when it last wrote something
    (job,) = query(Workspace(str(deployment.path.parent.parent)), campaign_of(deployment), ["example-1"])
    assert job.elapsed == 20
    write(deployment, "scheduler.log", "=>> PBS: job killed: walltime 32 exceeded limit 30\n", age=33)
    assert deployment.situation().ended == BEGAN + 32
    fake.job = JobRecord(JOB, JobState.TIMEOUT, elapsed=31.5)
    assert deployment.situation().ended == BEGAN + 31.5
    fake.job = JobRecord(JOB, JobState.RUNNING)
    assert deployment.situation().ended is None


def test_a_job_that_never_began_ran_for_no_time(deployment, fake):
    (deployment.path / "state" / "started").unlink()
    fake.job = JobRecord(JOB, JobState.CANCELLED)
    assert deployment.situation().ended is None


# --- a known end is never overwritten by not knowing

END_STATES = ["FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL"]
SILENCES = [SchedulerSilent("qstat: cannot connect to server"), AccountingSilent("sacct: away"), None]


@pytest.mark.parametrize("state", [*END_STATES, "COMPLETED"])
@pytest.mark.parametrize("finished", ["", "143\n"])
@pytest.mark.parametrize("silence", SILENCES)
def test_an_end_stays_known(deployment, fake, state, finished, silence):
    """None stands for a scheduler that has forgotten the job."""
    if finished:
        write(deployment, "state/finished", finished)
    fake.job = JobRecord(JOB, JobState(state), 0 if state == "COMPLETED" else None)
    before = deployment.situation()
    fake.job, fake.silence = None, silence
    after = deployment.situation()
    assert (after.state, after.explanation, after.ended) == (before.state, before.explanation, before.ended)


def test_what_is_lost_may_be_known_better_later(deployment, fake):
    assert deployment.situation().state == "LOST"
    fake.silence = SchedulerSilent("away")
    assert deployment.situation().state == "LOST"
    fake.silence = None
    assert ended(deployment, "=>> PBS: job killed: walltime 32 exceeded limit 30\n")[0] == "TIMEOUT"
    write(deployment, "state/finished", "0\n")
    assert deployment.situation().state == "COMPLETED"


def test_the_end_of_another_run_or_job_is_none_of_this_one(deployment, fake):
    fake.job = JobRecord(JOB, JobState.NODE_FAIL)
    deployment.situation()
    os.utime(deployment.path / "state" / "started", (BEGAN + 99, BEGAN + 99))  # the scheduler ran it again
    fake.job, fake.silence = None, SchedulerSilent("away")
    assert deployment.situation().state == "UNKNOWN"
    os.utime(deployment.path / "state" / "started", (BEGAN, BEGAN))
    assert deployment.situation().state == "NODE_FAIL"
    (deployment.path / "state" / "claim").write_text("136.frontend\n")
    (deployment.path / "state" / "submitted.json").write_text(json.dumps({"job_id": "136.frontend"}))
    assert deployment.situation().state == "UNKNOWN"


def test_a_job_that_is_queued_again_has_no_end_any_more(deployment, fake):
    fake.job = JobRecord(JOB, JobState.NODE_FAIL)
    deployment.situation()
    fake.job = JobRecord(JOB, JobState.QUEUED)
    assert deployment.situation().state == "QUEUED"
    fake.silence = SchedulerSilent("away")
    assert deployment.situation().state == "UNKNOWN"


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"state": 1}', f'{{"job_id": "{JOB}", "started": {BEGAN}.0, "state": ["x"]}}']
)
def test_a_damaged_note_of_an_end_says_nothing(deployment, fake, text):
    write(deployment, "state/end.json", text)
    fake.silence = SchedulerSilent("away")
    assert deployment.situation().state == "UNKNOWN"


def test_operations_on_a_job_that_has_ended_while_the_scheduler_is_away(deployment, fake):
    fake.job = JobRecord(JOB, JobState.CANCELLED)
    deployment.situation()
    fake.job, fake.silence = None, SchedulerSilent("qstat: cannot connect to server")
    campaign = campaign_of(deployment)
    assert operate(campaign, "cancel", ["example-1"])[0].changed is False
    assert re.match("job .* is cancelled .* and cannot be held", operate(campaign, "hold", ["example-1"])[0].problem)
    with pytest.raises(ModakError, match="cannot connect to server") as caught:
        deployment.set_aside(JOB)
    assert caught.value.exit_code == TARGET_UNREACHABLE
    # there is nothing to cancel, and so it can be removed
    assert campaign.remove(["example-1"]) == Removed({}, ["example-1"])


# --- a node that is down


def test_a_node_that_is_down_is_said(deployment, fake):
    fake.job = JobRecord(JOB, JobState.RUNNING, nodes="node1,node2", down="node2")
    situation = deployment.situation()
    words = "Torque says node2 is down; whether the job still runs is known when it is back"
    assert (situation.state, situation.explanation, situation.down) == ("RUNNING", words, "node2")
    news = campaign_of(deployment).watch([JobRequest("example-1", state="RUNNING")], 5)
    assert news.situations["example-1"].explanation == words
    assert situation.is_news("RUNNING", "")
    assert not situation.is_news("RUNNING", words)


@pytest.mark.parametrize("hangs", [True, False])
def test_a_job_on_a_node_that_is_down_can_be_left_alone(deployment, fake, monkeypatch, hangs):
    fake.job = JobRecord(JOB, JobState.RUNNING, nodes="node2", down="node2")
    fake.hangs = hangs
    if not hangs:  # qdel is taken, and has no effect
        monkeypatch.setattr(fake, "cancel", lambda run, job_id: None)
        monkeypatch.setattr(operations, "_END_SECONDS", 0.1)
        monkeypatch.setattr(operations, "GRACE", 0)
    campaign = campaign_of(deployment)
    with pytest.raises(ModakError) as caught:
        campaign.remove(["example-1"], 0.1)
    assert "; node2 is down" in caught.value.message
    assert caught.value.hint == (
        "it will end when the node is back, or an operator runs qdel -p 135.frontend; "
        "modak undeploy --leave-job leaves the job to the scheduler"
    )
    if hangs:
        with pytest.raises(ModakError, match="node2 is down"):
            operate(campaign, "cancel", ["example-1"])
    else:
        assert "node2 is down" in operate(campaign, "cancel", ["example-1"])[0].problem
    removed = campaign.remove(["example-1"], 0.1, leave=True)
    assert removed == Removed({}, ["example-1"], {"example-1": caught.value.message})


def test_a_server_that_is_away_ends_no_job(deployment, fake):
    fake.silence = SchedulerSilent("away")
    assert deployment.wait_for_end(0.1) is False
    campaign = campaign_of(deployment)
    with pytest.raises(ModakError, match="job 135.frontend could not be cancelled: away") as caught:
        campaign.remove(["example-1"])
    assert caught.value.exit_code == TARGET_UNREACHABLE
    assert campaign.remove(["example-1"], leave=True).left == {"example-1": caught.value.message}


# --- how modules say it


def test_a_scheduler_that_is_away_is_no_broken_module():
    said = {}

    class Module:
        def fail_json(self, **answer):
            said.update(answer)

    def act():
        raise SchedulerSilent("qstat: cannot connect to server")

    answer(Module(), act)
    assert said == {
        "msg": "the scheduler does not answer: qstat: cannot connect to server", "hint": "try again when it answers",
        "exit_code": TARGET_UNREACHABLE, "failed": True,
    }  # fmt: skip
