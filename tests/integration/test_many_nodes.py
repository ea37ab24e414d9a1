"""One training in two processes, on two nodes that share one machine: what a network does is not seen here."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
from cluster import modak, thorough
from disks import full_scratch

pytestmark = pytest.mark.testbed
HERE = Path(__file__).parent / "libraries"

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


# A plain script again: what one process learns, then what ranks learn that have parts of the model.
SHARES_OUT = """\
import copy, json, os
import torch
from modak_runtime import prepare

def train(model, optimizer, batches):
    for (batch,) in batches:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
alone = copy.deepcopy(model)
data = torch.utils.data.TensorDataset(torch.rand(64, 8))
loader = torch.utils.data.DataLoader(data, batch_size=16)
train(alone, torch.optim.AdamW(alone.parameters(), lr=0.01), loader)
model, optimizer, loader = prepare(model, torch.optim.AdamW(model.parameters(), lr=0.01), loader)
train(model, optimizer, loader)
kept = sum(each.to_local().numel() for each in model.parameters())
learned, expected = ([each.tolist() for each in found.parameters()] for found in (model, alone))
with open(os.environ["MODAK_METRICS"], "w") as file:
    json.dump({"kept": kept, "learned": learned, "expected": expected}, file)
"""


@pytest.mark.thorough
@pytest.mark.parametrize("strategy", ["fsdp", "tensor", "pipeline"])
def test_two_nodes_have_parts_of_a_model_and_learn_what_one_process_learns(project, strategy):
    project.script(SHARES_OUT).training.update(resources={"nodes": 2}, distributed={"strategy": strategy})
    done = project.deploy()
    assert done.returncode == 0, done.stdout + done.stderr
    results = project.path / ".modak" / "deployments" / project.deployment / "results"
    ranks = [json.loads((results / each / "metrics.json").read_text()) for each in (".", "ranks/1")]
    whole_in_all = 1 if strategy == "tensor" else 0  # the bias of what is summed
    assert sum(each["kept"] for each in ranks) == 8 * 32 + 32 + 32 + 1 + whole_in_all
    assert 0 < ranks[1]["kept"] < 0.6 * sum(each["kept"] for each in ranks)
    for each in ranks:
        assert each["learned"] == [_near(values) for values in each["expected"]]


def _near(values):
    """The same numbers in the same lists, but for the order of sums."""
    return [_near(each) for each in values] if isinstance(values, list) else pytest.approx(values, rel=1e-4, abs=1e-6)


LIBRARIES = {
    "tensorflow_workers.py": {"framework": "tensorflow", "version": "2.21", "requirements_txt": ["tf-keras==2.21.0"]},
    "jax_mesh.py": {"framework": "jax"},
    "horovod_sums.py": {"framework": "tensorflow", "version": "2.12"},
}


@pytest.mark.thorough
@pytest.mark.parametrize("script", LIBRARIES)
def test_libraries_meet_by_their_own_words_on_two_nodes(project, script):
    project.script((HERE / script).read_text()).training.update(LIBRARIES[script], resources={"nodes": 2})
    done = project.deploy()
    assert done.returncode == 0, done.stdout + done.stderr
    ranks = [json.loads((project.folder / "results" / each / "metrics.json").read_text()) for each in (".", "ranks/1")]
    samples, weights = np.random.default_rng(0).random((512, 8), np.float32), np.ones((8, 1))
    for batch in samples.reshape(8, 64, 8):
        weights -= 0.05 * 2 / 64 * batch.T @ (batch @ weights - 2 * batch.sum(1, keepdims=True))
    assert [(each["processes"], each["node"]) for each in ranks] == [(2, "node01"), (2, "node02")]
    for each in ranks:
        assert each["weights"] == pytest.approx(weights.ravel().tolist(), rel=1e-4)


def test_a_script_that_is_not_parallel_is_refused_on_two_nodes(project):
    project.training.update(resources={"nodes": 2})
    done = modak("plan", project.write(), cwd=project.path)
    assert done.returncode == 3
    assert "2 processes of train.py would each train the whole model" in done.stderr
    assert "modak_runtime.prepare" in done.stderr


# No rank needs a framework to say which of its data is its node's own.
LOOKS = """\
import json, os, tarfile
folder = os.environ["MODAK_DATASET"]
shards = sorted(name for name in os.listdir(folder) if name.endswith(".tar"))
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
found = {"folder": folder, "shards": {}, "own": []}
for number, name in enumerate(shards):
    path = os.path.join(folder, name)
    if not os.path.islink(path):
        found["own"].append(number)
    with tarfile.open(path) as tar:
        found["shards"][name] = sorted(tar.getnames())
with open(os.environ["MODAK_METRICS"], "w") as file:
    json.dump(found, file)
