"""Every job option as the testbed's own sbatch and qsub take it.

The testbed's qsub is Slurm's front end for Torque's words, so what it does with a directive is looked up in Slurm.
"""

from __future__ import annotations

import base64
import re
import shlex
from datetime import datetime

import pytest

from modak_ansible.model.job_options import JobDependency, JobOptions
from modak_ansible.model.plan import PlannedJob
from modak_ansible.model.target import Scheduler
from modak_ansible.schedulers.script import ScriptParts, render_script

pytestmark = pytest.mark.testbed

PARTS = ScriptParts(image="images/none.sif", python="python3", script="train.py", container_runtime="any")
OPTIONS = {
    "job_name": ({}, {"name": "a-name_1.x+y"}),
    "account": ({}, {"account": "project-1"}),
    "queue": ({}, {"partition": "short", "walltime": 300}),
    "wall_time_limit": ({}, {"walltime": 43200}),
    "node_count": ({}, {"nodes": 2}),
    "core_count": ({"core_count": 2}, {"nodes": 2}),
    "core_count_per_process": ({}, {"cores_per_process": 1}),
    "memory_limit": ({}, {"memory": 100 * 2**20}),
    "minimum_memory_per_processor": ({"minimum_memory_per_processor": 100 * 2**20}, {}),
    "request_specific_nodes": ({"request_specific_nodes": ("node02",)}, {}),
    "both_nodes": ({"request_specific_nodes": ("node01", "node02")}, {"nodes": 2}),
    "job_array": ({"job_array": "0-3%2"}, {}),
    "standard_output_file": ({"standard_output_file": "/tmp/out.txt"}, {}),
    "standard_error_file": ({"standard_error_file": "err.txt"}, {}),
    "combine_stdout_stderr": ({"combine_stdout_stderr": True}, {}),
    "copy_environment": ({"copy_environment": True}, {}),
    "copy_environment_variable": ({"copy_environment_variable": ("HOME", "LEVEL=3")}, {}),
    "request_event_notification": ({"request_event_notification": ("abort", "begin", "end")}, {}),
    "email_address": ({"email_address": ("modak@frontend",)}, {}),
    "node_exclusive": ({}, {"exclusive": True}),
    "defer_job": ({"defer_job": datetime(2031, 1, 2, 3, 4, 5)}, {}),
    "architecture_constraint": ({"architecture_constraint": "skylake"}, {}),
    "job_dependency": ({"job_dependency": (JobDependency(kind="afterany", jobs=("PARENT",)),)}, {}),
    "singleton": ({"job_dependency": (JobDependency(kind="singleton"),)}, {}),
    "request_gpus": ({}, {"accelerators": 1}),
}  # fmt: skip
# What the testbed has not, in its own words: the directive was understood.
NOT_HERE = {
    ("slurm", "architecture_constraint"): "Invalid feature specification",
    ("slurm", "request_gpus"): "Invalid generic resource",
    ("torque", "architecture_constraint"): "Invalid node name specified",
    ("torque", "request_gpus"): "Invalid generic resource",
    # Slurm's front end wants [HH:MM][MM/DD/YY] after -a, which Torque never had
    ("torque", "defer_job"): "Invalid time specification .*203101020304.05",
}
# What Slurm says of a job that its qsub submitted.
SHOWN = {
    "job_name": r"JobName=a-name_1\.x\+y\n", "queue": "Partition=short", "wall_time_limit": "TimeLimit=12:00:00",
    "node_count": "NumNodes=2", "memory_limit": "MinMemoryNode=100M", "request_specific_nodes": "ReqNodeList=node02",
    "both_nodes": r"ReqNodeList=node\[01-02\]", "account": "Account=project-1", "job_array": "ArrayTaskId=0-3%2",
    "request_event_notification": "MailType=.*END", "email_address": "MailUser=modak@frontend",
    "job_dependency": "Dependency=afterany:",
}  # fmt: skip


def script(scheduler, name, parent):
    options, changes = OPTIONS[name]
    if name == "job_dependency":
        options = {"job_dependency": (JobDependency(kind="afterany", jobs=(parent,)),)}
    values = {
        "name": "options", "nodes": 1, "processes_per_node": 1, "cores_per_process": 1, "threads": 1, "walltime": 600,
        "environment": {}, "script": "",
    }  # fmt: skip
    job = PlannedJob(**{**values, "scheduler": Scheduler(scheduler), "options": JobOptions(**options), **changes})
    gpus = ({"slurm": "--gres=gpu:1", "torque": ":gpus=1"}[scheduler]) if job.accelerators else ""
    return render_script(job, ScriptParts(**{**PARTS._asdict(), "gpu_request": gpus}))


@pytest.fixture(scope="module")
def place(testbed):
    """A folder on the testbed, and a job there that waits and never runs."""
    folder = testbed.ssh("mktemp -d")
    parent = testbed.ssh("sbatch --parsable --hold --wrap true --output=/dev/null")
    yield folder, parent
    testbed.ssh(f"scancel {parent}; rm -r {folder}")


def ask(testbed, place, scheduler, name):
    """What the scheduler says to a script, with its exit code at the end; and what Slurm knows of the job."""
    folder, parent = place
    text = base64.b64encode(script(scheduler, name, parent).encode()).decode()
    if scheduler == "slurm":
        command = "sbatch --test-only job.sh 2>&1; echo code $?"
    else:
        command = (
            'said=$(qsub -h job.sh 2>&1); echo "$said code $?"; id=$(echo "$said" | tail -1 | cut -d. -f1); '
            'case $id in *[!0-9]* | "") ;; *) scontrol show job "$id"; scancel "$id" ;; esac'
        )
    return testbed.ssh(f"cd {shlex.quote(folder)} && echo {text} | base64 -d > job.sh && {{ {command}; }}")


@pytest.mark.parametrize("name", OPTIONS)
def test_sbatch_takes_it(testbed, place, name):
    said = ask(testbed, place, "slurm", name)
    expected = NOT_HERE.get(("slurm", name))
    if expected:
        assert re.search(expected, said), said
    else:
        assert re.search(r"to start at .* on nodes node", said), said
        assert said.endswith("code 0")


@pytest.mark.parametrize("name", [option for option in OPTIONS if option != "singleton"])
def test_qsub_takes_it(testbed, place, name):
    said = ask(testbed, place, "torque", name)
    expected = NOT_HERE.get(("torque", name))
    if expected:
        assert re.search(expected, said), said
    else:
        assert re.search(r"^\d+(\.\w+)? code 0$", said, re.MULTILINE), said
        assert re.search(SHOWN.get(name, "JobId="), said), said


@pytest.fixture
def features(testbed):
    """Both nodes have some features, which they have no more at the end."""
    said = "scontrol update nodename=node01,node02 AvailableFeatures={0} ActiveFeatures={0}"
    testbed.root(said.format("ib,zen4,nps=1,r1,r2"))
    yield
    testbed.root(said.format(""))


def test_sbatch_knows_every_form_of_a_constraint(testbed, place, features, monkeypatch):
    forms = ("ib&zen4", "ib|zen4", "(ib|zen4)&nps=1", "[r1|r2]", "ib&[r1|r2]", "ib*2", "[(ib&r1)*1&r2*1]")
    for text in forms:
        monkeypatch.setitem(OPTIONS, "constraint", ({"architecture_constraint": text}, {"nodes": 2}))
        said = ask(testbed, place, "slurm", "constraint")
        assert re.search(r"to start at .* on nodes node", said), (text, said)
