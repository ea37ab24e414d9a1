"""A compute node's own view: the job's script is run here, by a scheduler that only seems to be one."""

from __future__ import annotations

import platform
import subprocess
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.discovery.node import node_findings
from modak_ansible.schedulers.base import JobRecord, JobState, SchedulerSilent, SubmissionRefused
from modak_ansible.target.core.workspace import Workspace
from modak_ansible.target.survey import node_view as module
from modak_ansible.target.survey.node_view import job_script, node_view, read_view

OPTIONS = {"partition": "", "account": "", "modules": [], "folders": []}


class Node:
    """A scheduler with one node: this machine. Jobs run at once, or never."""

    title = "Slurm"

    def __init__(self, *, runs: bool = True, refuses: str = "") -> None:
        self.runs, self.refuses = runs, refuses
        self.cancelled: list[str] = []

    def submit(self, run, script, name):
        if self.refuses:
            raise SubmissionRefused(self.refuses)
        if self.runs:
            threading.Thread(target=subprocess.run, args=(["bash", script],), kwargs={"check": False}).start()
        return "7"

    def status(self, run, job_id):
        return JobRecord(job_id, JobState.QUEUED)

    def cancel(self, run, job_id):
        self.cancelled.append(job_id)


@pytest.fixture
def node(monkeypatch):
    def make(**options):
        made = Node(**options)
        monkeypatch.setitem(module.SCHEDULERS, "slurm", made)
        monkeypatch.setattr(module, "_has_reader", lambda: True)
        return made

    return make


@pytest.mark.component
def test_a_node_answers(tmp_path, node):
    made = node()
    found = node_view(Workspace(str(tmp_path)), "slurm", {**OPTIONS, "folders": [str(tmp_path)]}, 60)
    assert (found["problem"], found["same_home"]) == ("", True)
    assert (found["host"], found["machine"]) == (platform.node(), platform.machine())
    assert found["memory"] > 10**8
    assert found["cpuinfo"]
    assert {"/tmp", str(tmp_path)} <= {place["path"] for place in found["places"]}
    assert made.cancelled == ["7"]
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"


@pytest.mark.usefixtures("passing_time")
def test_a_job_that_stays_in_the_queue(tmp_path, node):
    made = node(runs=False)
    found = node_view(Workspace(str(tmp_path)), "slurm", OPTIONS, 1)
    assert found == {"problem": "the job 7 did not finish within 1 s (QUEUED)"}
    assert made.cancelled == ["7"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("passing_time")
def test_a_job_that_ends_and_leaves_no_answer(tmp_path, node, monkeypatch):
    """Its home is another one."""
    made = node(runs=False)
    made.status = lambda run, job_id: JobRecord(job_id, JobState.FAILED)
    monkeypatch.setattr(module, "_LATE_SECONDS", 0)
    found = node_view(Workspace(str(tmp_path)), "slurm", OPTIONS, 30)
    assert found["problem"] == f"the job 7 ended, but its answer is not in {tmp_path} here"


def test_a_job_that_is_refused(tmp_path, node):
    node(refuses="invalid partition")
    found = node_view(Workspace(str(tmp_path)), "slurm", OPTIONS, 5)
    assert found == {"problem": "Slurm did not take the job: invalid partition"}
    (finding,) = node_findings(None, {"node": found})
    assert "the target's partitions and account" in finding.todo, "of the job's folder nothing is left"
    assert list(tmp_path.iterdir()) == []


def test_a_scheduler_that_is_away_costs_no_survey(tmp_path, node):
    made = node()

    def submit(run, script, name):
        raise SchedulerSilent("the PBS server is down (cannot connect to server frontend)")

    made.submit = submit
    found = node_view(Workspace(str(tmp_path)), "slurm", OPTIONS, 5)
    words = "Slurm does not answer, and no job was submitted: the PBS server is down"
    assert found["problem"].startswith(words)
    assert list(tmp_path.iterdir()) == []
    (finding,) = node_findings(None, {"node": found})
    assert (finding.state, finding.todo) == (
        "missing",
        "is it up? try again when it answers, or ask the administrators",
    )


def test_nobody_waits_any_more(tmp_path, node, monkeypatch):
    made = node(runs=False)
    monkeypatch.setattr(module, "_has_reader", lambda: False)
    assert node_view(Workspace(str(tmp_path)), "slurm", OPTIONS, 60)["problem"]
    assert made.cancelled == ["7"]


@pytest.mark.component
@pytest.mark.parametrize(
    ("scheduler", "lines"),
    [
        ("slurm", ["#SBATCH --partition=gpu", "#SBATCH --account=science", "#SBATCH --qos=debug"]),
        ("torque", ["#PBS -q gpu", "#PBS -A science"]),
        ("lsf", ["#BSUB -n 1", "#BSUB -q gpu", "#BSUB -P science"]),
        ("pbspro", ["#PBS -l select=1:ncpus=1", "#PBS -q gpu", "#PBS -A science"]),
    ],
)
def test_the_script(tmp_path, scheduler, lines):
    options = {
        "partition": "gpu",
        "account": "science",
        "qos": "debug",
        "modules": ["a b"],
        "folders": ["/x", "$(id)", "$DISK/y"],
    }
    script = job_script(scheduler, tmp_path, options)
    for line in lines:
        assert f"\n{line}\n" in script
    assert "module load 'a b'" in script
    assert "'$DISK/y'" in script
    assert "$(id)" not in script, "what is no path is not asked for"
    assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0


def test_a_job_of_several_queues_has_them_as_the_scheduler_takes_them(tmp_path):
    options = {"partition": "normal,short", "account": "", "modules": [], "folders": []}
    assert '\n#BSUB -q "normal short"\n' in job_script("lsf", tmp_path, options)
    assert "\n#SBATCH --partition=normal,short\n" in job_script("slurm", tmp_path, options)


def test_an_answer_of_a_node_with_accelerators():
    text = "host=g1\nmachine=x86_64\nmemory=1024\ngpu=NVIDIA H200, 143771 MiB\ngpu=NVIDIA H200, 143771 MiB\n"
    text += "runtime=/usr/bin/apptainer apptainer version 1.3\nplace=$TMPDIR|/local/7|xfs|yes|2048\nplace=broken\nended=yes\n"
    found = read_view(text)
    assert found["gpus"] == ["NVIDIA H200, 143771 MiB"] * 2
    assert found["makers"] == []
    assert read_view("maker=nvidia\nmaker=amd\n")["makers"] == ["nvidia", "amd"]
    assert found["memory"] == 1024 * 1024
    (place,) = found["places"]
    assert (place["name"], place["path"], place["network"], place["free_bytes"]) == (
        "$TMPDIR",
        "/local/7",
        False,
        2048 * 1024,
    )


@given(st.text(alphabet="place=|cpu:memory\n019x", max_size=80))
def test_no_answer_breaks_it(text):
    read_view(text)
