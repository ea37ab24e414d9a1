"""Torque, judged by what a real server printed."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
import yaml_files

from modak_ansible.schedulers.base import (
    AccountingSilent,
    CommandResult,
    JobState,
    SchedulerSilent,
    SubmissionRefused,
    SubmissionUncertain,
    Waits,
    has_no_room,
)
from modak_ansible.schedulers.pbs.torque import Torque, read_jobs, read_table

RECORDED = yaml_files.read(Path(__file__).parents[1] / "recorded" / "torque.yaml")


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


def test_a_job_of_another_server_is_asked_for_there():
    """As of one that was sent to batch@east: this server lists its own alone."""
    asked = []

    def run(argv):
        asked.append(argv)
        return answer("state-R-xml") if argv[-1] == "-x" else CommandResult(0, there)

    there = RECORDED["state-W-xml"]["out"].replace(".frontend<", ".east<")
    (waits,) = read_jobs(there)
    found = Torque().statuses(run, ["121.frontend", waits.job_id, "7.east", "9.frontend"])
    assert {each: str(job.state) for each, job in found.items()} == {"121.frontend": "RUNNING", waits.job_id: "QUEUED"}
    assert [argv for argv in asked if argv[0] == "qstat"] == [
        ["qstat", "-f", "-x"], ["qstat", "-f", "-x", waits.job_id, "7.east"],
    ]  # fmt: skip


def test_another_server_that_is_away_keeps_nothing_back_of_this_one():
    """As one that was renamed, or that this machine does not reach: of its jobs alone nobody says how they are."""

    def run(argv):
        away = CommandResult(
            111, "", "Cannot connect to specified server host 'east'.\nqstat: cannot connect to server east"
        )
        return answer("state-R-xml") if argv[-1] == "-x" else away

    with pytest.raises(AccountingSilent, match="cannot connect to server east") as told:
        Torque().statuses(run, ["121.frontend", "7.east"])
    assert {each: str(job.state) for each, job in told.value.known.items()} == {"121.frontend": "RUNNING"}


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


# --- what a real server taught


def of(case: str, **changes: str) -> str:
    """A recorded job in XML, of which some attributes are others, or are there too."""
    text = RECORDED[case]["out"]
    for name, value in changes.items():
        element = f"<{name}>{value}</{name}>"
        text, count = re.subn(f"<{name}>.*?</{name}>", element, text)
        text = text if count else text.replace("</Job>", f"{element}</Job>")
    return text


@pytest.mark.parametrize(
    ("status", "state", "limit"),
    [(-10, "OUT_OF_MEMORY", "mem"), (-11, "TIMEOUT", "walltime"), (-12, "TIMEOUT", "cput"), (-1, "BOOT_FAIL", ""), (3, "FAILED", "")],
)  # fmt: skip
def test_which_limit_a_job_passed(status, state, limit):
    (job,) = read_jobs(of("state-C-xml", exit_status=str(status)))
    assert (str(job.state), job.limit) == (state, limit)


@pytest.mark.parametrize(
    ("types", "depend", "state", "held_by", "reason"),
    [("u", "", "HELD", "user", ""), ("n", "", "HELD", "", "the system holds it"), ("o", "", "HELD", "operator", "an operator holds it"),
     ("ou", "", "HELD", "user", ""), ("s", "", "HELD", "operator", "the system holds it"),
     ("s", "afterok:12.frontend@frontend", "QUEUED", "", "it waits for other jobs"),
     ("s", "beforeok:13.frontend,afterany:12.frontend", "QUEUED", "", "it waits for other jobs"),
     ("s", "beforeok:13.frontend", "HELD", "operator", "the system holds it"),
     ("su", "afterany:12.frontend", "HELD", "user", ""), ("so", "afterany:12.frontend", "HELD", "operator", "an operator holds it"),
     ("", "", "QUEUED", "", "enough tasks of its array run")],
)  # fmt: skip
def test_whose_hold_it_is(types, depend, state, held_by, reason):
    """Only u is the user's own: a job that waits for another is none that is held."""
    (job,) = read_jobs(of("state-H-xml", Hold_Types=types, depend=depend))
    assert (str(job.state), job.held_by, job.reason) == (state, held_by, reason)
    attributes = RECORDED["state-H-text"]["out"].replace(
        "Hold_Types = u", f"Hold_Types = {types}\n    depend = {depend}"
    )
    (same,) = read_jobs(attributes)
    assert (same.state, same.held_by, same.reason) == (job.state, job.held_by, job.reason)


@pytest.mark.parametrize("case", ["state-R-xml", "state-C-xml", "exit-walltime", "exit-qdel-running", "state-E-text"])
def test_the_comment_is_a_reason_of_jobs_that_wait_only(case):
    assert "Job started on" in RECORDED[case]["out"]
    (job,) = read_jobs(RECORDED[case]["out"])
    assert job.reason == ""


