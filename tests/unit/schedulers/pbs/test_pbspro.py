"""PBS Professional and OpenPBS, judged by recorded answers: nobody has tried them with a server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml_files
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.schedulers.base import (
    ActionRefused,
    CommandResult,
    JobState,
    SchedulerSilent,
    SubmissionRefused,
    SubmissionUncertain,
    Waits,
    has_no_room,
)
from modak_ansible.schedulers.pbs.pbspro import PBSPro, is_pbspro, read_json_jobs, read_text_jobs
from modak_ansible.schedulers.registry import SCHEDULERS

RECORDED = yaml_files.read(Path(__file__).parents[1] / "recorded" / "pbspro.yaml")
PBS = PBSPro()


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
    (job,) = read_json_jobs(RECORDED[name]["out"])
    return job


def job_of(**values):
    text = json.dumps({"Jobs": {"1.pbs": {"Job_Name": "x", "Hold_Types": "n", **values}}})
    (job,) = read_json_jobs(text)
    return job


def test_a_running_job_is_known_by_name_folder_and_nodes():
    job = one("running")
    assert (job.job_id, str(job.state), job.name) == ("1286.pbs.cluster.example", "RUNNING", "train-0123456789ab")
    assert (job.folder, job.nodes) == ("/home/alice/modak/deployments/train-0123456789ab", "node24,node21")
    run = Answers("running", CommandResult(0, "node21  down   in repair\n"))
    assert PBS.status(run, "1286.pbs").down == "node21"
    assert run.asked == [["qstat", "-x", "-f", "-F", "json", "1286.pbs"], ["pbsnodes", "-l"]]


def test_jobs_that_wait_say_why_until_when_and_in_which_place():
    found = PBS.statuses(Answers("queued"), ["159.pbs", "160.pbs"])
    first, second = found["159.pbs"], found["160.pbs"]
    assert (str(first.state), first.starts, first.position) == ("QUEUED", "2024-12-23T04:30:00", 1)
    assert first.reason == "Not Running: Insufficient amount of resource: ncpus"
    assert (second.starts, second.position) == ("", 2)


def test_the_history_is_asked_for_those_alone_that_have_ended():
    """It has everybody's jobs of weeks."""
    run = Answers("queued", "finished", "gone")
    found = PBS.statuses(run, ["159.pbs", "473.login02", "9999.pbs"])
    assert {job_id: str(job.state) for job_id, job in found.items()} == {
        "159.pbs": "QUEUED",
        "473.login02": "COMPLETED",
    }
    past = [["qstat", "-x", "-f", "-F", "json", job_id] for job_id in ("473.login02", "9999.pbs")]
    assert run.asked == [["qstat", "-f", "-F", "json"], *past]


def test_a_job_of_another_server_is_asked_for_there():
    """What was sent to workq@east has a number of that server's, which this one may have given to another's job."""
    there = {"Jobs": {"159.east": {"job_state": "R", "Job_Name": "ours", "Hold_Types": "n"}}}
    run = Answers("queued", CommandResult(0, json.dumps(there)))
    found = PBS.statuses(run, ["159.east"])
    assert (found["159.east"].name, str(found["159.east"].state)) == ("ours", "RUNNING")
    assert run.asked == [["qstat", "-f", "-F", "json"], ["qstat", "-x", "-f", "-F", "json", "159.east"]]


def test_a_hold_is_not_a_job_that_waits_for_another():
    assert (str(one("held").state), one("held").held_by) == ("HELD", "user")
    waits = one("waits-for-another")
    assert (str(waits.state), waits.reason) == ("QUEUED", "it waits for other jobs")


@pytest.mark.parametrize(
    ("status", "state", "code", "signal", "limit"),
    [(0, "COMPLETED", 0, None, ""), (3, "FAILED", 3, None, ""), (137, "FAILED", 137, None, ""), (271, "CANCELLED", None, 15, ""),
     (265, "FAILED", None, 9, ""), (-29, "TIMEOUT", None, None, "walltime"), (-28, "TIMEOUT", None, None, "cput"),
     (-27, "OUT_OF_MEMORY", None, None, "mem"), (-26, "OUT_OF_MEMORY", None, None, "vmem"), (-25, "FAILED", None, None, "ncpus"),
     (-3, "BOOT_FAIL", None, None, ""), (None, "CANCELLED", None, None, ""), ("odd", "CANCELLED", None, None, "")],
)  # fmt: skip
def test_ends(status, state, code, signal, limit):
    values = {} if status is None else {"Exit_status": status}
    for letter in "FX":
        job = job_of(job_state=letter, **values)
        assert (str(job.state), job.exit_code, job.signal, job.limit) == (state, code, signal, limit)


