"""modak status over several deployments of a real cluster."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time

import pytest
from cluster import MODAK, modak
from test_deployment import wait_for, works_for

pytestmark = pytest.mark.testbed

TRAINS = """\
import time, torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.rand(64, 4)), batch_size=2)
for epoch in range(1000):
    for (batch,) in data:
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()
        time.sleep(0.25)
"""


@pytest.fixture
def jobs(project):
    """The deployments of one that runs, and of two that no node has room for, of which the second is held."""
    names = []
    for nodes, text in ((1, TRAINS), (2, "print(1)\n"), (2, "print(2)\n")):
        project.script(text).training.update(resources={"nodes": nodes}, distributed_training=True)
        done = project.deploy("--detach")
        assert done.returncode == 0, done.stdout + done.stderr
        names.append(project.deployment)
    record = json.loads((project.path / ".modak" / "deployments" / names[2] / "state.json").read_text())
    project.testbed.ssh(f"scontrol hold {record['job']['job_id']}")
    yield names
    for name in names:
        modak("undeploy", name, cwd=project.path)


def status(project, *options):
    shown = modak("status", "--json", *options, cwd=project.path)
    assert shown.returncode == 0, shown.stderr
    return {row["deployment"]: row for row in json.loads(shown.stdout)}


def test_jobs_that_run_wait_and_are_held_and_others_that_cannot_be_asked(project, jobs):
    trains, waits, held = jobs
    wait_for(lambda: (status(project)[trains]["step"] or 0) > 1, seconds=300)
    folder = project.path / ".modak" / "deployments"
    silent, damaged = "elsewhere-0123456789ab", "damaged-0123456789ab"
    for name in (silent, damaged):
        shutil.copytree(folder / trains, folder / name)
    text = (folder / silent / "plan.json").read_text().replace('"address": "testbed"', '"address": "127.0.0.1"')
    (folder / silent / "plan.json").write_text(text.replace('"port": null', '"port": 1'))
    origin = json.loads((folder / silent / "origin.json").read_text())
    del origin["queue"]  # what is in the plan counts then
    (folder / silent / "origin.json").write_text(json.dumps(origin))
    (folder / damaged / "plan.json").write_text("{")
    (folder / waits / "state.json").write_text("gone\n")

    rows = status(project)
    assert {name: row["state"] for name, row in rows.items()} == {
        trains: "RUNNING", waits: "QUEUED", held: "HELD", silent: "RUNNING", damaged: "DAMAGED",
    }  # fmt: skip
    assert rows[trains]["nodes"].startswith("node0")
    assert rows[trains]["epoch"] >= 1
    assert rows[trains]["elapsed_seconds"] > 0
    assert rows[waits]["position"] >= 1
    assert rows[waits]["reason"] in ("Resources", "Priority")
    assert rows[held]["reason"] == "JobHeldUser"
    assert "refuses the connection" in rows[silent]["explanation"]
    assert [rows[name]["answered"] for name in (trains, silent)] == [True, False]
    assert json.loads((folder / waits / "state.json").read_text())["job"]["state"] == "QUEUED"

    shown = modak("status", cwd=project.path)
    lines = shown.stdout.splitlines()
    assert (shown.returncode, len(lines)) == (0, 6)  # nothing is said of forecasts that were right
    offline = status(project, "--offline")
    assert offline[trains]["answered"] is False


def test_watching_tells_every_change_and_ends_with_the_jobs(project):
    project.script("import time\ntime.sleep(5)\n")
    assert project.deploy("--detach").returncode == 0
    watched = modak("status", "--watch", cwd=project.path)
    assert watched.returncode == 0, watched.stderr
    assert "COMPLETED" in watched.stdout.splitlines()[-1]
    assert json.loads((project.folder / "state.json").read_text())["job"]["state"] == "COMPLETED"


def test_ctrl_c_ends_watching_and_nothing_else(project):
    project.script("import time\ntime.sleep(300)\n")
    assert project.deploy("--detach").returncode == 0
    command = [str(MODAK), "status", "--watch", "--every", "1", "--json"]
    process = subprocess.Popen(
        command, cwd=project.path, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    row = json.loads(process.stdout.readline())
    assert (row["deployment"], row["state"] in ("QUEUED", "RUNNING")) == (project.deployment, True)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in said
    wait_for(lambda: not works_for(process.pid))
    time.sleep(1)
    assert status(project)[project.deployment]["state"] in ("QUEUED", "RUNNING")


def test_when_a_job_may_begin_is_said_before_and_while_it_waits_and_then_how_right_that_was(project):
    """All nodes are taken for as long as their job may run; it ends sooner, and so the forecast is too late."""
    taking = project.testbed.ssh(
        "cd /tmp && sbatch --parsable --nodes=2 --time=3 --output=/dev/null --wrap='sleep 900'"
    )
    try:
        wait_for(
            lambda: project.testbed.ssh(f"squeue --noheader --jobs={taking} --format=%T") == "RUNNING", seconds=300
        )
        project.script("print(1)\n")
        began = time.time()
        done = project.deploy("--detach")
        assert "it is expected to begin at " in done.stdout
        name = project.deployment
        wait_for(lambda: len(status(project)[name]["forecasts"]) == 2, seconds=60)
    finally:
        project.testbed.ssh(f"scancel {taking}")
    for told in status(project)[name]["forecasts"]:
        assert began < told["said"] < told["starts"] < began + 300
        assert told["error_seconds"] is None or told["error_seconds"] < 0
    wait_for(lambda: status(project)[name]["state"] == "COMPLETED", seconds=120)
    told = status(project)[name]["forecasts"]
    assert [each["when"] for each in told] == ["before it was submitted", "while it waited"]
    assert all(-300 < each["error_seconds"] < 0 for each in told), told
    shown = modak("status", name, cwd=project.path).stdout.splitlines()
    assert [line.startswith("start expected at ") and ", began at " in line for line in shown[-2:]] == [True, True]
