"""Job arrays of Slurm: their script, what sbatch is told, and the ids of tasks, by what a real one printed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from golden import assert_golden
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.schedulers.base import CommandResult, JobState, SubmissionUncertain, Waits, has_no_room
from modak_ansible.schedulers.registry import SCHEDULERS
from modak_ansible.schedulers.slurm import arrays

SHELLCHECK = shutil.which("shellcheck", path=str(Path(sys.executable).parent)) or "shellcheck"
SLURM = SCHEDULERS["slurm"]
JOB = Path(__file__).parents[3] / "golden" / "scripts" / "slurm-checkpoint.sh"
# A Slurm 24.11.5: an array 1_[0-3%1] whose first task runs, whose second was given back and whose last was cancelled.
QUEUE = """\
1_1|PENDING|JobArrayTaskLimit||arrtest|/home/modak/arr
1_2|PENDING|JobHeldUser||arrtest|/home/modak/arr
1_0|RUNNING|None|node01|arrtest|/home/modak/arr
"""
SHOWN = (
    "JobId=3 ArrayJobId=1 ArrayTaskId=2 ArrayTaskThrottle=1 JobName=arrtest UserId=modak(2000) JobState=FAILED "
    "Reason=NonZeroExitCode ExitCode=3:0 NodeList=node02"
)


def run_of(**answers):
    asked = []

    def run(argv):
        asked.append(argv)
        return answers.get(argv[0], CommandResult(0))

    run.asked = asked
    return run


@pytest.mark.component
def test_the_script(tmp_path):
    """It has the directives of its points, but for where they write, and is clean in shellcheck."""
    text = SLURM.array_script(JOB.read_text())
    assert_golden("scripts/slurm-array.sh", text)
    path = tmp_path / "array.sh"
    path.write_text(text)
    found = subprocess.run([SHELLCHECK, str(path)], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout


@pytest.mark.component
def test_a_task_runs_the_job_in_the_folder_of_its_point(tmp_path):
    """With the task's id as its argument, and the folder itself as where it was submitted, not the link to it."""
    array, point = tmp_path / ".array-1", tmp_path / "point"
    array.mkdir()
    point.mkdir()
    (array / "4").symlink_to("../point")
    (point / "job.sh").write_text('echo "$SLURM_SUBMIT_DIR $PWD $*" > said\n')
    (array / "array.sh").write_text(SLURM.array_script(JOB.read_text()))
    slurm = {"SLURM_SUBMIT_DIR": str(array), "SLURM_ARRAY_JOB_ID": "17", "SLURM_ARRAY_TASK_ID": "4"}
    subprocess.run(["bash", str(array / "array.sh")], env={**os.environ, **slurm}, check=True)
    assert (point / "said").read_text() == f"{point.resolve()} {point.resolve()} 17_4\n"
    (array / "4").unlink()
    gone = subprocess.run(
        ["bash", str(array / "array.sh")], env={**os.environ, **slurm}, capture_output=True, check=False
    )
    assert gone.returncode == 1


@pytest.mark.parametrize("own", ["--output=mine.txt", "--output=scheduler.log\n#SBATCH --error=mine.txt"])
def test_where_a_users_file_gets_the_output_there_is_no_array(own):
    assert SLURM.array_script(f"#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH {own}\n") == ""


@pytest.mark.parametrize("name", ["torque", "none"])
def test_others_have_no_arrays(name):
    assert SCHEDULERS[name].array_script("#!/bin/bash\n#PBS -l nodes=1\n") == ""
    assert SCHEDULERS[name].array_limit(run_of()) == 0


def test_what_sbatch_is_told():
    run = run_of(sbatch=CommandResult(0, "17\n"))
    assert SLURM.submit_array(run, "array.sh", "sweep", 3, 2, Waits(ok=("12_0", "13"))) == ["17_0", "17_1", "17_2"]
    asked = [argv for argv in run.asked if argv[0] == "sbatch"]
    assert " ".join(asked[0]) == (
        "sbatch --parsable --job-name=sweep --array=0-2%2 --output=%a/scheduler.log --dependency=afterok:12_0:13 "
        "--kill-on-invalid-dep=yes array.sh"
    )
    SLURM.submit_array(run, "array.sh", "sweep", 2, None)
    assert "--array=0-1" in run.asked[-1]
    with pytest.raises(SubmissionUncertain):
        SLURM.submit_array(run_of(sbatch=CommandResult(124, timed_out=True)), "array.sh", "sweep", 2, None)


def test_how_large_an_array_may_be():
    assert (
        SLURM.array_limit(run_of(scontrol=CommandResult(0, "MailProg = /bin/mail\nMaxArraySize            = 1001\n")))
        == 1001
    )
    told = "MaxArraySize            = 1001\nSchedulerParameters     = bf_continue,max_array_tasks=300,defer\n"
    assert SLURM.array_limit(run_of(scontrol=CommandResult(0, told))) == 300
    assert SLURM.array_limit(run_of(scontrol=CommandResult(1, err="Unable to contact slurm controller"))) == 0


