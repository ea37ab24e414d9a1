"""A search on the real testbed: killed on the way, it goes on without a lost trial or a doubled one."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest
from cluster import modak, wait_for

pytestmark = pytest.mark.testbed

# No framework is imported: a curve that follows from the arguments, the worse ones for longer.
SCRIPT = """\
import argparse, json, math, time
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--kind", default="a")
parser.add_argument("--seconds", type=float, default=0.5)
words = parser.parse_args()
floor = (math.log10(words.lr) + 2) ** 2 + (words.kind == "a")
with open("metrics.jsonl", "w") as file:
    for epoch in range(1, 9 if floor < 1 else 46):
        file.write(json.dumps({"epoch": epoch, "val_loss": floor + 1 / epoch}) + chr(10))
        file.flush()
        time.sleep(words.seconds)
"""


@pytest.fixture
def searching(project):
    project.script(SCRIPT)
    project.training["arguments"] = {"lr": 0.1, "kind": "a", "seconds": 0.1}
    project.training["search"] = {
        "trials": 4,
        "over": {"lr": {"from": 0.0001, "to": 1.0, "log": True}, "kind": ["a", "b"]},
        "objective": "val_loss",
    }
    project.training["parallel"] = 4
    return project


def folders(project):
    """Its deployments' folders on the target."""
    return project.testbed.ssh(f"cd modak/deployments && ls -d {project.name}-*").split()


def begun(project):
    folders = (project.path / ".modak" / "deployments").glob("*/state.json")
    return sum(bool((json.loads(each.read_text()).get("job") or {}).get("job_id")) for each in folders)


def kill(project, count):
    """Begins to deploy, and kills all of it when so many trials have jobs."""
    process = project.start()
    try:
        wait_for(lambda: begun(project) >= count or process.poll() is not None, 300)
        time.sleep(1)
        assert process.poll() is None, process.stdout.read()
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def check(project, trials):
    done = project.deploy("--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    (search,) = found["searches"]
    assert sum(search["states"].values()) == trials == len(found["trainings"])
    assert not search["states"].get("fail")
    submitted = [each["job_id"] for each in found["trainings"]]
    assert len(set(submitted)) == trials == len(folders(project))
    compared = json.loads(modak("compare", project.path, "--json", cwd=project.path).stdout)
    assert (compared["by"], compared["best"]) == ("val_loss", search["best"]["deployment"])
    assert len(compared["runs"]) == trials
    shown = modak("status", project.path, "--offline", cwd=project.path).stdout
    assert f"search training: {trials} of {trials} trials (" in shown
    return search, compared


def test_killed_and_gone_on_with(searching):
    kill(searching, 2)
    check(searching, 4)
    again = searching.deploy()
    assert "Nothing had to be built, staged or submitted" in again.stdout, again.stdout


@pytest.mark.thorough
def test_twenty_trials_with_pruning_killed_twice(searching):
    searching.training["arguments"]["seconds"] = 1.0
    searching.training["search"] |= {"trials": 20, "prune": "median"}
    searching.training["parallel"] = 2
    kill(searching, 4)
    kill(searching, 9)
    search, compared = check(searching, 20)
    assert search["states"]["pruned"] > 0
    assert {run["state"] for run in compared["runs"]} == {"COMPLETED", "PRUNED"}
    assert search["best"]["value"] < 0.5