def test_the_comment_of_a_job_that_was_removed_says_why():
    said = "Job 48 deleted because its dependency of job 43 can never be satisfied"
    for status, state, reason in (("271", "CANCELLED", said), ("0", "COMPLETED", "")):
        (job,) = read_jobs(of("state-C-xml", comment=said, exit_status=status))
        assert (str(job.state), job.reason) == (state, reason)


def test_the_comment_of_a_run_before_says_nothing_of_a_job_that_waits_again():
    (job,) = read_jobs(of("state-Q-xml", comment="Job started on Sat Nov 21 at 04:33"))
    assert (str(job.state), job.reason) == ("QUEUED", "")
    (job,) = read_jobs(RECORDED["state-Q-xml"]["out"])
    assert job.reason == "Not Running: Not enough of the right type of nodes are available"


def test_how_long_a_job_ran():
    (job,) = read_jobs(RECORDED["exit-walltime"]["out"])
    assert job.elapsed == 6.520571
    without = re.sub("<total_runtime>.*</total_runtime>", "", RECORDED["state-C-xml"]["out"])
    (job,) = read_jobs(of_text(without, start_time="1795235697", comp_time="1795235704"))
    assert job.elapsed == 7
    assert read_jobs(RECORDED["exit-qdel-queued"]["out"])[0].elapsed is None
    assert read_jobs(RECORDED["state-R-xml"]["out"])[0].elapsed is None


def of_text(text, **values):
    for name, value in values.items():
        text = re.sub(f"<{name}>.*?</{name}>", f"<{name}>{value}</{name}>", text)
    return text


@pytest.mark.parametrize("case", ["submit-shutting-down", "submit-busy", "submit-no-trqauthd", "submit-server-down"])
def test_a_server_that_is_away_refuses_no_job(case):
    with pytest.raises(SchedulerSilent, match="the PBS server is down"):
        Torque().submit(run_of(case), "job.sh", "name")


def test_whether_a_job_was_taken_before_the_connection_broke_is_not_known():
    with pytest.raises(SubmissionUncertain, match="Batch protocol error"):
        Torque().submit(run_of("submit-broken-off"), "job.sh", "name")
    said = "sbatch: error: Batch job submission failed: Unable to contact slurm controller (receive failure)"
    with pytest.raises(SubmissionUncertain, match="receive failure"):
        Torque().submit(lambda argv: CommandResult(1, err=said), "job.sh", "name")


@pytest.mark.parametrize("case", ["submit-queue-full", "submit-user-full", "submit-server-full"])
def test_a_full_queue_is_known_as_such(case):
    with pytest.raises(SubmissionRefused) as caught:
        Torque().submit(run_of(case), "job.sh", "name")
    assert has_no_room(str(caught.value))


def test_no_command_is_named_twice():
    for result, said in (
        (CommandResult(159, err="qdel: Unauthorized Request  MSG=operation not permitted 121.frontend"), "qdel: Unauthorized"),
        (CommandResult(124, err="qdel did not answer within 60 s", timed_out=True), "qdel: did not answer"),
        (CommandResult(1, err="something else"), "qdel: something else"),
    ):  # fmt: skip
        with pytest.raises(SchedulerSilent) as caught:
            Torque().cancel(lambda argv, result=result: result, "121.frontend")
        assert str(caught.value).startswith(said)


def test_one_job_that_cannot_be_deleted_keeps_no_other_from_it():
    asked = []

    def run(argv):
        asked.append(argv[1])
        hangs = argv[1] == "1.frontend"
        return CommandResult(124 if hangs else 0, err="qdel did not answer within 60 s", timed_out=hangs)

    with pytest.raises(SchedulerSilent):
        Torque().cancel(run, "1.frontend", "2.frontend")
    assert asked == ["1.frontend", "2.frontend"]


# --- a node that is down


def answering(**answers):
    """A run that answers by the command's name, and by its first option."""

    def run(argv):
        found = answers.get("_".join(each.strip("-") for each in argv[:2])) or answers.get(argv[0])
        return found or CommandResult(1, err=f"{argv}")

    return run


@pytest.mark.parametrize(
    ("listed", "down"),
    [("node2                down\n", "node2"), ("node2                down,offline\n", "node2"),
     ("node2                state-unknown,down\n", "node2"), ("node2                offline\n", ""), ("node1                down\n", ""),
     ("", ""), ("usage: pbsnodes\n", "")],
)  # fmt: skip
def test_a_node_that_is_down_is_told_of_a_job_that_torque_calls_running(listed, down):
    run = answering(qstat=answer("node-down-still-running"), pbsnodes_l=CommandResult(0, listed))
    job_id = read_jobs(RECORDED["node-down-still-running"]["out"])[0].job_id
    record = Torque().status(run, job_id)
    assert (record.state, record.nodes, record.down) == (JobState.RUNNING, "node2", down)
    assert Torque().statuses(run, [job_id])[job_id].down == down
    assert Torque().removal_by_operator(job_id) == f"qdel -p {job_id}"


