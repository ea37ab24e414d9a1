"""modak discover: what it writes of the testbed is what the testbed has, and plans are made with it."""

from __future__ import annotations

import json

import pytest
import yaml
from cluster import ROOT, Project, modak

pytestmark = pytest.mark.testbed


def discovered(project, *arguments):
    done = modak("discover", *arguments, "--patience", "300", cwd=project.path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("scheduler", "blueprint"), [("slurm", "mnist-pytorch-slurm"), ("torque", "mnist-pytorch-torque")]
)
def test_what_is_written_validates_and_plans(project, scheduler, blueprint):
    said = discovered(project, "--scheduler", scheduler, "--job", "-o", "site.yaml")
    assert "written: site.yaml" in said
    found = yaml.safe_load((project.path / "site.yaml").read_text())
    names = project.testbed.ssh("sinfo --noheader --format=%R").split()
    assert [partition["name"] for partition in found["partitions"]] == names
    size = project.testbed.state
    for partition in found["partitions"]:
        assert partition["nodes"] == len(size["nodes"])
        assert partition["cores"] == size["cores"]
        assert partition["memory"] == f"{size['memory_mb']} MiB"
    assert found["frontend"] == "testbed"
    assert found["scratch"] == "/scratch"
    assert found["processor"]
    validated = modak("validate", blueprint, "-i", "site.yaml", cwd=project.path)
    assert validated.returncode == 0, validated.stdout
    planned = modak("plan", blueprint, "-i", "site.yaml", "--json", cwd=project.path)
    assert planned.returncode == 0, planned.stderr
    plan = json.loads(planned.stdout)
    assert plan["job"]["partition"] == "debug"
    assert plan["target"]["processor"]["architecture"] == found["architecture"]
    mine = modak("plan", project.write(), "-i", "site.yaml", "--json", cwd=project.path)  # it has no inputs
    assert mine.returncode == 0, mine.stderr
    assert json.loads(mine.stdout)["target"]["scheduler"] == scheduler
    checked = modak("check", blueprint, "-i", "site.yaml", cwd=project.path)
    assert checked.returncode == 0, checked.stdout


@pytest.fixture(scope="module")
def written(testbed, tmp_path_factory):
    """A folder with a target, out/, which was found out with a job."""
    made = Project(tmp_path_factory.mktemp("written") / "project", testbed)
    discovered(made, "--job", "-o", "out")
    return made.path


def test_a_folder_for_a_request(written):
    request = ROOT / "docs" / "example" / "request.json"
    planned = modak("plan", request, "--target", "out/target.yaml", "--json", cwd=written)
    if planned.returncode:
        assert "testbed" in planned.stderr, planned.stderr  # the request names a target of its own
    template = yaml.safe_load((written / "out" / "target.yaml").read_text())
    node = template["topology_template"]["node_templates"]["cluster"]
    assert node["type"] == "modak.nodes.Slurm"
    assert node["capabilities"]["scratch"]["properties"]["path"] == "/scratch"
    again = modak("discover", "-o", "out", cwd=written)
    assert again.returncode == 2
    assert "already there" in again.stderr


def test_the_node_that_is_written_deploys(project, written):
    """Its target, word for word, in a blueprint of one's own."""
    template = yaml.safe_load((written / "out" / "target.yaml").read_text())
    project.target = template["topology_template"]["node_templates"]["cluster"]
    validated = modak("validate", project.write(), cwd=project.path)
    assert validated.returncode == 0, validated.stdout
    assert project.plan()["job"]["partition"] == "debug"


def planned_for(project, description):
    """The target that a blueprint of one's own is planned for, by a description of it."""
    (project.path.parent / "site.yaml").write_text(description)
    planned = modak("plan", project.write(), "-i", project.path.parent / "site.yaml", "--json", cwd=project.path)
    assert planned.returncode == 0, planned.stderr
    return json.loads(planned.stdout)["target"]


def test_a_host_without_a_scheduler(project):
    shown = discovered(project, "testbed", "--scheduler", "none")
    assert not list(project.path.glob("*.yaml")), "nothing is written without -o"
    assert yaml.safe_load(shown)["processor"]["cores"] >= 1
    target = planned_for(project, shown)
    assert (target["scheduler"], target["local"]) == ("none", False)


def test_this_machine(project):
    shown = discovered(project, "local", "--scheduler", "none")
    target = planned_for(project, shown)
    assert (target["scheduler"], target["local"]) == ("none", True)


def test_a_host_that_is_not_there(project):
    done = modak("discover", "no-such-host.invalid", "--json", cwd=project.path)
    assert done.returncode == 4
    assert "is not the name of a host" in json.loads(done.stdout)["error"]


def test_no_scheduler_is_none(project):
    done = modak("discover", "testbed", "--scheduler", "pbs", cwd=project.path)
    assert done.returncode == 2
    assert "there is no such scheduler" in done.stderr
