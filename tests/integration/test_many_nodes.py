"""One training in two processes, on two nodes that share one machine: what a network does is not seen here."""

from __future__ import annotations

import json

import pytest
from cluster import modak

pytestmark = pytest.mark.testbed

# A plain script, but for its last lines: the second rank is killed, and the first waits for it.
TRAINS = """\
import json, os, signal
import torch
from modak_runtime import prepare

torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.utils.data.TensorDataset(torch.rand(64, 4))
loader = torch.utils.data.DataLoader(data, batch_size=16, shuffle=True)
model, optimizer, loader = prepare(model, optimizer, loader)
for (batch,) in loader:
    optimizer.zero_grad()
    model(batch).sum().backward()
    optimizer.step()
print("trained with", len(batch), "of 16", flush=True)
with open(os.environ["MODAK_METRICS"], "w") as file:
    json.dump({"weight": model.weight.detach().flatten().tolist()}, file)
torch.distributed.barrier()
if os.environ["RANK"] == "1":
    os.kill(os.getpid(), signal.SIGKILL)
torch.distributed.barrier()
"""


def test_two_ranks_train_one_model_and_the_one_that_is_lost_is_told(project):
    project.script(TRAINS).training.update(resources={"nodes": 2})
    done = project.deploy()
    assert done.returncode == 5, done.stdout + done.stderr
    assert "rank 1 on node02 failed first, with exit code 137" in done.stderr
    shown = modak("logs", project.deployment, cwd=project.path).stdout.splitlines()
    assert {"0: trained with 8 of 16", "1: trained with 8 of 16"} <= set(shown)
    results = project.path / ".modak" / "deployments" / project.deployment / "results"
    first, second = (json.loads((results / each / "metrics.json").read_text()) for each in (".", "ranks/1"))
    assert first["weight"] == second["weight"]
    status = json.loads(modak("status", "--json", cwd=project.path).stdout)
    assert "rank 1 on node02 failed first" in status[0]["explanation"]


def test_a_script_that_is_not_parallel_is_refused_on_two_nodes(project):
    project.training.update(resources={"nodes": 2})
    done = modak("plan", project.write(), cwd=project.path)
    assert done.returncode == 3
    assert "2 processes of train.py would each train all of it" in done.stderr
    assert "modak_runtime.prepare" in done.stderr
