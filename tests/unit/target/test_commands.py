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
    monkeypatch.setenv("SBATCH_ACCOUNT", "p1")
    monkeypatch.setenv("SLURM_TIME_FORMAT", "relative")  # which no forecast is read of
    words = "echo ${SQUEUE_PARTITION:-all} ${SBATCH_EXPORT:-ALL} $SBATCH_ACCOUNT ${SLURM_TIME_FORMAT:-standard}"
    assert TimedRun()(["bash", "-c", words]).out == "all ALL p1 standard\n"


def test_what_a_command_has_started_may_live_on():
    """A site's wrapper may leave something behind that has its output; it has answered all the same."""
    began = time.monotonic()
    result = TimedRun(timeout=0.5)(["bash", "-c", "setsid sleep 20 & echo 42; exit 3"])
    assert (result.timed_out, result.code, result.out) == (False, 3, "42\n")
    hanging = TimedRun(timeout=0.5)(["bash", "-c", "setsid sleep 20 & echo 42; sleep 20"])
    assert hanging.timed_out
    assert time.monotonic() - began < 10
