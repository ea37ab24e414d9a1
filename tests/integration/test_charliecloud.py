"""Charliecloud of Debian's on the testbed's Slurm: layers are built by an ordinary user, and trainings run in them."""

from __future__ import annotations

import json

import pytest
from cluster import Project, modak, wait_for
from podman_host import install

pytestmark = pytest.mark.thorough

PACKAGES = ("charliecloud-runtime", "charliecloud-builders")
LONG = "import time\nprint('began', flush=True)\ntime.sleep(600)\n"


class WithCharliecloud(Project):
    def image_files(self) -> set[str]:
        return {*self.testbed.ssh("ls with-charliecloud/images/*.sqfs").split()}

    def inside(self) -> str:
        """What runs in such an image, on any node."""
        return self.testbed.root("pgrep --list-full ch-run || true")


@pytest.fixture
def project(testbed, tmp_path):
    install(testbed, *PACKAGES)
    made = WithCharliecloud(tmp_path / "project", testbed)
    made.target["properties"] |= {"container_runtime": "charliecloud", "workspace": "with-charliecloud"}
    made.training = {"framework": "python", "script": "train/train.py", "walltime": "00:05:00"}
    yield made
    made.clear()


def test_a_training_runs_in_an_image_of_its_layers(project):
    project.script(
        "import os, pathlib, sys, six\n"
        "print(sys.executable, pathlib.Path('/ch/metadata.json').exists(), os.getuid(), os.environ['MINE'])\n"
        "print(os.environ['SLURMD_NODENAME'], six.__version__)\n"
        "pathlib.Path('/opt/written').write_text('gone at the end')\n"
        "pathlib.Path('model').write_text('made')\n"
    )
    project.training |= {
        "environment": {"MINE": "two words"}, "outputs": ["model"], "requirements_txt": ["six==1.16.0"],
    }  # fmt: skip
    checked = modak("check", project.write(), cwd=project.path, **project.environment)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "charliecloud" in checked.stdout.lower() or "ch-run" in checked.stdout, checked.stdout
    done = project.deploy("--json")
    assert done.returncode == 0, done.stdout + done.stderr
    job = json.loads(done.stdout)["job"]
    assert (job["state"], job["exit_code"]) == ("COMPLETED", 0)
    seen, packages = (project.folder / "results" / "output.log").read_text().splitlines()
    assert seen == "/opt/venv/bin/python True 2000 two words"
    assert packages in ("node01 1.16.0", "node02 1.16.0")
    assert (project.folder / "results" / "code" / "model").read_text() == "made"
    layers = [layer["path"] for layer in project.plan()["image"]["layers"]]
    assert {f"with-charliecloud/{path}" for path in layers} <= project.image_files()
    assert len(layers) == 3
    digest = project.plan()["image"]["digest"]
    labels = project.testbed.ssh(f"ch-run with-charliecloud/images/{digest}.sqfs -- cat /ch/metadata.json")
    assert json.loads(labels)["labels"]["modak.definition-digest"] == digest
    again = project.deploy("--json")
    assert json.loads(again.stdout)["changed"] == 0, again.stdout + again.stderr


def test_its_exit_code_is_told(project):
    project.script("raise SystemExit(3)\n")
    assert project.deploy().returncode != 0
    job = project.record["job"]
    assert (job["state"], job["exit_code"]) == ("FAILED", 3)


def test_what_is_cancelled_while_it_runs_leaves_nothing(project):
    project.script(LONG)
    begun = project.start()
    project.wait_for_output("began")
    assert "with-charliecloud" in project.inside()
    done = modak("cancel", project.deployment, cwd=project.path, **project.environment)
    assert done.returncode == 0, done.stdout + done.stderr
    begun.communicate(timeout=120)
    assert project.record["job"]["state"] == "CANCELLED"
    wait_for(lambda: not project.inside())
