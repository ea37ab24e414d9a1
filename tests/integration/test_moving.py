"""One blueprint moves from machine to machine: another word for its target, and results in the same form."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cluster import Project
from kubernetes_cluster import OnKubernetes, kubernetes  # noqa: F401 - the latter a fixture
from podman_host import ContainerHost, host  # noqa: F401 - the latter a fixture
from test_clouds import Cloud, cloud, cluster  # noqa: F401 - the latter two fixtures

pytestmark = pytest.mark.thorough

SCRIPT = """\
import json, os, pathlib
pathlib.Path("model.txt").write_text("learnt\\n")
json.dump({"loss": 0.25, "seed": int(os.environ["SEED"])}, open(os.environ["MODAK_METRICS"], "w"))
print("trained")
"""
TRAINING = {
    "framework": "python", "script": "train/train.py", "walltime": "00:05:00", "environment": {"SEED": "7"},
    "outputs": ["model.txt"],
}  # fmt: skip


def form_of(project: Project) -> dict[str, list[str]]:
    """The files of the results, each with the names in it where it is JSON; the scheduler's own output aside."""
    results = project.folder / "results"
    files = {str(each.relative_to(results)): each for each in results.rglob("*") if each.is_file()}
    files.pop("scheduler.log", None)
    return {name: names_in(path) for name, path in sorted(files.items())}


def names_in(path: Path) -> list[str]:
    return sorted(json.loads(path.read_text())) if path.suffix == ".json" else []


def trained(project: Project, *, is_there: bool = False) -> dict[str, list[str]]:
    project.training = TRAINING
    project.script(SCRIPT)
    if not is_there:
        done = project.deploy()
        assert done.returncode == 0, done.stdout + done.stderr
    assert (project.folder / "results/code/model.txt").read_text() == "learnt\n"
    assert project.record["metrics"]["numbers"] == {"loss": 0.25, "seed": 7.0}
    return form_of(project)


@pytest.fixture(scope="module")
def of_slurm(testbed, tmp_path_factory):
    made = Project(tmp_path_factory.mktemp("slurm") / "project", testbed)
    made.target["properties"]["container_runtime"] = "none"
    form = trained(made)
    made.clear()
    return form


@pytest.mark.parametrize("word", ["modak.nodes.Torque", "modak.nodes.Host"])
def test_to_another_scheduler(project, of_slurm, word):
    project.target["type"] = word
    project.target["properties"]["container_runtime"] = "none"
    if word == "modak.nodes.Host":
        project.target["properties"].pop("partitions")
    assert trained(project) == of_slurm


def test_to_this_machine(project, of_slurm, tmp_path):
    place = {"container_runtime": "none", "workspace": str(tmp_path / "workspace")}
    project.target = {"type": "modak.nodes.Local", "properties": place}
    assert trained(project) == of_slurm
    assert project.undeploy().returncode == 0


def test_to_a_container_host(host, of_slurm, tmp_path):  # noqa: F811
    made = ContainerHost(tmp_path / "moved", host)
    try:
        assert trained(made) == of_slurm
    finally:
        made.clear()


def test_to_kubernetes(kubernetes, of_slurm, tmp_path):  # noqa: F811
    made = OnKubernetes(tmp_path / "moved", kubernetes)
    try:
        assert trained(made) == of_slurm
    finally:
        made.clear()


@pytest.mark.parametrize("kind", ["cloud", "cluster"])
def test_to_a_cloud(request, of_slurm, kind):
    """To a machine of one, or to several that are made a cluster."""
    made: Cloud = request.getfixturevalue(kind)
    made.training = TRAINING
    made.script(SCRIPT)
    made.done("deploy", ".")
    try:
        assert trained(made, is_there=True) == of_slurm
    finally:
        made.done("undeploy", made.deployment)