"""

FINDS = """\
import json, os
with open(os.environ["MODAK_METRICS"], "w") as file:
    json.dump({"folder": os.environ["MODAK_DATASET"]}, file)
"""


@pytest.mark.parametrize("staging", ["by-node", *thorough("node-local")])
def test_a_folder_becomes_shards_that_are_on_both_nodes(project, tmp_path, staging):
    for number in range(8):
        path = tmp_path / "photos" / f"class-{number % 2}" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes([number]) * 600_000)
    project.script(LOOKS).training.update(
        resources={"nodes": 2}, optimisation={"staging": staging, "strict": True}, distributed_training=True
    )
    project.dataset = {
        "name": "photos", "source": [str(tmp_path / "photos")], "format": "webdataset", "pack": "shards",
    }  # fmt: skip
    done = project.deploy()
    assert done.returncode == 0, done.stdout + done.stderr
    results = project.path / ".modak" / "deployments" / project.deployment / "results"
    ranks = [json.loads((results / each / "metrics.json").read_text()) for each in (".", "ranks/1")]
    everything = sorted(f"class-{number % 2}/{number}.jpg" for number in range(8))
    for rank, found in enumerate(ranks):
        assert sorted(name for names in found["shards"].values() for name in names) == everything
        assert "/modak-" in found["folder"]
        numbers = range(len(found["shards"]))
        assert found["own"] == list(numbers[rank::2] if staging == "by-node" else numbers)


@pytest.mark.thorough
def test_a_node_whose_scratch_is_full_has_all_nodes_read_where_the_data_lies(project, tmp_path):
    (tmp_path / "data").mkdir()
    for number in range(4):
        (tmp_path / "data" / f"{number}.npy").write_bytes(os.urandom(200_000))
    project.script(FINDS).training.update(
        resources={"nodes": 2}, optimisation={"staging": "node-local", "strict": True}, distributed_training=True
    )
    project.dataset = {"name": f"own-{project.name}", "source": [str(tmp_path / "data")], "format": "npy"}
    with full_scratch(project.testbed, "node02"):
        done = project.deploy()
    assert done.returncode == 0, done.stdout + done.stderr
    results = project.path / ".modak" / "deployments" / project.deployment / "results"
    folders = {json.loads((results / each / "metrics.json").read_text())["folder"] for each in (".", "ranks/1")}
    assert folders == {f"/home/modak/modak/{project.plan()['dataset']['path']}"}
    assert "node02" in (results / "error.log").read_text()


# The second rank keeps what it makes on a disk of its node, as caches are kept, until there is no room; or waits for what
# never comes, in which it hears of no signal but SIGKILL.
ENDS_IN_STEP = """\
import os, threading
import torch
from modak_runtime import prepare

def keep(step):
    with open("FOLDER/%d" % step, "wb") as file:
        file.write(os.urandom(20000))

def hang(step):
    threading.Event().wait()

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.utils.data.TensorDataset(torch.rand(64, 4))
model, optimizer, loader = prepare(model, optimizer, torch.utils.data.DataLoader(data, batch_size=4))
for step, (batch,) in enumerate(loader):
    optimizer.zero_grad()
    model(batch).sum().backward()
    optimizer.step()
    if os.environ["RANK"] == "1" and step > 5:
        ACT(step)
"""


@pytest.mark.thorough
def test_a_rank_whose_node_has_a_full_disk_is_named_with_the_reason(project):
    folder = f"/tmp/kept-{project.name}"
    project.script(ENDS_IN_STEP.replace("ACT", "keep").replace("FOLDER", folder)).training.update(
        resources={"nodes": 2}
    )
    project.testbed.ssh(f"mkdir {folder}")
    with full_scratch(project.testbed, "node02", folder):
        done = project.deploy()
    project.testbed.ssh(f"rm -r {folder}")
    assert done.returncode == 5, done.stdout + done.stderr
    assert "rank 1 on node02 failed first, with exit code 1" in done.stderr
    assert "No space left on device" in done.stdout + done.stderr


@pytest.mark.thorough
def test_a_rank_that_waits_for_what_never_comes_is_named_with_its_line(project):
    project.script(ENDS_IN_STEP.replace("ACT", "hang")).training.update(
        resources={"nodes": 2}, distributed={"timeout": 20}
    )
    done = project.deploy()
    assert done.returncode == 5, done.stdout + done.stderr
    assert "rank 1 on node02 was alive but no longer did anything" in done.stderr
    log = (project.path / ".modak" / "deployments" / project.deployment / "results" / "error.log").read_text()
    assert "no rank has computed, read or written anything for 20 s after step 7, and rank 1 is in no sum" in log
    assert re.search(
        r"rank 1 on node02 \(\S+\) is at train\.py:10 in wait; rank 0 on node01 \(\S+\) is at train\.py:18 in ", log
    )
