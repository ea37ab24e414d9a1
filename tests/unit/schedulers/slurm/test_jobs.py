"""Slurm, judged by what a real one printed, with accounting and without."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml_files
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.schedulers.base import (
    AccountingSilent,
    CommandResult,
    JobState,
    SchedulerSilent,
    SubmissionRefused,
    SubmissionUncertain,
    Waits,
)
from modak_ansible.schedulers.slurm.jobs import Slurm
from modak_ansible.target.core.commands import TimedRun

RECORDED = yaml_files.read(Path(__file__).parents[1] / "recorded" / "slurm.yaml")
NO_ACCOUNTING = CommandResult(1, err="Slurm accounting storage is disabled")
UNKNOWN = CommandResult(1, err="slurm_load_jobs error: Invalid job id specified")


def answer(case: str) -> CommandResult:
    recorded = RECORDED[case]
    return CommandResult(recorded["code"], recorded.get("out", ""), recorded.get("err", ""))


def run_of(**answers: CommandResult):
    """A run that answers each command by its name."""
    return lambda argv: {"sed": CommandResult(0), **answers}[argv[0]]


def recorded(case: str, **changes: CommandResult):
    commands = {name: answer(f"{case}-{name}") for name in ("squeue", "sacct", "scontrol")}
    return run_of(**{**commands, **changes})


def placed(run, job_ids):
    return Slurm().placed(run, Slurm().statuses(run, job_ids))


ENDS = [
    ("completed", "COMPLETED", 0, None, "node01"), ("failed", "FAILED", 3, None, "node02"), ("killed", "FAILED", 0, 9, "node01"),
    ("timeout", "TIMEOUT", 0, None, "node01"), ("oom", "OUT_OF_MEMORY", 0, 125, "node02"),
    ("cancelled-running", "CANCELLED", 0, None, "node01"), ("cancelled-pending", "CANCELLED", 0, None, ""),
    ("nodefail", "NODE_FAIL", 1, None, "node01"), ("preempted", "PREEMPTED", 0, None, "node[01-02]"),
]  # fmt: skip


@pytest.mark.parametrize(("case", "state", "code", "signal", "nodes"), ENDS)
def test_ends_with_accounting(case, state, code, signal, nodes):
    for run in (recorded(case), recorded(case, squeue=UNKNOWN)):
        record = Slurm().status(run, "1")
        assert (str(record.state), record.exit_code, record.signal, record.nodes) == (state, code, signal, nodes)


@pytest.mark.parametrize(("case", "state", "code", "signal", "nodes"), ENDS)
def test_ends_without_accounting(case, state, code, signal, nodes):
    """The controller remembers a finished job for a while."""
    record = Slurm().status(recorded(case, sacct=NO_ACCOUNTING), "1")
    assert str(record.state) == state
    assert record.exit_code == code or state == "NODE_FAIL"  # sacct says 1:0 and scontrol 0:1
    missing = CommandResult(127, err="sacct: command not found", missing=True)
    assert str(Slurm().status(recorded(case, sacct=missing, squeue=UNKNOWN), "1").state) == state


@pytest.mark.parametrize(
    ("case", "state", "reason"),
    [("running", "RUNNING", ""), ("held", "HELD", "JobHeldUser"), ("pending", "QUEUED", "Resources")],
)
def test_living_jobs(case, state, reason):
    record = Slurm().status(recorded(case), "1")
    assert (str(record.state), record.reason, record.folder) == (state, reason, "/home/modak/work")


@pytest.mark.parametrize(
    ("case", "state", "code", "nodes", "components"),
    [
        ("running", "RUNNING", None, "node01,node[02-04]", (1, 3)), ("pending", "QUEUED", None, "", ()),
        ("failed", "FAILED", 3, "node01,node[02-04]", (1, 3)), ("cancelled", "CANCELLED", 0, "", ()),
        ("ended", "CANCELLED", 0, "node01,node[02-04]", (1, 3)),
    ],
)  # fmt: skip
def test_components_are_one_job(case, state, code, nodes, components):
    """Of a heterogeneous job each command shows every component: 24+0, 24+1."""
    case = f"het-{case}"
    job_id = RECORDED[f"{case}-squeue"]["out"].partition("+")[0]
    runs = [recorded(case), recorded(case, sacct=NO_ACCOUNTING)]
    if not JobState(state).is_final:
        runs = runs[:1]
    else:
        runs += [recorded(case, squeue=UNKNOWN), recorded(case, squeue=UNKNOWN, sacct=NO_ACCOUNTING)]
    for run in runs:
        record = Slurm().status(run, job_id)
        assert (record.job_id, str(record.state), record.exit_code) == (job_id, state, code)
        assert (record.nodes, record.components) == (nodes, components)
    assert Slurm().find(runs[0], "het", "/home/modak/work") == [job_id]
    known = Slurm().statuses(runs[0], [job_id])[job_id]
    assert (str(known.state), known.nodes, known.components) == (state, nodes, components)


def test_components_in_any_order_and_several_lives():
    lines = "7+1|RUNNING|None|n2|name|/x\n7+0|RUNNING|None|n1|name|/x\n8|RUNNING|None|n3|name|/y\n"
    found = Slurm().statuses(run_of(squeue=CommandResult(0, lines)), ["7", "8"])
    assert [(each.nodes, each.components) for each in found.values()] == [("n1,n2", (1, 1)), ("n3", ())]
    lives = "7+0|NODE_FAIL|1:0|n1|n|/x\n7+1|NODE_FAIL|1:0|n2|n|/x\n7+0|COMPLETED|0:0|n3|n|/x\n7+1|FAILED|1:0|n4|n|/x\n"
    record = Slurm().status(run_of(squeue=UNKNOWN, sacct=CommandResult(0, lives)), "7")
    assert (record.state, record.nodes) == (JobState.COMPLETED, "n3,n4")
    lost = "7+0|FAILED|1:0|n1|n|/x\n7+1|NODE_FAIL|0:0|n2|n|/x\n"
    assert Slurm().status(run_of(squeue=UNKNOWN, sacct=CommandResult(0, lost)), "7").state is JobState.NODE_FAIL


def test_a_job_of_components_has_one_place_in_the_queue():
    places = (
        "6|debug|Resources|N/A\n7+0|debug|Priority|2026-11-25T18:01:21\n7+1|debug|Priority|N/A\n8|debug|Priority|N/A\n"
    )
    squeue = iter(["7+0|PENDING|Priority||n|/x\n7+1|PENDING|Priority||n|/x\n8|PENDING|Priority||n|/y\n", places])
    found = placed(lambda argv: CommandResult(0, next(squeue)), ["7", "8"])
    assert [(each.position, each.starts) for each in found.values()] == [(2, "2026-11-25T18:01:21"), (3, "")]


def test_a_job_of_several_partitions_waits_in_all_of_them():
    """As where most jobs ask for normal,owners: those before it in either are before it."""
    places = (
        "5|owners|Priority|N/A\n6|normal,owners|Priority|N/A\n7|normal|Priority|N/A\n8|owners,normal|Priority|N/A\n"
    )
    squeue = iter(["".join(f"{number}|PENDING|Priority||n|/x\n" for number in (5, 6, 7, 8)), places])
    found = placed(lambda argv: CommandResult(0, next(squeue)), ["5", "6", "7", "8"])
    assert {each: record.position for each, record in found.items()} == {"5": 1, "6": 1, "7": 2, "8": 3}


def test_components_are_forecast_together_and_their_energy_is_added_up():
    asked = []
    directives = "#SBATCH --nodes=1\n#SBATCH hetjob\n#SBATCH --nodes=3\n"
    said = CommandResult(0, err="sbatch: Job 32 to start at 2026-11-25T18:07:21 using 4 processors on node[01-03]")
    assert Slurm().forecast(lambda argv: asked.append(argv) or said, directives) == "2026-11-25T18:07:21"
    assert asked == [["sbatch", "--test-only", "--nodes=1", ":", "--nodes=3", "--wrap=true"]]
    rows = "7+0|9\n7+0.batch|4\n7+0.0|9\n7+1|30\n7+1.0|30\n8|2\n"
    assert Slurm().joules(run_of(sacct=CommandResult(0, rows)), ["7", "8"]) == {"7": 39.0, "8": 2.0}


def test_a_job_that_is_gone():
    assert Slurm().status(recorded("unknown"), "99999") is None
    assert Slurm().status(recorded("unknown", sacct=NO_ACCOUNTING), "99999") is None


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("CANCELLED by 1000", "CANCELLED"), ("CANCELLED+", "CANCELLED"), ("OUT_OF_ME+", "OUT_OF_MEMORY"), ("BOOT_FAIL", "BOOT_FAIL"),
        ("DEADLINE", "TIMEOUT"), ("REVOKED", "CANCELLED"), ("LAUNCH_FAILED", "FAILED"), ("NODE_FAIL", "NODE_FAIL"),
    ],
)  # fmt: skip
def test_states_as_sacct_writes_them(text, state):
    account = CommandResult(0, f"7|{text}|0:0|n1|name|/home/x\n")
    record = Slurm().status(run_of(squeue=UNKNOWN, sacct=account), "7")
    assert (str(record.state), record.limit) == (state, "deadline" if text == "DEADLINE" else "")


def test_who_cancelled_a_job_is_told_where_it_was_not_the_user():
    for uid, reason in ((os.getuid(), ""), (os.getuid() + 1, f"by user {os.getuid() + 1}")):
        account = CommandResult(0, f"7|CANCELLED by {uid}|0:15|n1|name|/home/x\n")
        assert Slurm().status(run_of(squeue=UNKNOWN, sacct=account), "7").reason == reason


@pytest.mark.parametrize(
    ("text", "state"),
    [("CONFIGURING", "QUEUED"), ("COMPLETING", "ENDING"), ("SUSPENDED", "SUSPENDED"), ("REQUEUE_HOLD", "HELD"), ("STOPPED", "SUSPENDED"),
     ("RESIZING", "RUNNING"), ("STAGE_OUT", "ENDING"), ("SPECIAL_EXIT", "HELD"), ("EXPEDITING", "QUEUED")],
)  # fmt: skip
def test_states_as_squeue_writes_them(text, state):
    queue = CommandResult(0, f"7|{text}|None|n1|name|/home/x|with|bars\n")
    record = Slurm().status(run_of(squeue=queue), "7")
    assert (str(record.state), record.folder) == (state, "/home/x|with|bars")


@pytest.mark.parametrize(("nodes", "state"), [("n[1-2]", JobState.RUNNING), ("", JobState.QUEUED)])
def test_a_state_of_a_later_slurm_is_no_lost_job(nodes, state):
    queue = CommandResult(0, f"CLUSTER: c\nJob 7|is|kept|by|our|site\n7|HIBERNATING|None|{nodes}|name|/home/x\n")
    assert Slurm().status(run_of(squeue=queue), "7").state is state
    assert list(Slurm().statuses(run_of(squeue=queue), ["7"])) == ["7"]


def test_a_job_that_another_cluster_of_the_federation_has_begun():
    """Here it is revoked, which is no end: the manual pages of squeue and sacct have --federation for that."""

    def run(argv):
        line = {"squeue": "7|REVOKED|None||name|/x\n", "sacct": "7|REVOKED|0:0||name|/x\n"}[argv[0]]
        return CommandResult(0, line + answers.get(argv[0], "") * ("--federation" in argv))

    answers = {"squeue": "7|RUNNING|None|b1|name|/x\n"}
    assert Slurm().status(run, "7").nodes == "b1"
    assert Slurm().statuses(run, ["7"])["7"].state is JobState.RUNNING
    assert Slurm().find(run, "name", "/x") == ["7"]
    answers = {"sacct": "7|COMPLETED|0:0|b1|name|/x\n"}
    assert Slurm().status(run, "7").state is JobState.COMPLETED
    answers = {}
    assert Slurm().status(run, "7").state is JobState.CANCELLED  # nobody says that it is anywhere else


def test_the_accounting_may_be_late():
    """squeue knows the end, and sacct still says that the job runs."""
    queue = CommandResult(0, "7|FAILED|NonZeroExitCode|n1|name|/home/x\n")
    account = CommandResult(0, "7|RUNNING|0:0|n1|name|/home/x\n")
    assert Slurm().status(run_of(squeue=queue, sacct=account), "7").state is JobState.FAILED


AWAY = [
    CommandResult(1, err="sacct: error: Sending PersistInit msg: Connection refused\nsacct: error: Problem talking to the database: Connection refused"),
    CommandResult(124, err="sacct did not answer within 60 s", timed_out=True),
]  # fmt: skip


@pytest.mark.parametrize("sacct", AWAY)
def test_an_accounting_that_is_away(sacct):
    """What the controller knows counts; what it has forgotten is not known, and is not taken for lost."""
    for case in ("failed", "timeout", "cancelled-running"):
        expected = next(state for name, state, *_ in ENDS if name == case)
        assert str(Slurm().status(recorded(case, sacct=sacct), "1").state) == expected
    forgotten = CommandResult(1, err="slurm_load_jobs error: Invalid job id specified")
    with pytest.raises(AccountingSilent, match="sacct: "):
        Slurm().status(run_of(squeue=UNKNOWN, sacct=sacct, scontrol=forgotten), "1")
    with pytest.raises(AccountingSilent) as caught:
        Slurm().statuses(
            run_of(squeue=CommandResult(0, "7|RUNNING|None|n1|name|/x\n"), sacct=sacct, scontrol=forgotten), ["7", "8"]
        )
    assert list(caught.value.known) == ["7"]
    assert Slurm().find(run_of(squeue=CommandResult(0, "7|RUNNING|None|n1|name|/x\n"), sacct=sacct), "name", "/x") == [
        "7"
    ]


def test_a_squeue_that_does_not_know_me_is_told_who_that_is():
    """Slurm before 20.02."""

    def run(argv):
        if "--me" in argv:
            return CommandResult(
                1, err="squeue: unrecognized option '--me'\nTry \"squeue --help\" for more information"
            )
        assert f"--user={os.getuid()}" in argv or argv[0] != "squeue"
        return CommandResult(0, "7|RUNNING|None|n1|name|/x\n" if argv[0] == "squeue" else "")

    assert list(Slurm().statuses(run, ["7"])) == Slurm().find(run, "name", "/x") == ["7"]


def test_a_requeued_job_counts_by_its_last_life():
    account = CommandResult(0, "7|NODE_FAIL|1:0|n1|name|/x\n7|COMPLETED|0:0|n2|name|/x\n")
    assert Slurm().status(run_of(squeue=UNKNOWN, sacct=account), "7").state is JobState.COMPLETED


@pytest.mark.parametrize(
    "result",
    [CommandResult(124, timed_out=True, err="squeue did not answer"), CommandResult(127, err="squeue: command not found", missing=True),
     CommandResult(1, err="slurm_load_jobs error: Unable to contact slurm controller (connect failure)")],
)  # fmt: skip
def test_a_silent_controller_tells_nothing(result):
    with pytest.raises(SchedulerSilent, match="squeue"):
        Slurm().status(run_of(squeue=result), "1")
    with pytest.raises(SchedulerSilent):
        Slurm().find(run_of(squeue=result), "name", "/x")


def test_submission():
    assert Slurm().submit(run_of(sbatch=answer("submit-ok")), "job.sh", "n") == RECORDED["submit-ok"]["out"].strip()
    assert Slurm().submit(run_of(sbatch=CommandResult(0, "17;cluster\n")), "job.sh", "n") == "17"
    assert Slurm().submit(run_of(sbatch=CommandResult(0, "welcome to 2026\n18\n")), "job.sh", "n") == "18"


@pytest.mark.parametrize(
    ("case", "words"),
    [("submit-partition", "invalid partition specified: nosuch"), ("submit-nodes", "More processors requested than permitted"),
     ("submit-time", "time limit is invalid"), ("submit-noscript", "Unable to open file")],
)  # fmt: skip
def test_refusals(case, words):
    with pytest.raises(SubmissionRefused, match=words) as caught:
        Slurm().submit(run_of(sbatch=answer(case)), "job.sh", "n")
    assert "sbatch: error:" not in str(caught.value)


@pytest.mark.parametrize(
    "result",
    [CommandResult(124, timed_out=True), CommandResult(0, ""),
     CommandResult(1, err="sbatch: error: Batch job submission failed: Socket timed out on send/recv operation"),
     *[CommandResult(1, err=f"sbatch: error: Unable to contact slurm controller ({words} failure)")
       for words in ("send", "receive", "shutdown")]],
)  # fmt: skip
def test_uncertain_submissions(result):
    with pytest.raises(SubmissionUncertain):
        Slurm().submit(run_of(sbatch=result), "job.sh", "n")


@pytest.mark.parametrize(
    "words", ["Unable to contact slurm controller (connect failure)", "Rate limit exceeded, please retry later"]
)
def test_a_controller_that_cannot_be_reached_refuses_nothing(words):
    said = f"sbatch: error: Batch job submission failed: {words}"
    with pytest.raises(SchedulerSilent, match=f"^Batch job submission failed: {words[:19]}"):
        Slurm().submit(run_of(sbatch=CommandResult(1, err=said)), "job.sh", "n")


def test_finding_a_job_by_name_and_folder():
    queue = CommandResult(0, "9|RUNNING|None|n|name|/home/x/deployments/one\n10|PENDING|None||name|/elsewhere\n")
    account = CommandResult(
        0, "8|FAILED|1:0|n|name|/home/x/deployments/one\n9|RUNNING|0:0|n|name|/home/x/deployments/one\n"
    )
    assert Slurm().find(run_of(squeue=queue, sacct=account), "name", "/home/x/deployments/one") == ["8", "9"]
    assert Slurm().find(run_of(squeue=queue, sacct=NO_ACCOUNTING), "name", "/home/x/deployments/one") == ["9"]
    assert Slurm().find(run_of(squeue=answer("find-squeue"), sacct=NO_ACCOUNTING), "ok", "/home/modak/work")


def test_cancelling():
    Slurm().cancel(run_of(scancel=CommandResult(0)), "1")
    Slurm().cancel(
        run_of(scancel=CommandResult(1, err="scancel: error: Kill job error on job id 1: Invalid job id specified")),
        "1",
    )
    with pytest.raises(SchedulerSilent, match="scancel"):
        Slurm().cancel(run_of(scancel=CommandResult(1, err="Unable to contact slurm controller")), "1")


@given(st.text(), st.text(), st.integers(0, 3))
def test_any_output_is_a_record_nothing_or_silence(queue, account, code):
    run = run_of(squeue=CommandResult(code, queue), sacct=CommandResult(0, account), scontrol=CommandResult(0, queue))
    try:
        record = Slurm().status(run, "7")
    except SchedulerSilent:
        return
    assert record is None or record.state in JobState


def test_a_job_that_comes_after_others_is_never_left_waiting_for_one_that_failed():
    asked = []

    def run(argv):
        asked.append(argv)
        return CommandResult(0, "9\n" if argv[0] == "sbatch" else "")

    assert Slurm().submit(run, "job.sh", "n", Waits(ok=("7", "8"), ended=("5",))) == "9"
    assert asked[1:] == [
        ["sbatch", "--parsable", "--job-name=n", "--dependency=afterok:7:8,afterany:5", "--kill-on-invalid-dep=yes", "job.sh"]
    ]  # fmt: skip


HEAD = '#!/bin/bash\n#SBATCH --account=team\n\n# a comment\n#SBATCH --constraint="a&b"\n'


@pytest.mark.component
@pytest.mark.parametrize(
    ("head", "repeated"),
    [(HEAD, ["--account=team", "--constraint=a&b"]), (HEAD + "#SBATCH hetjob\n#SBATCH --qos=high\n", [])],
)
def test_variables_of_a_users_profile_do_not_come_before_the_scripts_directives(tmp_path, head, repeated):
    """SBATCH_ACCOUNT does, but for what stands on the command line; there a job of components would have them all."""
    asked = []

    def run(argv):
        asked.append(argv)
        return TimedRun(tmp_path)(argv) if argv[0] == "sed" else CommandResult(0, "9\n")

    (tmp_path / "job.sh").write_text(head + "cat <<END\n#SBATCH --qos=low\nEND\n")
    Slurm().submit(run, "job.sh", "n")
    assert asked[-1] == ["sbatch", "--parsable", *repeated, "--job-name=n", "job.sh"]
    Slurm().submit_array(run, "job.sh", "n", 2, None)
    assert asked[-1] == [
        "sbatch", "--parsable", *repeated, "--job-name=n", "--array=0-1", "--output=%a/scheduler.log", "job.sh"
    ]  # fmt: skip


VIOLATES = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"


@pytest.mark.parametrize(
    ("case", "starts"),
    [("at-once", "2026-11-23T16:20:03"), ("full", "2026-11-23T16:23:04"), ("refused", "")],
)
def test_a_forecast_before_anything_is_submitted(case, starts):
    asked = []

    def run(argv):
        asked.append(argv)
        return answer(f"test-only-{case}")

    script = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --comment='two words'\n\necho '#SBATCH --nodes=3'\n"
    assert Slurm().forecast(run, script) == starts
    assert asked == [["sbatch", "--test-only", "--nodes=2", "--comment=two words", "--wrap=true"]]
    assert Slurm().forecast(run, "#SBATCH --hold\n") == ""
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("allocation failure: More processors requested than permitted", "More processors requested than permitted"),
        ("allocation failure: Invalid qos specification", "Invalid qos specification"),
        ("allocation failure: Requested time limit is invalid (missing or exceeds some limit)", "Requested time limit is invalid (missing or exceeds some limit)"),
        ("sbatch: error: Please say which project pays\nallocation failure: Unspecified error", "Please say which project pays Unspecified error"),
        (f"sbatch: error: QOSMaxWallDurationPerJobLimit\nallocation failure: {VIOLATES}", f"QOSMaxWallDurationPerJobLimit {VIOLATES}"),
        (f"sbatch: error: QOSMaxSubmitJobPerUserLimit\nallocation failure: {VIOLATES}", ""),  # some end
        ("allocation failure: Requested node configuration is not available", ""),  # all of it may be drained
        ("allocation failure: Rate limit exceeded, please retry momentarily", ""),
        ("allocation failure: Unable to contact slurm controller (connect failure)", ""),
        ("sbatch: error: Batch job submission failed: Socket timed out on send/recv operation", ""),
    ],
)  # fmt: skip
def test_what_slurm_has_against_a_job_that_is_not_submitted(said, words):
    assert Slurm().objection(lambda argv: CommandResult(1, err=f"{said}\n"), "#SBATCH --qos=x\n") == words
    assert Slurm().objection(lambda argv: answer("test-only-at-once"), "#SBATCH --qos=x\n") == ""


# In the form of Slurm 24.11 without AcctGatherEnergyType (the first job and the task, of the testbed) and with it: there
# the sums are as slurmctld's step_mgr.c makes them, for there was no node that counts.
ENERGY = """\
84|
84.batch|0
80_3|
80_3.batch|0
90|12000
90.batch|12000
91|50000
91.batch|20000
91.0|30000
92|31000
92.batch|20000
92.extern|31000
92.0|30000
93|700
94|18446744073709551614
95_1|55
95_1.batch|55
"""


def test_energy_counts_a_node_once():
    asked = []

    def run(argv):
        asked.append(argv)
        return CommandResult(0, ENERGY)

    found = Slurm().joules(run, ["84", "95_1"])
    assert found == {"90": 12000.0, "91": 30000.0, "92": 31000.0, "93": 700.0, "95_1": 55.0}
    rows = ["--noheader", "--parsable2", "--jobs=84,95_1", "--format=JobID,ConsumedEnergyRaw"]
    assert asked == [["sacct", *rows]]
    assert Slurm().joules(run, []) == {}
    assert Slurm().joules(lambda argv: NO_ACCOUNTING, ["1"]) == {}


@pytest.mark.parametrize(
    "reason", ["launch failed requeued held", "launch_failed_requeued_held", "JobHoldMaxRequeue", "JobHeldAdmin"]
)
def test_what_slurm_holds_itself_is_held(reason):
    run = run_of(squeue=CommandResult(0, f"12|PENDING|{reason}||j|/h/a\n"))
    assert Slurm().status(run, "12").state == "HELD"


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("PartitionTimeLimit", "it asks for more time than it may have there"), ("QOSMaxWallDurationPerJobLimit", "it asks for more time than it may have there"),
        ("AssocMaxNodePerJobLimit", "it asks for more than one job may have"), ("QOSMaxGRESPerNode", "it asks for more than one job may have"),
        ("QOSMinGRES", "it asks for less than its quality of service requires"), ("BadConstraints", "no node has everything that it asks for"),
        ("AssocGrpBillingMinutes", "what its account or quality of service may use is used up"), ("InvalidAccount", "its account may not be charged for it"),
        ("QOSNotAllowed", "it may not use its quality of service"), ("MaxMemPerLimit", "it asks for more memory than it may have there"),
        ("PartitionNodeLimit", "it asks for more or fewer nodes than it may have there, or than are up"),
        ("DependencyNeverSatisfied", "a job that it waits for did not end as it should"), ("Dependency", ""),
        ("Resources", ""), ("Priority", ""), ("QOSMaxJobsPerUserLimit", ""), ("AssocGrpGRES", ""), ("AssocGrpCPURunMinutesLimit", ""),
        ("QOSMaxCpuPerUserLimit", ""), ("None", ""),
    ],
)  # fmt: skip
def test_what_a_job_waits_for_that_does_not_come_by_itself(reason, words):
    record = Slurm().status(run_of(squeue=CommandResult(0, f"12|PENDING|{reason}||train|/home/me/x\n")), "12")
    assert (record.state, record.obstacle) == (JobState.QUEUED, words)
    assert record.reason == ("" if reason == "None" else reason)
