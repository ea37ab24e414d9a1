"""A container host, from its image to its results: Podman of a user without further rights, behind an sshd of its own."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from cluster import modak, wait_for
from podman_host import ContainerHost, host  # noqa: F401 - the latter a fixture

pytestmark = pytest.mark.thorough


@pytest.fixture
def project(host, tmp_path) -> Iterator[ContainerHost]:  # noqa: F811
    made = ContainerHost(tmp_path / "project", host)
    made.training = {"framework": "python", "script": "train/train.py", "walltime": "00:05:00"}
    yield made
    made.clear()


def test_a_training_runs_in_a_container_of_its_layers(project):
    project.script(
        "import os, pathlib, sys\n"
        "print(sys.executable, os.environ['MODAK_METRICS'], pathlib.Path('/run/.containerenv').exists(), os.environ['MINE'])\n"
        "pathlib.Path('model').write_text('made')\n"
    )
    project.training |= {"environment": {"MINE": "two words"}, "outputs": ["model"], "requirements_txt": ["six"]}
    done = project.deploy()
    assert done.returncode == 0, done.stdout + done.stderr
    results = project.folder / "results"
    assert (results / "output.log").read_text().split()[0] == "/opt/venv/bin/python"
    assert (results / "output.log").read_text().endswith("True two words\n")
    assert (results / "code" / "model").read_text() == "made"
    assert len(project.image_files()) >= 3
    wait_for(lambda: not project.containers())
    again = project.deploy()
    assert again.returncode == 0
    assert "this plan was carried out before" in again.stdout


def test_a_job_that_is_killed_leaves_no_container(project):
    project.script("import time\nprint('began', flush=True)\ntime.sleep(600)\n")
    process = project.start()
    project.wait_for_output("began")
    assert len(project.containers()) == 1
    pid = project.testbed.ssh(f"cat {project.remote}/state/claim").partition(".")[0]
    project.testbed.ssh(f"kill -KILL -- -{pid}")
    said = process.communicate(timeout=120)[0]
    assert process.returncode != 0, said
    assert project.record["job"]["state"] == "LOST", said
    wait_for(lambda: not project.containers())


def test_a_job_that_is_cancelled_leaves_no_container(project):
    project.script("import time\nprint('began', flush=True)\ntime.sleep(600)\n")
    process = project.start()
    project.wait_for_output("began")
    done = modak("cancel", project.deployment, cwd=project.path, **project.environment)
    assert done.returncode == 0, done.stderr
    process.communicate(timeout=120)
    assert project.record["job"]["state"] == "CANCELLED"
    wait_for(lambda: not project.containers())


def test_a_controller_that_is_killed_is_gone_on_with(project):
    project.script("import time\nprint('began', flush=True)\ntime.sleep(20)\nprint('ended')\n")
    project.training["requirements_txt"] = [f"six!=0.{os.getpid()}"]  # a layer of its own
    states = f"{project.target['properties']['workspace']}/images/*.status.json"
    building = lambda: "building requirements" in project.testbed.ssh(f"cat {states} 2> /dev/null || true")  # noqa: E731
    for reached in (lambda: wait_for(building, 300), lambda: project.wait_for_output("began")):
        process = project.start()
        reached()
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    done = project.deploy()
    assert done.returncode == 0, done.stdout + done.stderr
    assert (project.folder / "results" / "output.log").read_text() == "began\nended\n"
    wait_for(lambda: not project.containers())
