"""Jobs under LSF, judged by recorded answers: nobody has tried them with an LSF."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import yaml_files
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.schedulers.base import (
    AccountingSilent,
    ActionRefused,
    CommandResult,
    JobState,
    SchedulerSilent,
    SubmissionRefused,
    SubmissionUncertain,
    Waits,
    has_no_room,
)
from modak_ansible.schedulers.lsf.records import read_json, read_long, reason_of, record_of
from modak_ansible.schedulers.registry import SCHEDULERS

RECORDED = yaml_files.read(Path(__file__).parents[1] / "recorded" / "lsf.yaml")
LSF = SCHEDULERS["lsf"]
NAME = "train-0123456789ab"
FOLDER = f"/home/alice/modak/deployments/{NAME}"
SILENT = CommandResult(124, timed_out=True, err="bhist did not answer within 60 s")


def answer(name: str) -> CommandResult:
    case = RECORDED[name]
    return CommandResult(case["code"], case.get("out", ""), case.get("err", ""))


class Answers:
    """A run that answers in turn, and keeps what it was asked."""

    def __init__(self, *answers: CommandResult | str) -> None:
        self.answers = [answer(each) if isinstance(each, str) else each for each in answers]
        self.asked: list[list[str]] = []

    def __call__(self, argv):
        self.asked.append(argv)
        return self.answers.pop(0) if self.answers else CommandResult(0)


def one(name: str):
    (job,) = read_json(RECORDED[name]["out"])
    return job


# --- what is said of jobs


def test_a_running_job_is_known_by_name_folder_and_nodes():
    run = Answers("running")
    job = LSF.status(run, "5346451")
    assert (str(job.state), job.name, job.folder, job.nodes) == ("RUNNING", NAME, FOLDER, "node02,node01")
    (asked,) = run.asked
    assert (asked[:2], asked[3:]) == (["bjobs", "-o"], ["-json", "5346451"])


def test_jobs_that_wait_say_why_and_where_they_are_from():
    found = LSF.statuses(Answers("queued"), ["58650", "58651"])
    assert {job.reason for job in found.values()} == {
        "New job is waiting for scheduling", "Job dependency condition not satisfied"
    }  # fmt: skip
    assert {str(job.state) for job in found.values()} == {"QUEUED"}
    home = os.path.realpath(os.path.expanduser("~"))
    assert found["58650"].folder == f"{home}/modak/deployments/{NAME}", "LSF writes $HOME for it"


def test_who_holds_a_job_is_told():
    assert (str(one("held").state), one("held").held_by) == ("HELD", "user")
    assert one("held-by-operator").held_by == "operator"


@pytest.mark.parametrize(
    ("case", "state", "code", "signal", "limit"),
    [("done", "COMPLETED", 0, None, ""), ("failed", "FAILED", 1, None, ""), ("walltime", "TIMEOUT", None, 12, "walltime"),
     ("cancelled", "CANCELLED", None, None, "")],
)  # fmt: skip
def test_ends(case, state, code, signal, limit):
    job = one(case)
    assert (str(job.state), job.exit_code, job.signal, job.limit) == (state, code, signal, limit)
    assert job.elapsed is not None


@pytest.mark.parametrize(
    ("stat", "state"),
    [("WAIT", "QUEUED"), ("PROV", "QUEUED"), ("USUSP", "SUSPENDED"), ("SSUSP", "SUSPENDED"), ("ZOMBI", "ENDING"),
     ("POST_DONE", "COMPLETED"), ("POST_ERR", "COMPLETED"), ("?", "QUEUED")],
)  # fmt: skip
def test_states(stat, state):
    assert str(record_of("1", stat, hosts="a").state) == state


def test_a_host_that_is_not_heard_of_is_down_and_its_job_is_not_over():
    job = record_of("1", "UNKWN", hosts="node7")
    assert (str(job.state), job.down) == ("RUNNING", "node7")
    assert "does not answer" in record_of("1", "ZOMBI").reason


@pytest.mark.parametrize(
    ("reason", "state", "limit"),
    [("TERM_MEMLIMIT", "OUT_OF_MEMORY", "mem"), ("TERM_SWAP", "OUT_OF_MEMORY", "vmem"), ("TERM_CPULIMIT", "TIMEOUT", "cput"),
     ("TERM_DEADLINE", "TIMEOUT", "deadline"), ("TERM_ADMIN", "CANCELLED", ""), ("TERM_ORPHAN_SYSTEM", "CANCELLED", ""),
     ("TERM_PREEMPT", "PREEMPTED", ""), ("TERM_RC_RECLAIM", "PREEMPTED", ""), ("TERM_PRE_EXEC_FAIL", "BOOT_FAIL", ""),
     ("TERM_ZOMBIE", "NODE_FAIL", ""), ("TERM_THREADLIMIT", "FAILED", "threads"), ("TERM_UNKNOWN", "FAILED", ""),
     ("TERM_SOMETHING_NEW", "FAILED", "")],
)  # fmt: skip
def test_reasons(reason, state, limit):
    job = record_of("1", "EXIT", code=137, ended=f"{reason}: job killed")
    assert (str(job.state), job.limit, job.signal, job.exit_code) == (state, limit, 9, None)
    assert reason_of("nothing") is None


@pytest.mark.parametrize(
    ("code", "state", "exit_code", "signal"),
    [(3, "FAILED", 3, None), (143, "CANCELLED", None, 15), (139, "FAILED", None, 11), (255, "FAILED", 255, None),
     (None, "CANCELLED", None, None)],
)  # fmt: skip
def test_ends_without_a_reason(code, state, exit_code, signal):
    job = record_of("1", "EXIT", code=code)
    assert (str(job.state), job.exit_code, job.signal) == (state, exit_code, signal)


def test_the_long_text_serves_where_there_is_no_json():
    run = Answers("no-json", "long-done")
    job = LSF.status(run, "2073")
    assert (str(job.state), job.name, job.folder, job.nodes) == ("COMPLETED", NAME, FOLDER, "a6122")
    assert [asked[-2:] for asked in run.asked] == [["-json", "2073"], ["-l", "2073"]]
    running, waits = read_long(RECORDED["long-many"]["out"])
    assert (running.nodes, running.folder) == ("cmp02,cmp01", "/home/alice")
    assert waits.reason.startswith("Job's resource requirements not satisfied: 2 hosts; Load information")
    (over,) = read_long(RECORDED["long-walltime"]["out"])
    assert (str(over.state), over.limit, over.signal) == ("TIMEOUT", "walltime", 12)


def test_what_bjobs_has_forgotten_is_in_the_history():
    run = Answers("gone", "history-memory")
    job = LSF.status(run, "3083242")
    assert (str(job.state), job.limit, job.exit_code, job.nodes) == ("OUT_OF_MEMORY", "mem", 1, "rhrcsnod19")
    assert run.asked[1] == ["bhist", "-n", "0", "-l", "3083242"], "the newest event file may begin after the job's end"
    assert LSF.status(Answers("gone", "history-gone"), "9") is None
    assert LSF.status(Answers("gone", CommandResult(127, missing=True)), "9") is None


def test_a_history_that_is_silent_is_no_end():
    with pytest.raises(AccountingSilent) as caught:
        LSF.statuses(Answers("queued", SILENT), ["58650", "9"])
    assert set(caught.value.known) == {"58650"}


def test_many_jobs_are_asked_for_at_once():
    run = Answers("queued")
    assert set(LSF.statuses(run, ["58650", "58651"])) == {"58650", "58651"}
    assert run.asked[0][-2:] == ["-json", "-a"]
    assert len(run.asked) == 1


@pytest.mark.parametrize("case", ["gone", "gone-json", "none", "none-json"])
def test_who_is_not_known_is_no_silence(case):
    assert LSF.find(Answers(case), NAME, FOLDER) == []


@pytest.mark.parametrize("case", ["away", "starting", "no-mbatchd"])
def test_a_cluster_that_is_away_says_nothing_of_any_job(case):
    with pytest.raises(SchedulerSilent, match="bjobs: "):
        LSF.status(Answers(case), "1")


def test_answers_that_nobody_understands_are_silence():
    with pytest.raises(SchedulerSilent, match="broken JSON"):
        LSF.status(Answers(CommandResult(0, "{"), CommandResult(0, "odd")), "1")


def test_a_job_is_found_by_its_name_and_folder():
    run = Answers("running")
    assert LSF.find(run, NAME, FOLDER) == ["5346451"]
    assert run.asked[0][-3:] == ["-a", "-J", NAME]
    assert LSF.find(Answers("running"), NAME, "/elsewhere") == []


# --- what is asked of it


def test_a_job_is_submitted_with_what_it_waits_for():
    run = Answers("submitted")
    assert LSF.submit(run, "job.sh", "train", Waits(ok=("12", "13"), ended=("7",))) == "764254593"
    (asked,) = run.asked
    assert asked[3:] == ["bsub", "job.sh", "-J", "train", "-w", "done(12) && done(13) && ended(7)", "-ti"]
    assert LSF.submit(Answers("submitted-to-default"), "job.sh", "train") == "9148559", "a site's own words come first"


@pytest.mark.parametrize(
    ("result", "error", "words"),
    [
        ("refused-queue", SubmissionRefused, "No such queue"),
        ("refused-project", SubmissionRefused, "specify a project by -P"),
        ("refused-size", SubmissionRefused, "Too many processors"),
        ("refused-memory", SubmissionRefused, "10.1.0.9"),
        ("away", SchedulerSilent, "LIM is down"),
        ("no-mbatchd", SchedulerSilent, "not responding"),
        (CommandResult(255, err="Failed in sending/receiving a message: Success. Job not submitted.\n"), SubmissionUncertain, "sending"),
        (CommandResult(124, timed_out=True), SubmissionUncertain, "did not answer"),
        (CommandResult(0, "nothing"), SubmissionUncertain, "no job id"),
        (CommandResult(127, err="bash: line 1: exec: bsub: not found"), SubmissionRefused, "PATH"),
    ],
)  # fmt: skip
def test_refusals_silence_and_doubt_are_told_apart(result, error, words):
    with pytest.raises(error, match=words):
        LSF.submit(Answers(result), "job.sh", "train")
    assert has_no_room("User <alice>: Pending job threshold reached.")


def test_cancelling_what_has_ended_is_no_error():
    run = Answers("killed")
    LSF.cancel(run, "1", "2")
    assert run.asked == [["bkill", "1", "2"]]
    LSF.cancel(run)
    assert len(run.asked) == 1, "without an id bkill ends the last job, whatever that is"
    LSF.cancel(Answers("kill-ended"), "11", "12")
    with pytest.raises(SchedulerSilent, match="not ready yet"):
        LSF.cancel(Answers("kill-starting"), "54421878")
    with pytest.raises(SchedulerSilent):
        LSF.cancel(Answers(CommandResult(124, timed_out=True)), "1")
    assert LSF.removal_by_operator("1") == "bkill -r 1"


def test_a_job_is_held_released_and_requeued():
    for verb, command, case in (
        ("hold", "bstop", "stopped"), ("release", "bresume", "resumed"), ("requeue", "brequeue", "requeued")
    ):  # fmt: skip
        run = Answers(case)
        getattr(LSF, verb)(run, "45439")
        assert run.asked == [[command, "45439"]]
    with pytest.raises(ActionRefused, match="bstop: Job <12>: No matching job found"):
        LSF.hold(Answers("kill-ended"), "11")
    with pytest.raises(SchedulerSilent, match="LIM is down"):
        LSF.requeue(Answers("away"), "11")
    with pytest.raises(ActionRefused, match="PATH"):
        LSF.release(Answers(CommandResult(127, missing=True)), "11")


def test_a_job_is_entered_by_ssh():
    job = record_of("7", "RUN", hosts="node2,node1")
    assert [command[-2] for command in LSF.enter(Answers(), job, 2, ["true"])] == ["node2", "node1"]
    assert LSF.marks("7") == ("", "LSB_JOBID=7")
    with pytest.raises(ActionRefused, match="LSF does not say"):
        LSF.enter(Answers(), record_of("7", "RUN"), 1, ["true"])


# --- whatever is printed

VALUES = st.none() | st.integers() | st.text(max_size=12) | st.lists(st.text(max_size=3), max_size=2)
NAMES = st.sampled_from(
    ["JOBID", "STAT", "JOB_NAME", "EXEC_HOST", "SUB_CWD", "EXEC_CWD", "EXIT_CODE", "EXIT_REASON", "PEND_REASON", "RUN_TIME"]
)  # fmt: skip


@given(st.lists(st.dictionaries(NAMES, VALUES, max_size=10), max_size=3))
def test_whatever_bjobs_says_is_records_or_silence(jobs):
    try:
        found = read_json(json.dumps({"RECORDS": jobs}))
    except SchedulerSilent:
        return
    assert all(isinstance(job.state, JobState) for job in found)


WORDS = st.sampled_from(
    ["Job <7>, ", "Status <RUN>, ", "Mon Nov 23 10:16:26: ", "Started on <n1>", "Exited with exit code 140", "\n", " " * 21, ";",
     "Completed <exit>; TERM_OWNER: x", "PENDING REASONS:\n", "Done successfully", "<", ">"]
)  # fmt: skip


@given(st.lists(WORDS | st.text(max_size=20), max_size=20).map("".join))
def test_whatever_is_text_is_records_of_jobs_in_it(text):
    assert all(f"Job <{job.job_id}>" in text for job in read_long(f"Job <1>, User <a>\n{text}") if job.job_id != "1")
    try:
        assert isinstance(read_json(text), list)
    except SchedulerSilent as error:
        assert "broken JSON" in str(error)


@given(
    st.text(st.characters(min_codepoint=32, max_codepoint=126, exclude_characters="<>"), min_size=1, max_size=60),
    st.integers(30, 100),
)
def test_lines_are_joined_wherever_they_were_folded(folder, width):
    """A line of bjobs goes on after 21 spaces, in the middle of a word, too."""
    line = f"Mon Nov 23 10:16:31: Started on <n28>, Execution Home </h>, Execution CWD </w{folder}>;"
    folded = line[:width] + "".join(
        f"\n{' ' * 21}{line[start : start + 59]}" for start in range(width, len(line), 59)
    )  # fmt: skip
    (job,) = read_long(f"Job <1>, User <a>, Status <RUN>, Command <x>\n{folded}\n")
    assert job.folder == os.path.realpath(f"/w{folder}")
