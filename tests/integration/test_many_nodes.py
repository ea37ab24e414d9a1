"""One training in two processes, on two nodes that share one machine: what a network does is not seen here."""

from __future__ import annotations

import json

import pytest
from cluster import modak

pytestmark = pytest.mark.testbed

# Trains as torchrun would have it; then the second rank is killed, and the first waits for it.
TRAINS = """\
import json, os, signal
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(3):
    optimizer.zero_grad()
    model(torch.rand(8, 4)).sum().backward()
    optimizer.step()
print("rank", rank, "of", dist.get_world_size(), "has trained", flush=True)
weight = model.module.weight.detach().flatten().tolist()
with open(os.environ["MODAK_METRICS"], "w") as file:
    json.dump({"rank": rank, "weight": weight}, file)
dist.barrier()
if rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
dist.barrier()
"""


def test_two_ranks_train_one_model_and_the_one_that_is_lost_is_told(project):
    project.script(TRAINS).training.update(resources={"nodes": 2})
    done = project.deploy()
    assert done.returncode == 5, done.stdout + done.stderr
    assert "rank 1 on node02 failed first, with exit code 137" in done.stderr
    shown = modak("logs", project.deployment, cwd=project.path).stdout.splitlines()
    assert {"0: rank 0 of 2 has trained", "1: rank 1 of 2 has trained"} <= set(shown)
    results = project.path / ".modak" / "deployments" / project.deployment / "results"
    first, second = (json.loads((results / each / "metrics.json").read_text()) for each in (".", "ranks/1"))
    assert (first["rank"], second["rank"]) == (0, 1)
    assert first["weight"] == second["weight"]
    status = json.loads(modak("status", "--json", cwd=project.path).stdout)
    assert "rank 1 on node02 failed first" in status[0]["explanation"]


def test_a_script_that_is_not_parallel_is_refused_on_two_nodes(project):
    project.training.update(resources={"nodes": 2})
    done = modak("plan", project.write(), cwd=project.path)
    assert done.returncode == 3
    assert "2 processes of train.py would each train all of it" in done.stderr
    assert "modak_runtime.prepare" in done.stderr
