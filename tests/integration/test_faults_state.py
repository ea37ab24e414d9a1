"""Files that keep the state of a deployment, damaged here and on the target.

A changed image: test_integrity.py. Markers in all their damages without a cluster: tests/unit/target/test_markers.py.
"""

from __future__ import annotations

import hashlib
import json
import os

import pytest
from cluster import modak
from daemons import comes_to, end_of
from faults import finishes, one_job_completed
from test_faults_cluster import SHORT, status
from test_verbs import fill

pytestmark = pytest.mark.testbed
JUNK = "head -c 200 /dev/urandom >"


def damage_there(project, name, how):
    project.testbed.ssh(f"{how} {project.remote}/state/{name}")


@pytest.mark.thorough
def test_files_of_a_deployment_here_are_damaged(project):
    """One after the other, behind a job that has completed; nothing runs again, and all is known as before."""
    assert project.script(SHORT.format(seconds=1)).deploy().returncode == 0
    folder, job = project.folder, project.record["job"]
    for name in ("state.json", "plan.json", "origin.json"):
        os.truncate(folder / name, (folder / name).stat().st_size // 2)
        shown = modak("status", "--json", cwd=project.path)
        assert shown.returncode == 0, shown.stderr
        (row,) = json.loads(shown.stdout)
        assert row["state"] == ("DAMAGED" if name == "plan.json" else "COMPLETED"), name
        again = project.deploy("--json")
        assert again.returncode == 0, again.stderr
        assert json.loads(again.stdout)["changed"] == 0
        assert project.record["job"] == job
        json.loads((folder / name).read_text())
    finishes(project)


@pytest.mark.thorough
def test_the_note_of_a_waiting_job_is_damaged(project):
    """There is nothing else that says which job it is; the scheduler knows it by its name and folder."""
    filler = fill(project)
    try:
        assert project.script(SHORT.format(seconds=1)).deploy("--detach").returncode == 0
        job = project.record["job"]["job_id"]
        damage_there(project, "submitted.json", JUNK)
        row = status(project)
        assert row["state"] == "DAMAGED"
        assert "deploy again, and modak looks for the job" in row["explanation"]
        again = project.deploy("--detach", "--json")
        assert again.returncode == 0, again.stderr
        assert json.loads(again.stdout)["job"]["job_id"] == job
        assert json.loads(project.testbed.ssh(f"cat {project.remote}/state/submitted.json"))["job_id"] == job
    finally:
        project.testbed.ssh(f"scancel {filler}")
    assert one_job_completed_after(project) == job


def one_job_completed_after(project):
    finishes(project)
    return one_job_completed(project)


@pytest.mark.thorough
def test_the_notes_of_a_running_job_are_damaged(project):
    process = project.script(SHORT.format(seconds=12)).start()
    said = comes_to(process, "epoch 1")
    for name in ("submitted.json", "intent.json", "started"):
        damage_there(project, name, ": >")
    said += end_of(process)
    assert process.returncode == 0, said
    finishes(project)


@pytest.mark.thorough
def test_the_notes_of_a_job_that_has_ended_are_damaged(project):
    """The scheduler's word counts where the job's own end is there, and cannot be read."""
    assert project.script(SHORT.format(seconds=1)).deploy().returncode == 0
    for name in ("finished", "claim", "started"):
        damage_there(project, name, JUNK)
        again = project.deploy("--json")
        assert again.returncode == 0, again.stderr
        assert json.loads(again.stdout)["job"]["state"] == "COMPLETED"
    assert len(project.jobs()) == 1


def test_staged_data_is_damaged(project, tmp_path):
    """A byte has changed, and size and date have not; it is brought anew for the next training."""
    (tmp_path / "data").mkdir()
    content = os.urandom(300_000)
    (tmp_path / "data" / "train-images-idx3-ubyte").write_bytes(content)
    project.dataset = {"name": f"own-{project.name}", "source": [str(tmp_path / "data")]}
    project.script(
        "import hashlib, os\n"
        "data = open(os.environ['MODAK_DATASET'] + '/train-images-idx3-ubyte', 'rb').read()\n"
        "print(hashlib.sha256(data).hexdigest())\n"
    )
    assert project.deploy().returncode == 0
    data = f"modak/{project.plan()['dataset']['path']}"
    file = f"{data}/train-images-idx3-ubyte"
    there = project.testbed.ssh
    byte = f"\\x{content[1000] ^ 255:02x}"
    there(
        f"touch -r {file} when; chmod u+w {file}; printf '{byte}' | dd of={file} bs=1 seek=1000 conv=notrunc 2> /dev/null; "
        f"touch -r when {file}; rm when"
    )
    project.training["arguments"] = {"again": 1}
    done = project.deploy()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "train-images-idx3-ubyte on the target is no longer what was staged: own-" in done.stdout
    output = (project.folder / "results" / "output.log").read_text()
    assert output == hashlib.sha256(content).hexdigest() + "\n"
    finishes(project)
    there(f"rm -rf {data}*")


@pytest.mark.thorough
def test_the_folder_of_a_running_job_is_removed(project):
    """The job goes on beside it, and is known here: nothing is submitted beside it, and it can be ended."""
    process = project.script(SHORT.format(seconds=90)).start()
    said = comes_to(process, "epoch 1")
    project.testbed.ssh(f"rm -rf {project.remote}")
    job = project.record["job"]["job_id"]
    comes_to(process, "its folder was removed")
    process.terminate()
    said += end_of(process)
    row = status(project)
    assert (row["state"], row["job_id"]) == ("RUNNING", job), said
    assert "its folder was removed" in row["explanation"]
    again = project.deploy("--detach", "--json")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["job"]["job_id"] == job
    assert len(project.testbed.ssh("squeue --noheader --format=%i").split()) == 1
    ended = modak("cancel", project.path, cwd=project.path)
    assert ended.returncode == 0, ended.stderr
    assert status(project)["state"] == "CANCELLED"
    project.script(SHORT.format(seconds=1))
    finishes(project)
