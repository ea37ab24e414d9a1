"""What makes a script parallel by itself, read in its source."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from script_files import written

from modak_ansible.reading.blueprint.script.parallelism import parallelism_of


def found(folder, **texts):
    return parallelism_of(folder, written(folder, **texts))


@pytest.mark.parametrize(
    ("reads", "told"),
    [
        ("import webdataset as wds\nwds.WebDataset(x, nodesplitter=wds.split_by_node)", "webdataset.split_by_node, data.py:2"),
        ("from datasets.distributed import split_dataset_by_node", ""),
        ("from datasets.distributed import split_dataset_by_node\nsplit_dataset_by_node(x, 1, 2)",
         "datasets.distributed.split_dataset_by_node, data.py:2"),
        ("import webdataset as wds\nwds.WebDataset(x)", ""),
    ],
)  # fmt: skip
def test_what_shares_files_out_between_ranks(tmp_path, reads, told):
    assert found(tmp_path, train="import torch\ntorch.distributed.init_process_group()", data=reads).shares == told


@pytest.mark.parametrize(
    ("text", "by", "name"),
    [
        ("import torch.distributed as dist\ndist.init_process_group('gloo')", "ranks", "init_process_group"),
        ("import torch\ntorch.distributed.init_process_group()", "ranks", "init_process_group"),
        ("from torch.distributed import init_process_group as begin\nbegin()", "ranks", "init_process_group"),
        ("from torch import distributed as d\nd.init_device_mesh('cpu', (2,))", "ranks", "init_device_mesh"),
        ("from torch.distributed.device_mesh import init_device_mesh\ninit_device_mesh()", "ranks", "init_device_mesh"),
        ("from accelerate import Accelerator\nAccelerator()", "ranks", "accelerate.Accelerator"),
        ("import transformers\ntransformers.Trainer()", "ranks", "transformers.Trainer"),
        ("from transformers import Seq2SeqTrainer\nSeq2SeqTrainer()", "ranks", "Seq2SeqTrainer"),
        ("from trl import SFTTrainer\nSFTTrainer()", "ranks", "SFTTrainer"),
        ("import lightning as L\nL.Trainer()", "ranks", "lightning.Trainer"),
        ("from lightning.pytorch import Trainer\nTrainer()", "ranks", "lightning.pytorch.Trainer"),
        ("import pytorch_lightning as pl\npl.Trainer()", "ranks", "pytorch_lightning.Trainer"),
        ("import jax\njax.distributed.initialize()", "ranks", "jax.distributed.initialize"),
        ("import tensorflow as tf\ntf.distribute.cluster_resolver.SlurmClusterResolver()", "ranks", "Slurm"),
        ("import tensorflow as tf\ntf.distribute.MultiWorkerMirroredStrategy()", "tf_config", "MultiWorkerMirrored"),
        ("import deepspeed\ndeepspeed.initialize()", "ranks", "deepspeed.initialize"),
        ("from deepspeed import comm\ncomm.init_distributed()", "ranks", "deepspeed.comm.init_distributed"),
        ("from timm import utils\nutils.init_distributed_device(args)", "ranks", "timm.utils.init_distributed_device"),
        ("import colossalai\ncolossalai.launch_from_torch()", "ranks", "colossalai.launch_from_torch"),
        ("from mpi4py import MPI\nMPI.COMM_WORLD.Get_rank()", "mpi", "mpi4py.MPI"),
        ("import horovod.torch as hvd\nhvd.init()", "mpi", "horovod.torch.init"),
    ],
)
def test_what_makes_it_parallel_is_seen(tmp_path, text, by, name):
    seen = found(tmp_path, train=text)
    assert (seen.by, seen.place) == (by, "train.py:2")
    assert name in seen.name


@pytest.mark.parametrize(
    "text",
    [
        "import torch\ntorch.nn.Linear(1, 1)",
        "import torch.distributed as dist\nif dist.is_available() and dist.is_initialized():\n    dist.barrier()",
        "from torch.utils.data.distributed import DistributedSampler\nDistributedSampler",
        "import tensorflow as tf\ntf.distribute.MirroredStrategy()",  # over the accelerators of one process
        "from transformers import AutoModel\nAutoModel.from_pretrained('x')",
        "class Trainer: pass\nTrainer()",
        "# torch.distributed.init_process_group()",
        "def broken(:",
    ],
)
def test_what_does_not_is_not_taken_for_it(tmp_path, text):
    assert found(tmp_path, train=text) is None


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("import lightning as L\nL.Trainer(devices=1, num_nodes=2)", (2, 1)),
        ("from lightning.fabric import Fabric\nFabric(devices=4)", (None, 4)),
        ("import lightning as L\nL.Trainer(devices='auto', num_nodes=n, fast_dev_run=True)", (None, None)),
        ("from transformers import Trainer\nTrainer(devices=1)", (None, None)),
        # one that trains, and one that tests in one process, as Lightning advises
        (
            "import lightning as L\nL.Trainer(num_nodes=2).fit(m)\nL.Trainer(devices=1, num_nodes=1).test(m)",
            (None, None),
        ),
        ("import lightning as L\nL.Trainer(devices=2)\nL.Trainer(devices=2, num_nodes=1)", (None, 2)),
        (
            "import lightning as L\nfrom lightning.pytorch.plugins.environments import LightningEnvironment\n"
            "L.Trainer(devices=4, num_nodes=1, plugins=[LightningEnvironment()])",
            (1, None),
        ),
    ],
)
def test_processes_that_the_source_says_itself(tmp_path, text, numbers):
    seen = found(tmp_path, train=text)
    assert (seen.nodes, seen.processes_per_node) == numbers


def test_its_other_files_count_and_mpi_comes_first(tmp_path):
    ranks = "import torch.distributed as dist\ndist.init_process_group()"
    assert found(tmp_path, train="import setup", setup=ranks).place == "setup.py:2"
    assert found(tmp_path, train=ranks, setup="from mpi4py import MPI\nMPI.COMM_WORLD").by == "mpi"
    assert parallelism_of(tmp_path, ["gone.py"]) is None


@given(st.text(max_size=200))
def test_any_text_is_read(tmp_path_factory, text):
    folder = tmp_path_factory.mktemp("code")
    (folder / "train.py").write_text(f"{text}\n# Trainer", encoding="utf-8", errors="ignore")
    parallelism_of(folder, ["train.py"])