@pytest.mark.parametrize(
    ("letter", "comment", "reason"),
    [("F", "job killed: vmem 192GB exceeded limit 190GB", "job killed: vmem 192GB exceeded limit 190GB"), ("F", "Job run at Wed Jun 24 at 15:33 on (n1:ncpus=1) and failed", ""),
     ("Q", "Job run at Wed Jun 24 at 15:33 on (n1:ncpus=1)", ""), ("R", "a word of a hook's", "")],
)  # fmt: skip
def test_comments(letter, comment, reason):
    assert job_of(job_state=letter, Exit_status=271, comment=comment).reason == reason


@pytest.mark.parametrize(
    ("letter", "state"),
    [("T", "QUEUED"), ("W", "QUEUED"), ("B", "RUNNING"), ("S", "SUSPENDED"), ("U", "SUSPENDED"), ("E", "ENDING"),
     ("?", "QUEUED")],
)  # fmt: skip
def test_states(letter, state):
    assert str(job_of(job_state=letter).state) == state
    assert job_of(job_state="M").reason == "it was moved to another server"


def test_a_finished_job_says_how_long_it_ran():
    job = one("finished")
    assert (str(job.state), job.exit_code, job.elapsed) == ("COMPLETED", 0, 86732.0)
    assert (job.nodes, job.folder) == ("node1299", "/home/alice/work")


def test_the_text_serves_where_the_json_is_broken():
    first, second = read_text_jobs(RECORDED["text"]["out"])
    assert (first.folder, first.nodes) == ("/scratch/alice/100gL/starting-from-left/production", "b270,b275")
    assert (str(second.state), second.limit, second.elapsed) == ("TIMEOUT", "walltime", 86412.0)
    broken = CommandResult(0, RECORDED["running"]["out"].replace('"/home/alice",', '"a "quoted" one",'))
    run = Answers(broken, "text")
    assert str(PBS.status(run, "74164").state) == "RUNNING"
    assert [asked[:4] for asked in run.asked[:2]] == [["qstat", "-x", "-f", "-F"], ["qstat", "-x", "-f", "74164"]]


def test_a_server_that_keeps_no_history_tells_of_the_jobs_that_live():
    refused = CommandResult(36, "", "qstat: PBS is not configured to maintain job history")
    run = Answers(refused, CommandResult(0, RECORDED["running"]["out"]))
    job_id = "1286.pbs.cluster.example"
    assert PBS.status(run, job_id).state is JobState.RUNNING
    assert run.asked[:2] == [["qstat", "-x", "-f", "-F", "json", job_id], ["qstat", "-f", "-F", "json", job_id]]
    gone = CommandResult(153, "", f"qstat: Unknown Job Id {job_id}")
    assert PBS.status(Answers(refused, gone, gone), job_id) is None


def test_control_characters_in_an_environment_do_not_hide_a_job():
    text = RECORDED["running"]["out"].replace("en_US.UTF-8", "a\x1b[0m\nb")
    assert read_json_jobs(text)[0].name == "train-0123456789ab"


def test_who_is_not_known_and_who_does_not_answer_are_told_apart():
    assert PBS.status(Answers("gone"), "9999.pbs") is None
    assert PBS.statuses(Answers("none"), ["1.pbs"]) == {}
    with pytest.raises(SchedulerSilent, match="cannot connect to server"):
        PBS.status(Answers("no-server"), "1.pbs")
    with pytest.raises(SchedulerSilent, match="broken JSON"):
        PBS.status(Answers(CommandResult(0, "no json"), CommandResult(2, err="qstat: illegal option")), "1.pbs")


def test_a_job_is_found_by_its_name_and_folder():
    folder = "/home/alice/modak/deployments/train-0123456789ab"
    assert PBS.find(Answers("running"), "train-0123456789ab", folder) == ["1286.pbs.cluster.example"]
    assert PBS.find(Answers("running"), "train-0123456789ab", "/elsewhere") == []


