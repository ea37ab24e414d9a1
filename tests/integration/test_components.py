"""Heterogeneous jobs of a real Slurm: nodes of two components, in two partitions, train one model."""

from __future__ import annotations

import json
import os
import signal

import pytest
from cluster import modak
from test_deployment import wait_for

pytestmark = pytest.mark.testbed

# Each rank says where it is, and waits until it is told to go on; then the second is killed, or all come to their end.
TRAINS = """\
import json, os, signal, time
import torch.distributed as dist
dist.init_process_group("gloo")
said = [None, None]
dist.all_gather_object(said, [os.environ[name] for name in ("RANK", "NODE_RANK", "SLURMD_NODENAME")])
print("all", said, flush=True)
while not os.path.exists("go_on"):
    time.sleep(0.2)
if open("go_on").read() == os.environ["RANK"]:
    os.kill(os.getpid(), signal.SIGKILL)
dist.barrier()
if dist.get_rank() == 0:
    json.dump({"ranks": dist.get_world_size()}, open(os.environ["MODAK_METRICS"], "w"))
"""
COMPONENTS = {"head": {"memory_limit": "900 MB"}, "rest": {"partition": "short", "memory_limit": "600 MB"}}


@pytest.fixture
def components(project):
    project.target["properties"]["partitions"] = [
        {"name": name, "nodes": 2, "cores": 1, "memory": "4000 MB", "default": name == "debug"}
        for name in ("debug", "short")
    ]
    project.script(TRAINS).training.update(job_options={"components": COMPONENTS}, distributed_training=True)
    return project


def leaders(project):
    """The ids of all jobs that the project ever had, whatever components they have."""
    listed = (
        f"sacct --noheader --parsable2 --allocations --starttime=now-1days --name={project.deployment} --format=JobID"
    )
    return {each.partition("+")[0] for each in project.testbed.ssh(listed).split()}


def go_on(project, rank=""):
    told = f"{project.remote}/code/go_on"  # renamed: a rank that saw it before its text was there would live on
    project.testbed.ssh(f"printf '%s' '{rank}' > {told}.new && mv {told}.new {told}")


@pytest.fixture
def queued_before(testbed):
    """The ids of jobs that others have in the queue of a testbed that was there."""
    return queued(testbed)


def queued(testbed):
    return set(testbed.ssh("squeue --noheader --format=%i").split())


def nothing_more_is_queued(testbed, before):
    shown = "squeue; scontrol show nodes; scontrol show jobs"
    wait_for(lambda: queued(testbed) <= before, describe=lambda: testbed.ssh(shown))


def test_components_train_one_model_and_are_one_job(components):
    process = components.start()
    wait_for(lambda: len(leaders(components)) == 1, seconds=180)
    os.killpg(process.pid, signal.SIGKILL)  # who comes back finds the job, and submits no second one
    process.communicate()
    done = components.deploy("--detach")
    assert done.returncode == 0, done.stdout + done.stderr
    components.wait_for_output("all ")
    (job_id,) = leaders(components)
    assert components.record["job"]["job_id"] == job_id

    shown = components.testbed.ssh(f"scontrol --oneliner show job {job_id}").splitlines()
    for line, (name, partition, memory) in zip(shown, (("01", "debug", 859), ("02", "short", 573)), strict=True):
        assert f" Partition={partition} " in line
        assert f" NodeList=node{name} " in line
        assert f"mem={memory}M" in line
    (status,) = json.loads(modak("status", "--json", cwd=components.path).stdout)
    assert (status["state"], status["job_id"], status["nodes"]) == ("RUNNING", job_id, "node01,node02")
    (first, second) = json.loads(modak("top", components.path, "--once", "--json", cwd=components.path).stdout)["nodes"]
    assert [first["node"], second["node"]] == ["node01", "node02"]
    assert [[each["rank"] for each in node["ranks"]] for node in (first, second)] == [[0], [1]]
    inside = modak(
        "shell", components.path, "--rank", "1", "--", "sh", "-c", "echo $RANK on $SLURMD_NODENAME", cwd=components.path
    )
    assert inside.stdout == "1 on node02\n", inside.stderr

    go_on(components)
    done = components.deploy()
    assert done.returncode == 0, done.stdout + done.stderr
    results = components.folder / "results"
    assert json.loads((results / "metrics.json").read_text()) == {"ranks": 2}
    assert "all [['0', '0', 'node01'], ['1', '1', 'node02']]" in (results / "output.log").read_text()
    assert leaders(components) == {job_id}


def test_a_rank_of_another_component_that_is_lost_ends_the_job(components, queued_before):
    done = components.deploy("--detach")
    assert done.returncode == 0, done.stdout + done.stderr
    components.wait_for_output("all ")
    go_on(components, rank=1)
    done = components.deploy()
    assert done.returncode == 5, done.stdout + done.stderr
    assert "rank 1 on node02 failed first, with exit code 137" in done.stderr
    nothing_more_is_queued(components.testbed, queued_before)


def test_a_node_of_another_component_that_is_lost_is_told(components):
    process = components.start()
    components.wait_for_output("all ")
    components.testbed.root("scontrol update nodename=node02 state=down reason=test")
    try:
        said, _ = process.communicate(timeout=120)
    finally:
        components.testbed.root("scontrol update nodename=node02 state=resume || true")
    assert process.returncode == 5, said
    assert "ended as NODE_FAIL" in said
    assert len(leaders(components)) == 1


def test_what_is_cancelled_is_all_of_it_and_what_slurm_refuses_is_told(components, queued_before):
    components.training["job_options"] = {"components": {**COMPONENTS, "other": {"architecture_constraint": "nosuch"}}}
    refused = components.deploy()
    assert refused.returncode not in (0, 5), refused.stdout + refused.stderr
    components.training["job_options"] = {"components": COMPONENTS}
    assert components.deploy("--detach").returncode == 0
    components.wait_for_output("all ")
    done = modak("cancel", components.path, cwd=components.path)
    assert done.returncode == 0, done.stdout + done.stderr
    nothing_more_is_queued(components.testbed, queued_before)
    (status,) = [each for each in json.loads(modak("status", "--json", cwd=components.path).stdout) if each["job_id"]]
    assert status["state"] == "CANCELLED"
