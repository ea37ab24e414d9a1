"""Torque, judged by what a real server printed."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from modak_ansible.schedulers.base import (
    CommandResult,
    JobState,
    SchedulerSilent,
    SubmissionRefused,
    SubmissionUncertain,
    Waits,
)
from modak_ansible.schedulers.torque import Torque, read_jobs, read_table

RECORDED = yaml.safe_load((Path(__file__).parent / "recorded" / "torque.yaml").read_text())


def answer(name: str) -> CommandResult:
    case = RECORDED[name]
    return CommandResult(case["code"], case.get("out", ""), case.get("err", ""))


def run_of(*names: str):
    """A run that answers with recordings, in turn."""
    answers = [answer(name) for name in names]
    return lambda argv: answers.pop(0)


@pytest.mark.parametrize(
    ("case", "state"),
    [("state-Q-xml", "QUEUED"), ("state-R-xml", "RUNNING"), ("state-H-xml", "HELD"), ("state-W-xml", "QUEUED"),
     ("state-C-xml", "FAILED"), ("state-Q-text", "QUEUED"), ("state-R-text", "RUNNING"), ("state-H-text", "HELD"),
     ("state-W-text", "QUEUED"), ("state-C-text", "FAILED"), ("state-E-text", "ENDING")],
)  # fmt: skip
def test_states(case, state):
    assert [str(job.state) for job in read_jobs(RECORDED[case]["out"])] == [state]


@pytest.mark.parametrize(
    ("case", "state", "code", "signal"),
    [("exit-success", "COMPLETED", 0, None), ("exit-exit3", "FAILED", 3, None), ("exit-exit255", "FAILED", 255, None),
     ("exit-notfound", "FAILED", 127, None), ("exit-selfkill9", "FAILED", 137, None), ("exit-walltime", "TIMEOUT", None, None),
     ("exit-qdel-running", "CANCELLED", None, 15), ("exit-qdel-queued", "CANCELLED", None, None),
     # success on paper only: the job's own marker is missing, and that is what counts
     ("exit-node-died", "COMPLETED", 0, None), ("node-down-still-running", "RUNNING", None, None)],
)  # fmt: skip
def test_ends(case, state, code, signal):
    (job,) = read_jobs(RECORDED[case]["out"])
    assert (str(job.state), job.exit_code, job.signal) == (state, code, signal)


def test_a_job_is_known_by_name_folder_and_nodes():
    (job,) = read_jobs(RECORDED["state-R-xml"]["out"])
    assert (job.job_id, job.name, job.folder, job.nodes) == ("121.frontend", "state", "/home/alice/work", "node1")


def test_both_forms_say_the_same():
    for letter in "QRHWC":
        (xml,), (text,) = (read_jobs(RECORDED[f"state-{letter}-{form}"]["out"]) for form in ("xml", "text"))
        assert (xml.state, xml.name, xml.folder, xml.nodes) == (text.state, text.name, text.folder, text.nodes)


def test_status_of_a_job_that_is_gone():
    assert Torque().status(run_of("gone"), "218.frontend") is None


def test_status_keeps_what_is_known_beside_what_is_gone():
    assert Torque().status(run_of("known-and-gone"), "103.frontend").state is JobState.HELD
    assert Torque().status(run_of("known-and-gone"), "218.frontend") is None


def test_a_qstat_without_xml_is_asked_for_text():
    asked = []

    def run(argv):
        asked.append(argv)
        return CommandResult(2, err="Usage: qstat") if "-x" in argv else answer("state-R-text")

    assert Torque().status(run, RECORDED["state-R-text"]["out"].split()[2]).state is JobState.RUNNING
    assert asked[1][:2] == ["qstat", "-f"]
    assert "-x" not in asked[1]


TABLE = """\
Job id              Name             Username        Time Use S Queue
------------------- ---------------- --------------- -------- - ---------------
17                  running.sh       modak           00:00:00 {} debug
"""


@pytest.mark.parametrize(("letter", "state"), [("R", "RUNNING"), ("Q", "QUEUED"), ("C", "COMPLETED"), ("H", "HELD")])
def test_slurms_own_qstat_gives_a_table_only(letter, state):
    """As the one of Slurm 24.11 in Debian 13 does, whose -f stops with a Perl error and code 255."""

    def run(argv):
        return (
            CommandResult(0, TABLE.format(letter))
            if "-f" not in argv
            else CommandResult(255, err="Can't locate object method")
        )

    record = Torque().status(run, "17")
    assert (str(record.state), record.exit_code) == (state, None)
    assert Torque().find(run, "running.sh", "/anywhere/running.sh") == ["17"]
    assert Torque().find(run, "running.sh", "/anywhere/else") == []
    assert Torque().find(run, "running.sh-and-more", "/anywhere") == []


def test_the_table_of_a_real_server_is_read_too():
    text = (
        "Job ID                    Name             User            Time Use S Queue\n"
        "------------------------- ---------------- --------------- -------- - -----\n"
        "121.frontend               state            alice           00:00:00 R batch          \n"
    )
    assert [(job.job_id, job.state) for job in read_table(text)] == [("121.frontend", JobState.RUNNING)]


def test_a_server_that_is_silent_tells_nothing():
    for result in (CommandResult(124, timed_out=True), CommandResult(111, err="qstat: cannot connect to server")):
        with pytest.raises(SchedulerSilent):
            Torque().status(lambda argv, result=result: result, "1.frontend")
    with pytest.raises(SchedulerSilent, match="broken XML"):
        read_jobs("<Data><Job>")


def test_an_empty_server_has_no_jobs():
    assert read_jobs(RECORDED["empty"]["out"]) == []
    assert read_jobs("") == []


def test_submission():
    assert Torque().submit(run_of("submit-ok"), "job.sh", "name") == RECORDED["submit-ok"]["out"].strip()


@pytest.mark.parametrize(
    ("case", "words"),
    [("submit-err-unknown-queue", "there is no such queue"), ("submit-err-too-many-nodes", "no node can run it"),
     ("submit-err-unknown-resource", "frobnicate"), ("submit-err-bad-walltime", "walltime"),
     ("submit-err-root", "can not be run as root"), ("submit-crlf-script", "DOS/Windows"),
     ("submit-err-script-not-found", "nosuch.sh")],
)  # fmt: skip
def test_refusals(case, words):
    with pytest.raises(SubmissionRefused, match=words):
        Torque().submit(run_of(case), "job.sh", "name")


def test_a_server_that_cannot_be_reached_refuses_nothing():
    with pytest.raises(SchedulerSilent, match="the PBS server is down"):
        Torque().submit(run_of("submit-server-down"), "job.sh", "name")
    said = "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)"
    with pytest.raises(SchedulerSilent, match="Unable to contact slurm controller"):
        Torque().submit(lambda argv: CommandResult(1, err=said), "job.sh", "name")


def test_a_submission_without_an_end_is_uncertain():
    with pytest.raises(SubmissionUncertain):
        Torque().submit(lambda argv: CommandResult(124, timed_out=True), "job.sh", "name")
    with pytest.raises(SubmissionUncertain, match="no job id"):
        Torque().submit(lambda argv: CommandResult(0, out=""), "job.sh", "name")


def test_cancelling():
    Torque().cancel(lambda argv: CommandResult(0), "1.frontend")
    Torque().cancel(run_of("qdel-unknown"), "1.frontend")
    with pytest.raises(SchedulerSilent, match="qdel"):
        Torque().cancel(run_of("qdel-foreign"), "1.frontend")


def test_a_job_is_found_by_its_name_and_folder():
    found = Torque().find(run_of("state-R-xml"), "state", "/home/alice/work")
    assert found == ["121.frontend"]
    assert Torque().find(run_of("state-R-xml"), "state", "/home/alice/other") == []
    assert Torque().find(run_of("state-R-xml"), "other", "/home/alice/work") == []


def test_slurms_own_qstat_of_a_job_that_waits():
    """It was read as no job at all, and a job that waited for long as lost."""
    (job,) = read_jobs(RECORDED["slurm-qstat-f-waiting"]["out"])
    assert (job.job_id, job.state, job.name) == ("1170", JobState.QUEUED, "test-8155b2f3-3e12ce951820")
    assert Torque().status(run_of("qstat-garbage", "slurm-qstat-f-waiting"), "1170").state is JobState.QUEUED


def test_a_job_comes_after_others():
    asked = []

    def run(argv):
        asked.append(argv)
        return CommandResult(0, "9.server\n")

    assert Torque().submit(run, "job.sh", "n", Waits(ended=("5.server",))) == "9.server"
    assert asked == [["qsub", "-N", "n", "-W", "depend=afterany:5.server", "job.sh"]]


@pytest.mark.parametrize("value", ["\x1b[1;31m", "&#27;[1;31m", "&#x1B;[1;31m", "\x00", "&#0;", "\ud800"])
def test_an_environment_with_characters_that_xml_has_not(value):
    """Of any job on the server: servers of before 2015 print it as it is."""
    other = f"<Job><Job_Id>9.front</Job_Id><Variable_List>A={value}</Variable_List><job_state>R</job_state></Job>"
    text = RECORDED["state-R-xml"]["out"].replace("<Data>", f"<Data>{other}")
    assert {job.job_id for job in read_jobs(text)} > {"9.front"}


def test_text_is_asked_for_where_the_xml_is_broken():
    def run(argv):
        return CommandResult(0, "<Data><Job>") if "-x" in argv else answer("state-R-text")

    assert Torque().status(run, RECORDED["state-R-text"]["out"].split()[2]).state is JobState.RUNNING


def test_no_table_is_taken_where_all_else_is_broken():
    """It says neither how a job ended nor where it was submitted."""
    with pytest.raises(SchedulerSilent, match="broken XML"):
        Torque().status(lambda argv: CommandResult(0, "<Data><Job>" if "-f" in argv else TABLE.format("C")), "17")