@pytest.mark.parametrize(("state", "down"), [("down", True), ("free", False), (None, False)])
def test_long_names_of_nodes_are_cut_by_pbsnodes(state, down):
    """To 20 letters, which two nodes may share."""
    name = "compute-rack01-node0001"
    shown = RECORDED["pbsnodes-x-down"]["out"].replace("node2", name).replace("down", state or "")
    run = answering(
        qstat=CommandResult(0, of("state-R-xml", exec_host=f"{name}/0")),
        pbsnodes_l=CommandResult(0, f"{name[:20]} down\n"),
        pbsnodes_x=CommandResult(0, shown) if state else CommandResult(1, "no"),
    )
    assert Torque().status(run, "121.frontend").down == (name if down else "")


def test_nodes_are_asked_for_where_something_runs_only():
    asked = []

    def run(argv):
        asked.append(argv[0])
        return answer("state-Q-xml")

    Torque().status(run, "123.frontend")
    assert asked == ["qstat"]


# --- arrays


def array_of(*statuses: int | None, parent: str = "C") -> tuple[str, str]:
    """The parent of an array, and its tasks, of which None were deleted before they ran."""
    whole = of("state-C-xml", Job_Id="135[].frontend", job_state=parent).replace("exit_status", "was")
    tasks = []
    for index, status in enumerate(statuses):
        text = of("state-C-xml", Job_Id=f"135[{index}].frontend", exit_status=str(status))
        tasks.append(text if status is not None else text.replace("exit_status", "was"))
    return whole, "<Data>" + "".join(re.search("<Job>.*</Job>", task).group(0) for task in tasks) + "</Data>"


@pytest.mark.parametrize(
    ("statuses", "state", "code"),
    [((0, 0), "COMPLETED", 0), ((0, 3), "FAILED", 3), ((0, -11), "TIMEOUT", None), ((None, None), "CANCELLED", None), ((0, 271), "CANCELLED", None),
     ((None, 3), "FAILED", 3), ((), "COMPLETED", None)],
)  # fmt: skip
def test_an_array_ended_as_its_tasks_did(statuses, state, code):
    """Its own record has no exit_status, as that of a job which was deleted before it ran."""
    whole, tasks = array_of(*statuses)

    def run(argv):
        return CommandResult(0, tasks if "-t" in argv else whole)

    for record in (
        Torque().status(run, "135[].frontend"),
        Torque().statuses(run, ["135[].frontend"])["135[].frontend"],
    ):
        assert (record.job_id, str(record.state), record.exit_code) == ("135[].frontend", state, code)


def test_a_task_of_an_array_is_found_among_many():
    whole, tasks = array_of(0, 3, parent="R")

    def run(argv):
        return CommandResult(0, tasks if "-t" in argv else whole)

    found = Torque().statuses(run, ["135[1].frontend", "135[].frontend"])
    assert {each: str(job.state) for each, job in found.items()} == {
        "135[1].frontend": "FAILED", "135[].frontend": "RUNNING"
    }  # fmt: skip


# As the manual of Moab and the pages of sites show them; there was no server to record.
MOAB = """job 2165961 requires 8 procs for 1:12:00:00

Estimated Rsv based start in                 3:31:22 on Fri Aug 15 12:40:10
Estimated Rsv based completion in         1:15:31:22 on Sun Aug 17 00:40:10

Best Partition: SharedMem
"""
MAUI = "job 7 requires 2 procs for 0:33:20\nEarliest start in        1:02:03:04 on Thu Jan  1 01:16:40\n"
NEVER = "Estimated Rsv based start in                INFINITY\n"


@pytest.mark.parametrize(
    ("result", "seconds"),
    [(CommandResult(0, MOAB), 12_682), (CommandResult(0, MAUI), 93_784), (CommandResult(0, NEVER), None),
     (CommandResult(1, MOAB), None), (CommandResult(127, missing=True), None)],
)  # fmt: skip
def test_showstart_says_when_a_job_may_begin(monkeypatch, result, seconds):
    monkeypatch.setattr("time.time", lambda: 1.7e9)
    expected = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(1.7e9 + seconds)) if seconds else ""
    asked = []

    def run(argv):
        asked.append(argv)
        return result

    assert Torque().start_of(run, "7.frontend") == expected
    script = "#PBS -l nodes=node01:ppn=2+3:ppn=4:ib\n#PBS -l walltime=01:00:05\n"
    assert Torque().forecast(run, script) == expected
    assert Torque().forecast(run, "#PBS -l procs=5\n#PBS -l walltime=00:01:00\n") == expected
    assert Torque().forecast(run, "#PBS -l walltime=00:01:00\n") == ""
    assert asked == [["showstart", "7"], ["showstart", "14@3605"], ["showstart", "5@60"]]