def test_a_job_is_submitted_with_what_it_waits_for():
    run = Answers(CommandResult(0, "123.pbs\n"))
    assert PBS.submit(run, "job.sh", "train", Waits(ok=("12.pbs",))) == "123.pbs"
    assert run.asked == [["qsub", "-N", "train", "-W", "depend=afterok:12.pbs", "job.sh"]]


@pytest.mark.parametrize(
    ("result", "error", "words"),
    [
        (CommandResult(172, err="qsub: Unknown queue\n"), SubmissionRefused, "Unknown queue"),
        # 15035, which is Torque's word for a server that is away, is an unknown resource here
        (CommandResult(187, err="qsub: Unknown resource: ngpu\n"), SubmissionRefused, "Unknown resource: ngpu"),
        (CommandResult(188, err="qsub: Job exceeds queue and/or server resource limits\n"), SubmissionRefused, "exceeds"),
        (CommandResult(111, err="qsub: cannot connect to server pbs (errno=111)\n"), SchedulerSilent, "is down"),
        (CommandResult(255, err="qsub: End of File\n"), SubmissionUncertain, "End of File"),
        (CommandResult(124, timed_out=True), SubmissionUncertain, "did not answer"),
        (CommandResult(0, "nothing"), SubmissionUncertain, "no job id"),
        (CommandResult(127, missing=True), SubmissionRefused, "PATH"),
    ],
)  # fmt: skip
def test_refusals_silence_and_doubt_are_told_apart(result, error, words):
    with pytest.raises(error, match=words):
        PBS.submit(Answers(result), "job.sh", "train")


@pytest.mark.parametrize(
    ("words", "is_full"),
    [
        ("qsub: would exceed queue generic's per-user limit of jobs in 'Q' state", True),
        ("qsub: would exceed complex's per-project limit", True),
        ("qsub: Maximum number of jobs in 'Q' state for user alice already in complex", True),
        ("qsub: would exceed queue generic's per-user limit on resource ncpus in queue workq", False),
        ("qsub: would exceed limit on resource ncpus in queue workq", False),
    ],
)
def test_a_full_queue_is_known_as_such(words, is_full):
    assert has_no_room(words) is is_full


def test_cancelling_what_has_ended_is_no_error():
    PBS.cancel(Answers(CommandResult(35, err="qdel: Job has finished 1.pbs"), CommandResult(153)), "1.pbs", "2.pbs")
    with pytest.raises(SchedulerSilent, match="qdel: cannot connect"):
        PBS.cancel(Answers(CommandResult(111, err="qdel: cannot connect to server pbs")), "1.pbs")
    assert PBS.removal_by_operator("1.pbs") == "qdel -W force 1.pbs"


def test_verbs_are_refused_in_the_servers_own_words():
    with pytest.raises(ActionRefused, match="Unauthorized Request"):
        PBS.requeue(Answers(CommandResult(159, err="qrerun: Unauthorized Request  1.pbs")), "1.pbs")
    with pytest.raises(SchedulerSilent):
        PBS.hold(Answers(CommandResult(111, err="qhold: cannot connect to server pbs (errno=111)")), "1.pbs")
    PBS.release(Answers(CommandResult(0)), "1.pbs")


def test_torque_and_pbs_professional_are_told_apart_by_their_version():
    assert is_pbspro("pbs_version = 20.0.1\n")
    assert not is_pbspro("Version: 6.1.3\nCommit: b405a4e\n")
    assert SCHEDULERS["pbspro"].title == "PBS Professional"


VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=12),
    lambda each: st.dictionaries(st.text(max_size=8), each, max_size=3),
)
NAMES = st.sampled_from(
    ["Job_Name", "job_state", "Exit_status", "exec_host", "Variable_List", "estimated", "resources_used", "Hold_Types",
     "comment", "depend", "queue"]
)  # fmt: skip


@given(st.dictionaries(st.text(max_size=8), st.dictionaries(NAMES, VALUES, max_size=8), max_size=3))
def test_whatever_a_server_says_is_a_record_or_nothing(jobs):
    found = read_json_jobs(json.dumps({"Jobs": jobs}))
    assert {job.job_id for job in found} <= set(jobs)
    assert all(isinstance(job.state, JobState) for job in found)


@given(st.text(max_size=200))
def test_whatever_is_no_json_is_called_so(text):
    try:
        assert isinstance(read_json_jobs(text), list)
    except SchedulerSilent as error:
        assert "broken JSON" in str(error)
    assert isinstance(read_text_jobs(f"Job Id: 1\n{text}"), list)
