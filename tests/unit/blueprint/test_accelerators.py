"""Whether a script computes on an accelerator, read in its source."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.model.application import SourceFile
from modak_ansible.reading.blueprint.script.accelerators import use_in


def found(folder, text, framework="pytorch", values=()):
    (folder / "train.py").write_text(text)
    return use_in(folder, [SourceFile(path="train.py", size=1, sha256="")], framework, values)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('import torch\ndevice = "cuda" if torch.cuda.is_available() else "cpu"', "'cuda'"),
        ("import torch\nmodel.cuda()", ".cuda()"),
        ('import torch\nmodel.to("cuda")', "'cuda'"),
        ('import torch\nx, y = x.to("cuda"), y.to("cuda")', "'cuda'"),
        ('import torch\ntorch.device("cuda:0")', "'cuda:0'"),
        ('import torch\nmodel.to(f"cuda:{rank}")', "'cuda:'"),
        ("import torch\ntorch.cuda.set_device(rank)", "torch.cuda.set_device"),
        ("import torch\ntorch.accelerator.current_accelerator()", "torch.accelerator.current_accelerator"),
        ("import argparse\np.add_argument('--device', default='cuda', choices=['cpu', 'cuda'])", "'cuda'"),
        ("import torch.distributed as dist\ndist.init_process_group('nccl')\nmodel.to(rank)", "'nccl'"),
        ('import transformers\nmake(name, device_map="auto")', "device_map='auto'"),
        ('import lightning as L\nL.Trainer(accelerator="gpu", devices=2)', "accelerator='gpu'"),
        ('import tensorflow as tf\ntf.config.list_physical_devices("GPU")', "tensorflow.config.list_physical_devices"),
        ('import jax\njax.devices("gpu")', "jax.devices"),
    ],
)  # fmt: skip
def test_a_source_that_says_that_it_uses_one(tmp_path, text, name):
    assert found(tmp_path, text) == (name, "train.py:2", True)


@pytest.mark.parametrize(
    ("text", "framework", "name"),
    [
        ("import transformers\ntransformers.Trainer()", "pytorch", "transformers.Trainer"),
        ("from trl import SFTTrainer\nSFTTrainer()", "pytorch", "trl.SFTTrainer"),
        ("import lightning as L\nL.Trainer(devices=n)", "pytorch", "lightning.Trainer"),
        ("from accelerate import Accelerator\nAccelerator()", "pytorch", "accelerate.Accelerator"),
        ("from ultralytics import YOLO\nYOLO('x.pt')", "pytorch", "ultralytics.YOLO"),
        ("import tensorflow as tf\ntf.keras.Sequential()", "tensorflow", "tensorflow"),
        ("import keras\nkeras.Sequential()", "keras", "keras"),
        ("import jax\njax.jit(f)", "jax", "jax"),
    ],
)
def test_what_takes_one_by_itself(tmp_path, text, framework, name):
    assert found(tmp_path, text, framework) == (name, "train.py:2", False)


@pytest.mark.parametrize(
    "text",
    [
        "import torch\ntorch.nn.Linear(3, 3)",
        "import torch\nif torch.cuda.is_available():\n    torch.cuda.manual_seed_all(0)",
        "import torch\nDataLoader(rows, pin_memory=torch.cuda.is_available())",
        "import argparse\np.add_argument('--device', default='cpu', choices=['cpu', 'cuda'])",
        "import torch.distributed as dist\nif dist.get_backend() == 'nccl':\n    pass",
        "import torch\nif device == 'cuda' or 'cuda' in device or device.startswith('cuda'):\n    pass",
        'import torch\ntorch.load("m.pt", map_location={"cuda:0": "cpu"})',
        'import typing\ndef train(device: typing.Literal["cpu", "cuda"] = "cpu"): ...',
        "import torch\nmatch device:\n    case 'cuda':\n        pass",
        'import transformers\nmake(name, device_map="cpu")',
        "import tensorflow as tf, torch\ntf.io.gfile.GFile('x')",
        'import lightning as L\nL.Trainer(accelerator="cpu")',
        "import transformers\ntransformers.Trainer(args=transformers.TrainingArguments(use_cpu=True))",
        "from accelerate import Accelerator\nAccelerator(cpu=True)",
        'import os, torch\nos.environ["CUDA_VISIBLE_DEVICES"] = ""\nmodel.to("cuda")',
        'import os, torch\nos.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")\nmodel.to("cuda")',
        "def broken(:",
    ],
)
def test_what_does_not_tell_or_wants_none(tmp_path, text):
    assert found(tmp_path, text) is None


@pytest.mark.parametrize(
    "text",
    [
        "import tensorflow as tf\ntf.config.set_visible_devices([], 'GPU')\ntf.constant(1)",
        "import jax\njax.config.update('jax_platforms', 'cpu')\njax.jit(f)",
        "import os\nos.environ['JAX_PLATFORMS'] = 'cpu'\nimport jax\njax.jit(f)",
    ],
)
def test_what_takes_none_by_itself_either(tmp_path, text):
    assert found(tmp_path, text, "tensorflow" if "tensorflow" in text else "jax") is None


@pytest.mark.parametrize(
    ("values", "uses"),
    [
        ([("device", "cuda:1")], ("--device cuda:1", "its command line", True)),
        ([("", "trainer.accelerator=gpu")], ("trainer.accelerator=gpu", "its command line", True)),
        ([("device", "cpu")], None), ([("no-cuda", True)], None), ([("no_cuda", True)], None), ([("use_cpu", True)], None),
        ([("name", "a b")], ("'cuda'", "train.py:2", True)),
    ],
)  # fmt: skip
def test_what_a_script_is_told_goes_before_its_source(tmp_path, values, uses):
    assert found(tmp_path, 'import torch\nmodel.to("cuda")', values=values) == uses


@given(st.text(alphabet="\ncuda\"'.()=:\x00fé", max_size=40))
def test_whatever_stands_there_is_read(tmp_path_factory, text):
    found(tmp_path_factory.mktemp("any"), f"import torch\n{text}")
