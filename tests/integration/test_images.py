"""Images on the testbed: built by the ordinary user, labelled, shared, and whole."""

from __future__ import annotations

import json
import os
import re
import signal
import time

import pytest
from catalogues import path_of_catalogue_with
from cluster import Project, modak

from modak_ansible.catalogue.locks import lock_of

pytestmark = pytest.mark.testbed


def inspect(testbed, path):
    return json.loads(testbed.ssh(f"apptainer inspect --json --labels modak/{path}"))["data"]["attributes"]["labels"]


def test_labels_and_test(project):
    assert project.deploy().returncode == 0
    plan = project.plan()
    base, top = plan["image"]["layers"]
    labels = inspect(project.testbed, top["path"])
    assert labels["modak.framework"] == "pytorch"
    assert labels["modak.version"] == "2.13.0"
    assert labels["modak.compiler"] == "inductor"
    assert labels["modak.target"] == "x86_64"
    assert labels["modak.licence"] == "BSD-3-Clause"
    assert labels["modak.definition-digest"] == plan["image"]["digest"]
    assert labels["modak.base-digest"] == base["digest"]
    assert re.match(r"20\d\d-\d\d-\d\dT", labels["modak.build-date"])
    assert "torch 2.13.0+cpu" in project.testbed.ssh(f"apptainer test modak/{top['path']}")


def test_nothing_of_the_site_stays_in_an_image(project):
    path = project.plan()["image"]["path"]
    look = "ls -d /.modak-site /etc/pip.conf 2> /dev/null; find /mnt -type f; true"
    assert project.testbed.ssh(f"apptainer exec modak/{path} sh -c '{look}' 2> /dev/null") == ""


@pytest.mark.thorough
def test_a_companion_is_the_one_that_was_made_for_the_framework(project):
    """torchvision of the general index would be imported beside another PyTorch, and have no operators."""
    project.training["requirements_txt"] = ["torchvision"]
    project.script(
        "import torch, torchvision\n"
        "assert torchvision.ops.nms(torch.ones(1, 4), torch.ones(1), 0.5).tolist() == [0]\n"
        "print(torch.__version__)\n"
    )
    done = project.deploy()
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    (output,) = project.path.glob(".modak/deployments/*/results/output.log")
    if output.read_text() != "2.13.0+cpu\n":  # where no index has the one for that, another release is taken
        asked = "pip finds no build of torchvision for the framework's own build: asked for is torchvision"
        assert asked in said
        assert "name an index or folder with it in the site's pip_extra_index_urls or pip_find_links" in said


def test_a_killed_build_then_two_at_once_make_one_image(project, tmp_path):
    """The layer with six is made for this test alone."""
    other = Project(tmp_path / "other", project.testbed)
    for each in (project, other):
        each.training["requirements_txt"] = ["six==1.17.0"]
    image = project.plan()["image"]
    assert image["digest"] == other.plan()["image"]["digest"]
    name = f"modak/images/{image['digest']}"
    project.testbed.ssh(f"rm -f {name}.*")

    process = project.start()
    for line in process.stdout:
        if "building requirements" in line:
            break
    os.killpg(process.pid, signal.SIGKILL)  # the controller; the build goes on
    builder = json.loads(project.testbed.ssh(f"cat {name}.status.json"))["pid"]
    project.testbed.ssh(f"kill -9 -- -$(ps -o pgid= -p {builder} | tr -d ' ')")
    assert project.testbed.ssh(f"ls {name}.sif 2> /dev/null || echo none") == "none"

    time.sleep(2)
    both = [project.start(), other.start()]
    said = [each.communicate(timeout=600)[0] for each in both]
    assert [each.returncode for each in both] == [0, 0], said
    assert sum("making requirements on the target" in text for text in said) == 1, said
    assert project.testbed.ssh(f"grep -c 'Build complete' {name}.log") == "1"
    assert project.testbed.ssh("ls -A modak/images | grep -c 'part$' || true") == "0"
    assert project.testbed.ssh(f"apptainer exec {name}.sif python -c 'import six; print(six.__version__)'") == "1.17.0"
    assert other.undeploy().returncode == 0


def test_a_requirement_that_does_not_exist(project):
    project.training["requirements_txt"] = ["modak-no-such-package==9.9"]
    done = project.deploy()
    assert done.returncode == 1
    assert "building requirements" in done.stderr
    assert "modak-no-such-package" in done.stderr
    assert "the whole log is" in done.stderr
    digest = project.plan()["image"]["digest"]
    assert project.testbed.ssh(f"ls -A modak/images | grep -c '{digest}.*sif\\|part$' || true") == "0"


# --- a build whose probe fails

REFUSING = """\
name: refusing-1.0
framework: pytorch
version: "1.0"
origin: pip
architectures: [x86_64]
base: debian-trixie
requirements: [ six==1.17.0 ]
probe: |
  import six
  raise RuntimeError("six " + six.__version__ + " finds this processor wanting")
provenance: a test
licence: MIT
"""


@pytest.fixture
def refusing(tmp_path, monkeypatch):
    """The name of an entry whose probe fails, in a catalogue of this test's own."""
    six = next(line for line in lock_of("tensorflow-2.21-cpu").lines if line.startswith("six==1.17.0 "))
    monkeypatch.setenv("PYTHONPATH", path_of_catalogue_with(tmp_path, "refusing-1.0", REFUSING, six))
    return "refusing-1.0"


def test_a_build_that_its_probe_refuses(project, refusing, tmp_path):
    project.training["optimisation"] = {"entry": refusing}
    testbed, image = project.testbed, f"modak/{project.plan()['image']['path']}"
    kept = image.replace(".sif", ".json")
    testbed.ssh(f"rm -f {kept}")

    first = project.deploy()
    assert first.returncode == 0, first.stderr
    assert f"{refusing} was refused by its probe on " in first.stdout
    assert "six 1.17.0 finds this processor wanting" in first.stdout
    assert "pytorch-2.13-cpu is used instead" in first.stdout
    assert testbed.ssh(f"ls {image} 2> /dev/null || echo none") == "none"
    refusal = json.loads(testbed.ssh(f"cat {kept}"))
    assert refusal["refused"] == "RuntimeError: six 1.17.0 finds this processor wanting"

    second = project.deploy("--strict")  # the plan knows it
    assert second.returncode == 3
    assert f"its probe failed on {refusal['processor']}: RuntimeError: six 1.17.0" in second.stderr
    assert f"refused on {refusal['processor']} (testbed)" in modak("catalogue", cwd=project.path).stdout

    other = Project(tmp_path / "other", testbed)  # knows nothing, and the target tells
    other.training["optimisation"] = {"entry": refusing}
    assert "was refused by its probe" in other.deploy().stdout
    assert json.loads(testbed.ssh(f"cat {kept}")) == refusal

    again = modak("catalogue", "build", refusing, "-b", project.path, "--again", "--json", cwd=project.path)
    assert again.returncode == 1
    (result,) = json.loads(again.stdout)
    assert (result["outcome"], "finds this processor wanting" in result["reason"]) == ("refused", True)
    assert json.loads(testbed.ssh(f"cat {kept}"))["probed"] > refusal["probed"]
