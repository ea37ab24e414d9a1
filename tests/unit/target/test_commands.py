"""Commands that come back within their limit, whatever they leave behind."""

from __future__ import annotations

import time

import pytest

from modak_ansible.target.core import commands
from modak_ansible.target.core.commands import TimedRun

pytestmark = pytest.mark.component


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(commands, "_REST_SECONDS", 0.3)


def test_a_command_that_hangs():
    began = time.monotonic()
    result = TimedRun(timeout=0.5)(["bash", "-c", "echo begun; sleep 30"])
    assert (result.timed_out, result.code) == (True, 124)
    assert result.err == "bash did not answer within 0 s"
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    "folder", ["/opt/slurm/bin", "/opt/pbs/bin", "/cm/shared/apps/slurm/current/bin", "/usr/local/torque/bin"]
)
def test_schedulers_in_folders_of_their_own_are_found(folder, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin")
    assert TimedRun()(["bash", "-c", "echo $PATH"]).out.startswith("/usr/bin:")
    assert folder in TimedRun()(["bash", "-c", "echo $PATH"]).out.strip().split(":")


def test_a_profile_hides_no_job_from_squeue_and_no_environment_from_ranks(monkeypatch):
    monkeypatch.setenv("SQUEUE_PARTITION", "gpu")
    monkeypatch.setenv("SBATCH_EXPORT", "NONE")
    monkeypatch.setenv("SLURM_TIME_FORMAT", "relative")
    monkeypatch.setenv("SBATCH_ACCOUNT", "p1")
    words = "echo ${SQUEUE_PARTITION:-all} ${SBATCH_EXPORT:-ALL} $SBATCH_ACCOUNT ${SLURM_TIME_FORMAT:-standard}"
    assert TimedRun()(["bash", "-c", words]).out == "all ALL p1 standard\n"


def test_a_job_that_is_submitted_from_another_has_no_words_of_that(tmp_path, monkeypatch):
    """As from a notebook on a node: srun takes SLURM_MEM_PER_CPU of the one and SLURM_MEM_PER_NODE of the other for two."""
    sbatch = tmp_path / "sbatch"
    sbatch.write_text("#!/bin/sh\necho ${SLURM_MEM_PER_CPU:-none} ${SLURM_CPUS_PER_TASK:-none} $SLURM_CONF\n")
    sbatch.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    for name, value in (
        ("SLURM_MEM_PER_CPU", "4000"),
        ("SLURM_CPUS_PER_TASK", "17"),
        ("SLURM_CONF", "/etc/slurm.conf"),
    ):
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    assert TimedRun()(["sbatch", "job.sh"]).out == "4000 17 /etc/slurm.conf\n", "they are the user's own"
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert TimedRun()(["sbatch", "job.sh"]).out == "none none /etc/slurm.conf\n"
    assert TimedRun()(["sh", "-c", "echo $SLURM_CPUS_PER_TASK"]).out == "17\n"


def test_what_a_command_has_started_may_live_on():
    """A site's wrapper may leave something behind that has its output; it has answered all the same."""
    began = time.monotonic()
    result = TimedRun(timeout=0.5)(["bash", "-c", "setsid sleep 20 & echo 42; exit 3"])
    assert (result.timed_out, result.code, result.out) == (False, 3, "42\n")
    hanging = TimedRun(timeout=0.5)(["bash", "-c", "setsid sleep 20 & echo 42; sleep 20"])
    assert hanging.timed_out
    assert time.monotonic() - began < 10