def test_an_array_is_found_by_its_folder():
    run = run_of(squeue=CommandResult(0, QUEUE), sacct=CommandResult(0, "1_3|CANCELLED|0:0||arrtest|/home/modak/arr\n"))
    assert SLURM.find_array(run, "arrtest", "/home/modak/arr", 4) == ["1_0", "1_1", "1_2", "1_3"]
    assert SLURM.find_array(run, "arrtest", "/home/modak/other", 4) == []
    assert SLURM.find(run, "arrtest", "/home/modak/arr") == ["1_0", "1_1", "1_2", "1_3"]


def test_each_task_has_its_own_state():
    run = run_of(
        squeue=CommandResult(0, QUEUE), sacct=CommandResult(0, "1_3|FAILED|3:0|node02|arrtest|/home/modak/arr\n")
    )
    found = SLURM.placed(run, SLURM.statuses(run, ["1_0", "1_1", "1_2", "1_3"]))
    assert {job_id: str(record.state) for job_id, record in found.items()} == {
        "1_0": "RUNNING", "1_1": "QUEUED", "1_2": "HELD", "1_3": "FAILED"
    }  # fmt: skip
    assert found["1_1"].position is None  # it waits for another task, and not for its turn
    assert all("--array" in argv for argv in run.asked if argv[0] == "squeue")


def test_tasks_have_places_of_their_own_in_the_queue():
    waiting = "3|debug|Priority|N/A\n1_0|debug|Resources|2026-11-22T01:04:32\n1_1|debug|Priority|N/A\n"
    queue = "1_0|PENDING|Resources||a|/x\n1_1|PENDING|Priority||a|/x\n"

    def run(argv):
        return CommandResult(0, (waiting if "--states=PENDING" in argv else queue) if argv[0] == "squeue" else "")

    found = SLURM.placed(run, SLURM.statuses(run, ["1_0", "1_1"]))
    assert [(job_record.position, job_record.starts) for job_record in found.values()] == [
        (2, "2026-11-22T01:04:32"),
        (3, ""),
    ]


def test_without_accounting_the_controller_tells_of_a_task():
    run = run_of(squeue=CommandResult(1, err="Invalid job id specified"), sacct=CommandResult(1, err="accounting storage is disabled"),
                 scontrol=CommandResult(0, SHOWN))  # fmt: skip
    record = SLURM.status(run, "1_2")
    assert (record.job_id, record.state, record.exit_code, record.nodes) == ("1_2", JobState.FAILED, 3, "node02")


def test_several_jobs_are_cancelled_in_one_call():
    gone = "scancel: error: Kill job error on job id 9: Invalid job id specified\n"
    run = run_of(scancel=CommandResult(1, err=gone))
    SLURM.cancel(run, "1_2", "1_3", "9")
    assert run.asked == [["scancel", "1_2", "1_3", "9"]]
    silent = gone + "scancel: error: Kill job error on job id 1_2: Unable to contact slurm controller\n"
    with pytest.raises(Exception, match="Unable to contact"):
        SLURM.cancel(run_of(scancel=CommandResult(1, err=silent)), "1_2", "9")


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("12_[0-2,7%4]", [0, 1, 2, 7]), ("12_[5]", [5]), ("12_[0-6:3]", [0, 3, 6]), ("12_[1,3,...]", [1, 3])],
)
def test_tasks_that_never_began_are_one_line_of_the_accounting(text, numbers):
    assert arrays.tasks(text) == [f"12_{number}" for number in numbers]


@given(st.text(max_size=30))
def test_any_id_is_read(text):
    assert isinstance(arrays.tasks(text), list)


@pytest.mark.parametrize(
    "words",
    ["Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)",
     "QOSMaxSubmitJobPerUserLimit", "maximum number of jobs already in queue for user"],
)  # fmt: skip
def test_refusals_for_want_of_room(words):
    assert has_no_room(words)
    assert not has_no_room("invalid partition specified: nosuch")


@pytest.mark.parametrize(
    "limit",
    ["QOSMaxWallDurationPerJobLimit", "AssocMaxWallDurationPerJobLimit", "QOSMaxCpuPerUserLimit", "QOSMinGRES",
     "QOSMaxGRESPerJob", "QOSMaxGRESPerNode", "QOSMaxMemoryPerJob", "QOSMinMemory", "QOSMinCpuNotSatisfied",
     "AssocMaxGRESPerJob"],
)  # fmt: skip
def test_another_limit_is_not_want_of_room(limit):
    """Slurm's second line is the same for all of them."""
    policy = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"
    assert not has_no_room(f"{limit} | Batch job submission failed: {policy}")
    assert has_no_room(f"AssocMaxSubmitJobLimit | Batch job submission failed: {policy}")
