"""The cluster fails under a deployment: its front end, its scheduler, its accounting.

A job that outgrows its memory or its wall, is cancelled behind our back, or loses its node: test_deployment.py and
test_verbs.py. Two deployments at once: test_deployment.py and test_faults_controller.py.
"""

from __future__ import annotations

import json
import time

import pytest
from cluster import modak, wait_for
from daemons import comes_to, end_of, hung, stopped
from faults import finishes, nothing_is_left, one_job_completed, results_are_whole
from test_verbs import CHECKPOINTED

pytestmark = pytest.mark.testbed
SHORT = "import time\nprint('epoch 1', flush=True)\ntime.sleep({seconds})\nprint('done')\n"
# The last line of a deployment before its job is staged and submitted.
BEFORE_THE_JOB = "= image "


def status(project):
    (row,) = json.loads(modak("status", project.path, "--json", cwd=project.path).stdout)
    return row


def output(project):
    return (project.folder / "results" / "output.log").read_text()


@pytest.mark.thorough
def test_slurmctld_is_stopped_when_a_job_is_submitted(project):
    process = project.script(SHORT.format(seconds=3)).start()
    comes_to(process, BEFORE_THE_JOB)
    with stopped(project.testbed, "slurmctld"):
        said = end_of(process)
        assert process.returncode == 4, said
        assert "Unable to contact slurm controller" in said
        assert "deploy again when it answers" in said
        again = project.deploy()
        assert again.returncode == 4
        assert "Slurm does not answer, and the job was not submitted: " in again.stderr
        assert "deploy again when it answers" in again.stderr
        nothing_is_left(project)
    finishes(project)
    assert output(project) == "epoch 1\ndone\n"


@pytest.mark.thorough
def test_slurmctld_hangs_when_a_job_is_submitted(project):
    """It takes the job when it wakes, long after sbatch has given up."""
    process = project.script(SHORT.format(seconds=3)).start()
    comes_to(process, BEFORE_THE_JOB)
    with hung(project.testbed, "slurmctld"):
        said = end_of(process)
        assert process.returncode == 4, said
        assert "it is not known whether the job was submitted: sbatch did not answer" in said
        assert "modak looks for the job before it submits another one" in said
    wait_for(project.jobs)
    finishes(project)


@pytest.mark.thorough
def test_slurmctld_is_restarted_under_a_watched_job(project):
    """The outage is longer than the patience of squeue, and the job lives through it."""
    process = project.script(SHORT.format(seconds=40)).start()
    said = comes_to(process, "is running")
    with stopped(project.testbed, "slurmctld"):
        said += comes_to(process, "is unknown")
        assert "the scheduler does not answer: squeue: " in said
        time.sleep(5)
    said += end_of(process)
    assert process.returncode == 0, said
    assert "is completed" in said
    one_job_completed(project)
    results_are_whole(project)
    nothing_is_left(project)
    assert '"changed": false' in finishes(project, "--json")


@pytest.mark.thorough
def test_a_job_ends_while_slurmctld_is_down(project):
    """Its own marker is enough; and one that failed is known when the scheduler is back."""
    process = project.script(SHORT.format(seconds=8)).start()
    comes_to(process, "epoch 1")
    with stopped(project.testbed, "slurmctld"):
        said = end_of(process)
        assert process.returncode == 0, said
        assert "is completed" in said
    finishes(project)


@pytest.mark.thorough
@pytest.mark.parametrize("away", [stopped, hung])
def test_slurmdbd_is_away_during_a_whole_deployment(project, away):
    """Jobs run and end; sacct refuses at once, or is given up after a minute."""
    with away(project.testbed, "slurmdbd"):
        done = project.script(SHORT.format(seconds=3)).deploy()
        assert done.returncode == 0, done.stdout + done.stderr
        assert status(project)["state"] == "COMPLETED"
        assert project.undeploy().returncode == 0
        project.script("raise SystemExit('the data is odd')\n")
        failed = project.deploy()
        assert failed.returncode == 5
        assert "ended as FAILED, exit code 1: the training ended with exit code 1" in failed.stderr
        assert "| the data is odd" in failed.stderr
        nothing_is_left(project)
    again = project.deploy()
    assert again.returncode == 5
    assert "ended as FAILED, exit code 1" in again.stderr
    wait_for(project.jobs)  # what slurmctld has kept for it comes a little later
    assert len(project.jobs()) == 1


@pytest.mark.thorough
def test_slurmdbd_is_away_when_a_job_is_cancelled_behind_our_back(project):
    with stopped(project.testbed, "slurmdbd"):
        process = project.script(SHORT.format(seconds=600)).start()
        comes_to(process, "epoch 1")
        project.testbed.ssh("scancel --me")
        said = end_of(process)
        assert process.returncode == 5
        assert "ended as CANCELLED" in said
        assert "modak resume" in said
        nothing_is_left(project)
    wait_for(project.jobs)
    assert len(project.jobs()) == 1


@pytest.mark.thorough
def test_the_front_end_is_rebooted_under_a_watched_job(project):
    """The whole box ends, with all daemons and the job, and is started again while modak is watching."""
    process = project.script(CHECKPOINTED.format(end="time.sleep(600)")).start()
    said = comes_to(process, "epoch 2")
    project.testbed.reboot()
    said += end_of(process)
    assert process.returncode == 5, said
    assert "the connection broke; trying again in 1 s" in said
    assert "ended as NODE_FAIL" in said
    assert f"modak resume {project.deployment} runs it again" in said
    assert project.deploy().returncode == 5
    assert len(project.jobs()) == 1
    resumed = modak("resume", project.path, cwd=project.path, **project.environment)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert output(project) == "epoch 3\n"
    assert (project.folder / "results" / "attempts" / "1" / "output.log").read_text() == "epoch 1\nepoch 2\n"
    results_are_whole(project)
    nothing_is_left(project)
    assert len(project.jobs()) == 2
