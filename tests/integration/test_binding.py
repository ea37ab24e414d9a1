"""Which cores ranks really have: what each sees, beside what it noted, and what modak says of those that share."""

from __future__ import annotations

import json

import pytest
from cluster import Project, modak

pytestmark = [pytest.mark.testbed, pytest.mark.thorough]

TELLS = """\
import json, os, time
seen = {"node": os.uname().nodename, "cores": sorted(os.sched_getaffinity(0)), "threads": os.environ["OMP_NUM_THREADS"]}
with open(os.environ["MODAK_METRICS"], "w") as file:
    json.dump(seen, file)
time.sleep(2)
"""
CORES = "python3 -c 'import os; print(*sorted(os.sched_getaffinity(0)))'"


def seen_by(project: Project, ranks: int) -> list[dict]:
    """What each rank saw; what it noted is the same."""
    project.script(TELLS).training.update(distributed_training=True)
    done = project.deploy()
    assert done.returncode == 0, done.stdout + done.stderr
    results = project.folder / "results"
    found = [
        json.loads((results / (f"ranks/{each}" if each else ".") / "metrics.json").read_text()) for each in range(ranks)
    ]
    for number, each in enumerate(found):
        node, threads, cores = project.testbed.ssh(f"cat {project.remote}/state/cores/{number}").split()
        noted = [range(int(part.split("-")[0]), int(part.split("-")[-1]) + 1) for part in cores.split(",")]
        assert (node, threads, sorted(core for part in noted for core in part)) == (
            each["node"],
            each["threads"],
            each["cores"],
        )
    return found


def said_of(project: Project) -> str:
    """What modak status says of ranks that have too few cores; empty where it says nothing."""
    (shown,) = json.loads(modak("status", project.deployment, "--json", cwd=project.path).stdout)
    return shown["explanation"]


@pytest.fixture
def alone(project):
    """The front end as a plain host: the job script itself starts the ranks."""
    project.target.update(type="modak.nodes.Host", properties={}, capabilities={})
    return project


def test_ranks_of_a_node_with_enough_cores_have_their_own(alone):
    cores = [int(each) for each in alone.testbed.ssh(CORES).split()]
    if len(cores) < 2:
        pytest.skip("this machine has one core")
    alone.target["capabilities"] = {"processor": {"properties": {"cores": len(cores)}}}
    alone.training["resources"] = {"nodes": 1, "processes_per_node": 2, "cores_per_process": 1}
    first, second = seen_by(alone, 2)
    assert (first["cores"], second["cores"]) == ([cores[0]], [cores[1]])
    assert first["threads"] == second["threads"] == "1"
    assert said_of(alone) == ""


def test_ranks_that_share_cores_are_named(alone):
    """The target is said to have twice the cores that it has."""
    cores = [int(each) for each in alone.testbed.ssh(CORES).split()]
    alone.target["capabilities"] = {"processor": {"properties": {"cores": 2 * len(cores)}}}
    alone.training["resources"] = {"nodes": 1, "processes_per_node": 2, "cores_per_process": len(cores)}
    found = seen_by(alone, 2)
    assert [each["cores"] for each in found] == [cores, cores]
    listed = f"cores {', '.join(map(str, cores))}" if len(cores) > 1 else f"core {cores[0]}"
    assert said_of(alone) == (
        f"ranks 0, 1 on frontend have {listed} for {2 * len(cores)} threads, which wait for each other"
    )


def test_ranks_on_two_nodes_of_slurm_note_what_they_see(project):
    """The testbed's Slurm binds nothing: each rank may use all cores of its node, which are those of the machine."""
    project.training["resources"] = {"nodes": 2, "processes_per_node": 1, "cores_per_process": 1}
    found = seen_by(project, 2)
    assert [each["node"] for each in found] == ["node01", "node02"]
    assert [each["threads"] for each in found] == ["1", "1"]
    assert said_of(project) == ""
