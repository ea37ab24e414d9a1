"""What a user does to a deployed job, on a real cluster: each command in a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal

import pytest
from cluster import Project, modak
from test_deployment import wait_for

pytestmark = pytest.mark.testbed
LONG = "import time\nprint('epoch 1', flush=True)\ntime.sleep(600)\n"
# Fails, or is ended, in its first attempt; goes on from its checkpoint in the second.
CHECKPOINTED = """\
import os, time
begin = int(open('checkpoint').read()) if os.path.exists('checkpoint') else 1
for epoch in range(begin, 4):
    print('epoch', epoch, flush=True)
    open('checkpoint', 'w').write(str(epoch + 1))
    if epoch == 2 and begin == 1:
        {end}
"""


@pytest.fixture(params=["modak.nodes.Slurm", "modak.nodes.Torque"])
def queued(request, project):
    """A project on either scheduler."""
    project.target["type"] = request.param
    return project


def act(project, verb, *options):
    """What a command about the project's deployment answers in JSON."""
    done = modak(verb, project.path, "--json", *options, cwd=project.path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return json.loads(done.stdout)


def refused(project, verb):
    done = modak(verb, project.path, cwd=project.path)
    assert done.returncode == 1, done.stdout
    assert "Traceback" not in done.stderr
    return done.stderr


def status(project):
    (row,) = json.loads(modak("status", project.path, "--json", cwd=project.path).stdout)
    return row


def attempt_log(project, number):
    return (project.folder / "results" / "attempts" / str(number) / "output.log").read_text()


def fill(project):
    """Jobs that keep both nodes busy, so that the project's own job waits; gives their ids."""
    command = "sbatch --parsable --exclusive --nodes=2 --job-name=filler --wrap='sleep 600'"
    filler = project.testbed.ssh(f"cd /tmp && {command}")
    wait_for(lambda: project.testbed.ssh(f"squeue --noheader --jobs={filler} --format=%T") == "RUNNING", 300)
    return filler


def test_a_waiting_job_is_held_released_and_cancelled(queued):
    filler = fill(queued)
    try:
        assert queued.script(LONG).deploy("--detach").returncode == 0
        job = queued.record["job"]["job_id"]
        held = act(queued, "hold")
        assert (held["deployment"], held["job_id"]) == (queued.deployment, job)
        is_slurm = queued.target["type"].endswith("Slurm")  # whose own qstat does not show a hold
        assert (held["state"], held["changed"]) == ("HELD" if is_slurm else "QUEUED", True)
        assert act(queued, "hold")["changed"] is not is_slurm
        assert "JobHeldUser" in queued.testbed.ssh(f"squeue --noheader --jobs={job} --format=%r")
        assert act(queued, "requeue")["changed"] is False
        released = act(queued, "release")
        assert (released["state"], released["changed"]) == ("QUEUED", True)
        assert "JobHeldUser" not in queued.testbed.ssh(f"squeue --noheader --jobs={job} --format=%r")
        assert act(queued, "release")["changed"] is False
        cancelled = act(queued, "cancel")
        assert (cancelled["state"], cancelled["changed"]) == ("CANCELLED", True)
        assert cancelled["message"] == f"job {job} is cancelled (by modak)"
        assert act(queued, "cancel")["changed"] is False
        row = status(queued)
        assert (row["state"], row["explanation"]) == ("CANCELLED", "by modak")
        assert "cannot be held" in refused(queued, "hold")
        assert "modak resume" in refused(queued, "release")
    finally:
        queued.testbed.ssh(f"scancel {filler}")


def test_a_running_job_is_not_held_and_its_folder_outlives_its_end(project):
    assert project.script(LONG).deploy("--detach").returncode == 0
    project.wait_for_output("epoch 1")
    assert "is running and cannot be held" in refused(project, "hold")
    assert act(project, "release")["changed"] is False
    assert act(project, "cancel")["state"] == "CANCELLED"
    assert project.testbed.ssh(f"cat {project.remote}/output.log") == "epoch 1"
    again = project.deploy()
    assert again.returncode == 5
    assert "ended as CANCELLED" in again.stderr
    assert "by modak" in again.stderr
    assert f"modak resume {project.deployment}" in again.stderr
    assert len(project.jobs()) == 1


def test_a_running_job_is_requeued_and_trains_under_the_same_id(project):
    project.script(CHECKPOINTED.format(end="time.sleep(600)"))
    assert project.deploy("--detach").returncode == 0
    project.wait_for_output("epoch 2")
    job = project.record["job"]["job_id"]
    requeued = act(project, "requeue")
    assert (requeued["job_id"], requeued["state"], requeued["changed"]) == (job, "QUEUED", True)
    assert status(project)["state"] == "QUEUED"
    project.testbed.ssh(f"scontrol update JobId={job} StartTime=now")  # Slurm lets requeued jobs wait for two minutes
    done = modak("resume", project.path, cwd=project.path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert project.jobs() == [job]
    assert (project.folder / "results" / "output.log").read_text() == "epoch 1\nepoch 2\nepoch 3\n"
    assert project.testbed.ssh(f"scontrol show job {job} | grep -o 'Requeue=[01]'") == "Requeue=0"


def test_torques_users_may_not_requeue(project):
    """And Slurm's own qrerun, which plays Torque's here, does not work at all."""
    project.target["type"] = "modak.nodes.Torque"
    assert project.script(LONG).deploy("--detach").returncode == 0
    project.wait_for_output("epoch 1")
    said = refused(project, "requeue")
    assert "cannot be requeued" in said
    assert "modak resume" in said
    assert status(project)["state"] == "RUNNING"


def test_without_a_scheduler_there_is_nothing_to_wait_in(project):
    project.target.update(type="modak.nodes.Host", properties={})
    assert project.script(LONG).deploy("--detach").returncode == 0
    assert "cannot be held" in refused(project, "hold")
    assert "there is no queue" in refused(project, "requeue")
    session = act(project, "cancel")
    assert session["state"] == "CANCELLED"
    leader = session["job_id"].partition(".")[0]
    wait_for(lambda: project.testbed.ssh(f"ps -o pid= --sid {leader} | wc -l") == "0")


@pytest.mark.parametrize(
    ("kind", "end"),
    [("modak.nodes.Slurm", "raise SystemExit('the data is odd')"), ("modak.nodes.Slurm", "os.kill(os.getpid(), 9)"),
     ("modak.nodes.Torque", "raise SystemExit('the data is odd')"), ("modak.nodes.Host", "raise SystemExit(3)")],
)  # fmt: skip
def test_a_failed_job_is_resumed_from_its_checkpoint(project, kind, end):
    project.target["type"] = kind
    if kind == "modak.nodes.Host":
        project.target["properties"] = {}
    assert project.script(CHECKPOINTED.format(end=end)).deploy().returncode == 5
    first = project.record["job"]["job_id"]
    answer = act(project, "resume")
    assert (answer["job"]["state"], answer["job"]["attempt"]) == ("COMPLETED", 2)
    assert answer["job"]["job_id"] != first
    assert attempt_log(project, 1) == "epoch 1\nepoch 2\n"
    assert (project.folder / "results" / "output.log").read_text() == "epoch 3\n"
    again = act(project, "resume")
    assert (again["job"]["job_id"], again["changed"]) == (answer["job"]["job_id"], 0)
    assert project.deploy().returncode == 0
    if kind != "modak.nodes.Host":
        assert len(project.jobs()) == 2


def test_a_cancelled_job_is_resumed_elsewhere(project, tmp_path):
    """From a copy of the project in another folder, as on another machine, and by the deployment's name."""
    project.script(CHECKPOINTED.format(end="time.sleep(600)"))
    assert project.deploy("--detach").returncode == 0
    project.wait_for_output("epoch 2")
    name = project.deployment
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(project.path, elsewhere, symlinks=True)
    shutil.move(project.path, tmp_path / "gone")
    try:
        cancelled = modak("cancel", name, "--json", cwd=elsewhere)
        assert json.loads(cancelled.stdout)["state"] == "CANCELLED", cancelled.stderr
        (elsewhere / "service.yaml").unlink()
        resumed = modak("resume", name, cwd=elsewhere)
        assert resumed.returncode == 0, resumed.stdout + resumed.stderr
        results = elsewhere / ".modak" / "deployments" / name / "results"
        assert (results / "output.log").read_text() == "epoch 3\n"
        assert (results / "attempts" / "1" / "state" / "cancelled").read_text() == "modak\n"
    finally:
        shutil.move(tmp_path / "gone", project.path)


@pytest.mark.parametrize("moment", ["image", "running"])
def test_an_interrupted_deployment_is_resumed(project, moment):
    project.script("import time\nprint('epoch 1', flush=True)\ntime.sleep(8)\nprint('done')\n")
    process = project.start()
    for line in process.stdout:
        if moment in line:
            break
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert act(project, "resume")["job"]["state"] == "COMPLETED"
    assert len(project.jobs()) == 1
    assert (project.folder / "results" / "output.log").read_text() == "epoch 1\ndone\n"


def test_a_job_whose_node_died_is_resumed(project):
    project.script(CHECKPOINTED.format(end="time.sleep(600)"))
    assert project.deploy("--detach").returncode == 0
    project.wait_for_output("epoch 2")
    node = project.testbed.ssh(f"squeue --noheader --jobs={project.record['job']['job_id']} --format=%N")
    project.testbed.root(f"scontrol update nodename={node} state=down reason=test")
    try:
        wait_for(lambda: status(project)["state"] == "NODE_FAIL")
    finally:
        project.testbed.root(f"scontrol update nodename={node} state=resume || true")
    assert act(project, "resume")["job"]["state"] == "COMPLETED"
    assert len(project.jobs()) == 2


def test_killed_between_the_second_attempts_submission_and_its_note(project):
    """The job of the first attempt is not taken for that of the second, and there is no third, asked at once again."""
    project.script(CHECKPOINTED.format(end="raise SystemExit(3)"))
    assert project.deploy().returncode == 5
    deadly = 'if [ "$1" = --parsable ]; then kill -9 $PPID; fi'
    wrapper = f'#!/bin/bash\\n/usr/bin/sbatch.real "$@"\\n{deadly}\\n'
    project.testbed.root(
        f"mv /usr/bin/sbatch /usr/bin/sbatch.real; printf '{wrapper}' > /usr/bin/sbatch; chmod 755 /usr/bin/sbatch"
    )
    try:
        resumed = modak("resume", project.path, cwd=project.path)
    finally:
        project.testbed.root("mv /usr/bin/sbatch.real /usr/bin/sbatch")
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert "the connection broke; trying again in 1 s" in resumed.stdout
    wait_for(lambda: len(project.jobs()) == 2)
    assert act(project, "resume")["job"]["state"] == "COMPLETED"
    assert len(project.jobs()) == 2


def test_two_resumes_at_once_make_one_attempt(project):
    import subprocess

    from cluster import MODAK

    project.script(CHECKPOINTED.format(end="raise SystemExit(3)"))
    assert project.deploy().returncode == 5
    both = [
        subprocess.Popen([MODAK, "resume", project.path, "--json"], cwd=project.path, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    answers = [json.loads(each.communicate(timeout=180)[0]) for each in both]
    assert {answer["job"]["state"] for answer in answers} == {"COMPLETED"}
    assert len(project.jobs()) == 2


def test_results_and_logs(project, tmp_path):
    project.script(CHECKPOINTED.format(end="raise SystemExit('odd')")).training["outputs"] = ["checkpoint"]
    assert project.deploy().returncode == 5
    listed = act(project, "results", "--to", str(tmp_path / "copy"))
    assert listed["state"] == "FAILED"
    assert {"output.log", "code/checkpoint"} <= {file["path"] for file in listed["files"]}
    assert (tmp_path / "copy" / "code" / "checkpoint").read_text() == "3"

    def logs(*arguments):
        done = modak("logs", project.path, *arguments, cwd=project.path)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    assert logs("--since", "1") == ["epoch 2"]
    assert logs("--since", "1h") == ["epoch 1", "epoch 2"]
    assert logs("--since", "0s") == []
    assert logs("-f", "--since", "1")[0] == "epoch 2"
    stages = logs("stage")
    assert any("submitted" in line for line in stages)
    assert any("failed: job" in line for line in stages)
    assert len(logs("stage", "--since", "2")) == 2
    build = modak("logs", project.path, "build", cwd=project.path)
    assert build.returncode == 0 or "no log of a build" in build.stderr


def test_undeployed_there_is_nothing_to_resume(project):
    assert project.deploy().returncode == 0
    assert project.undeploy().returncode == 0
    assert "was undeployed" in refused(project, "resume")
    assert {file["path"] for file in act(project, "results")["files"]} >= {"output.log"}
    assert isinstance(project, Project)


def test_images_go_with_the_last_deployment_that_uses_them(project, tmp_path):
    keeper = Project(tmp_path / "keeper", project.testbed)  # of the framework's own layers, which other tests want
    assert keeper.deploy("--detach").returncode == 0
    project.training["requirements_txt"] = ["six==1.16.0"]  # a layer that no other test has
    project.training["arguments"] = {"n": 1}
    assert project.deploy().returncode == 0
    image = json.loads((project.folder / "plan.json").read_text())["image"]
    first = project.deployment
    project.training["arguments"] = {"n": 2}
    assert project.deploy().returncode == 0
    undone = modak("undeploy", first, "--remove-images", cwd=project.path)
    assert "no image removed" in undone.stdout, undone.stdout + undone.stderr
    assert project.testbed.ssh(f"ls modak/{image['path']}")
    undone = modak("undeploy", project.path, "--remove-images", cwd=project.path)
    assert "removed requirements" in undone.stdout, undone.stdout + undone.stderr
    assert project.testbed.ssh(f"ls modak/{image['path']} 2> /dev/null || echo gone") == "gone"
    assert project.testbed.ssh(f"ls modak/{image['layers'][-2]['path']}")
    assert keeper.undeploy().returncode == 0
