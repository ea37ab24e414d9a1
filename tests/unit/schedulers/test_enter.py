"""How one comes to the nodes of a running job, and what its processes are known by there."""

from __future__ import annotations

import os
import re
import shlex
import subprocess

import pytest

from modak_ansible.schedulers.base import ActionRefused, CommandResult, JobRecord, JobState, by_ssh
from modak_ansible.schedulers.direct import Direct
from modak_ansible.schedulers.pbs.torque import Torque
from modak_ansible.schedulers.slurm.jobs import Slurm

WORDS = ["python3", "-c", "print('a b')\n", "1.0", "$HERE"]


def unasked(argv):
    raise AssertionError(argv)


def running(job_id, nodes=""):
    return JobRecord(job_id, JobState.RUNNING, nodes=nodes)


def test_slurm_runs_a_step_beside_the_others_on_each_node():
    (command,) = Slurm().enter(unasked, running("97", "node[01-02]"), 2, WORDS)
    assert command == [
        "srun", "--quiet", "--jobid=97", "--overlap", "--nodes=2", "--ntasks=2", "--ntasks-per-node=1",
        "--cpu-bind=none", *WORDS,
    ]  # fmt: skip
    (command,) = Slurm().enter(unasked, running("97"), 1, WORDS, terminal=True)
    assert command[-len(WORDS) - 1] == "--pty"
    assert "--relative=1" in Slurm().enter(unasked, running("97"), 1, WORDS, first=1)[0]
    name, *marks = Slurm().marks("97")
    assert (name, marks) == ("$SLURMD_NODENAME", ["SLURM_JOB_ID=$SLURM_JOB_ID", "SLURMD_NODENAME=$SLURMD_NODENAME"])


@pytest.mark.parametrize(
    ("first", "nodes", "steps"),
    [
        (0, 4, [("0", "1", "0"), ("1", "3", "0")]), (0, 1, [("0", "1", "0")]), (2, 1, [("1", "1", "1")]),
        (1, 3, [("1", "3", "0")]), (0, 2, [("0", "1", "0"), ("1", "1", "0")]),
    ],
)  # fmt: skip
def test_each_component_of_a_job_is_entered_by_a_step_of_its_own(first, nodes, steps):
    job = JobRecord("97", JobState.RUNNING, nodes="node01,node[02-04]", components=(1, 3))
    commands = Slurm().enter(unasked, job, nodes, WORDS, first=first)
    options = [dict(word[2:].split("=", 1) for word in each if re.match("--.*=", word)) for each in commands]
    assert [(each["het-group"], each["nodes"], each.get("relative", "0")) for each in options] == steps
    assert {each["jobid"] for each in options} == {"97"}


def test_a_task_of_an_array_has_a_number_of_its_own():
    asked = []

    def run(argv):
        asked.append(argv)
        return CommandResult(0, "104\n")

    (command,) = Slurm().enter(run, running("97_3"), 1, WORDS)
    assert "--jobid=104" in command
    assert asked == [["squeue", "--noheader", "--array", "--jobs=97_3", "--format=%A"]]
    named = CommandResult(0, "CLUSTER: hpc2\n104\n")  # where the user's profile has SLURM_CLUSTERS=hpc2
    assert "--jobid=104" in Slurm().enter(lambda argv: named, running("97_3"), 1, WORDS)[0]
    gone = CommandResult(1, err="slurm_load_jobs error: Invalid job id specified")
    with pytest.raises(ActionRefused, match="Invalid job id"):
        Slurm().enter(lambda argv: gone, running("97_3"), 1, WORDS)


@pytest.mark.component
def test_torque_is_entered_by_ssh_whose_other_end_is_a_shell(tmp_path):
    first, second = Torque().enter(unasked, running("7.server", "node2,node1"), 2, WORDS)
    assert first[:6] == ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "node2"]
    assert second[5] == "node1"
    assert Torque().enter(unasked, running("7.server", "node2,node1"), 1, WORDS, first=1) == [second]
    (tmp_path / "python3").write_text('#!/bin/sh\nprintf \'%s|\' "${0##*/}" "$@"\n')
    (tmp_path / "python3").chmod(0o755)
    there = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    said = subprocess.run(["sh", "-c", first[6]], env=there, capture_output=True, text=True, check=True)
    assert said.stdout == "".join(f"{word}|" for word in WORDS)
    assert Torque().enter(unasked, running("7.server", "node2"), 1, WORDS, terminal=True)[0][1] == "-t"
    assert Torque().marks("7.server") == ("", "PBS_JOBID=7.server")
    with pytest.raises(ActionRefused, match="on which nodes"):
        Torque().enter(unasked, running("7.server"), 1, WORDS)


@pytest.mark.component
def test_what_is_run_by_ssh_is_one_line_whose_quotes_any_login_shell_reads():
    """A csh ends a quoted word at the end of a line, and takes !! for what was called before."""
    words = ["printf", "%s|", "a\nb's\n", "\\t \\\\n", "hey!!", "$HOME %b `id`", ""]
    told = by_ssh("node2", words)[-1]
    assert "\n" not in told
    assert "!" not in told
    said = subprocess.run(["sh", "-c", told], capture_output=True, text=True, check=True)
    assert said.stdout == "".join(f"{word}|" for word in words[2:])
    # ssh joins what is behind it, such as what modak shell runs, with a blank
    said = subprocess.run(["sh", "-c", f"{told} 7b7d"], capture_output=True, text=True, check=True)
    assert said.stdout == "".join(f"{word}|" for word in [*words[2:], "7b7d"])
    assert by_ssh("node2", ["ls", "a b"])[-1] == "ls 'a b'"


def test_without_a_scheduler_the_job_is_here():
    assert Direct().enter(unasked, running("123.456"), 1, WORDS) == [WORDS]
    assert Direct().marks("123.456") == ("", "pid=123")


def test_other_hosts_are_entered_by_ssh_and_know_the_job_by_what_the_first_gave_its_processes():
    words = ["/usr/bin/python3.11", "-c", "print()", "1.0", *Direct().marks("123.456")]
    here, there, last = Direct().enter(unasked, running("123.456", "one,two,three"), 3, words)
    assert here == words
    assert (there[0], there[-2], last[-2]) == ("ssh", "two", "three")
    assert shlex.split(there[-1]) == ["python3", "-c", "print()", "1.0", "two", "MODAK_JOB=123.456 two"]
    assert Direct().enter(unasked, running("123.456", "one,two,three"), 1, words, first=2) == [last]
