"""Scripts that train with Hugging Face's Trainer and with Lightning, as they are, in the real packages."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from modak_ansible.runtime import FILES
from modak_ansible.target.jobs.progress import progress_of

HERE = Path(__file__).parent / "runtime"
SCRIPTS = ("plain_transformers.py", "plain_lightning.py")

pytestmark = pytest.mark.thorough


class Job:
    """A folder in which scripts run as a job runs them."""

    def __init__(self, python: str, folder: Path) -> None:
        self._python, self.folder = python, folder

    def train(self, script: str, *, acts: bool = True, **environment: str) -> subprocess.CompletedProcess[str]:
        ours = {name: value for name, value in os.environ.items() if not name.startswith(("MODAK", "PYTHON"))}
        ours |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
        if acts:
            ours |= {"PYTHONPATH": str(FILES), "MODAK_APPLIED": str(self.folder / "applied.json")}
            ours["MODAK_METRICS"] = str(self.folder / "metrics.json")
        (self.folder / "train.py").write_text((HERE / script).read_text())
        command = [self._python, "train.py"]
        return subprocess.run(
            command, cwd=self.folder, env=ours | environment, capture_output=True, text=True, check=False, timeout=600
        )

    def read(self, name: str) -> dict:
        return json.loads((self.folder / name).read_text())

    @property
    def checkpoints(self) -> dict[str, str]:
        (self.folder / "checkpoints").mkdir(exist_ok=True)
        found = {"MODAK_CHECKPOINTS": "checkpoints", "MODAK_STOP": "stop"}
        return {name: str(self.folder / value) for name, value in found.items()} | {"MODAK_CHECKPOINT_EVERY": "0.001"}


@pytest.fixture
def job(trainers_python, tmp_path):
    return Job(trainers_python, tmp_path)


def weights(done) -> str:
    assert done.returncode == 0, done.stderr
    return re.search(r"sum of weights: (\S+)", done.stdout)[1]


@pytest.mark.parametrize("script", SCRIPTS)
def test_it_learns_to_the_bit_what_it_learns_alone(job, script):
    """Samples in memory keep every bit; epochs, losses and numbers are told, and nothing was written into the script."""
    alone = weights(job.train(script, acts=False))
    assert weights(job.train(script, MODAK_CHOICES="input=memory")) == alone
    report = job.read("applied.json")
    assert report["choices"]["input"]["applied"] == "memory"
    assert report["mistakes"] == []
    assert report["steps"]["count"] in (45, 48)
    found = progress_of(job.folder)
    assert (found["epoch"], found["epochs"]) == (3, 3)
    assert found["loss"] > 0
    names = {"plain_transformers.py": "eval_accuracy", "plain_lightning.py": "val_loss"}
    assert names[script] in found["numbers"]


@pytest.mark.parametrize("script", SCRIPTS)
def test_choices_act_in_it(job, script):
    done = job.train(script, MODAK_CHOICES="precision=bf16 compiler=inductor workers=1 batch_size=8 accumulation=2")
    assert done.returncode == 0, done.stderr
    report = job.read("applied.json")
    assert {name: each["applied"] for name, each in report["choices"].items()} == {
        "precision": "bf16", "compiler": "inductor", "workers": "1", "batch_size": "8", "accumulation": "2",
    }  # fmt: skip
    assert report["mistakes"] == []
    if script == "plain_lightning.py":
        assert "computes in torch.bfloat16" in done.stdout


def test_the_trainer_is_stopped_and_goes_on_to_the_bit(job):
    script = "plain_transformers.py"
    alone = weights(job.train(script, acts=False))
    checkpoints = job.checkpoints
    (job.folder / "stop").touch()
    stopped = job.train(script, **checkpoints)
    assert stopped.returncode == 85, stopped.stderr
    assert "modak: the training was stopped, and its state saved" in stopped.stdout
    (job.folder / "stop").unlink()
    again = job.train(script, **{**checkpoints, "MODAK_CHECKPOINT_EVERY": "600"})
    assert "modak: the training continues from " in again.stdout
    assert weights(again) == alone


def test_lightning_goes_on_from_the_end_of_an_epoch_to_the_bit(job):
    script = "plain_lightning.py"
    alone = weights(job.train(script, acts=False))
    checkpoints = job.checkpoints
    stopped = job.train(script, STOPS_IN_EPOCH="1", **checkpoints)
    assert stopped.returncode == 85, stopped.stderr
    (job.folder / "stop").unlink()
    again = job.train(script, **checkpoints)
    assert "modak: the training continues from " in again.stdout
    assert weights(again) == alone


@pytest.mark.parametrize("script", SCRIPTS)
def test_two_processes_are_one_training(job, script):
    """As a job starts them; the Trainer shares the data out, and our hooks leave that to it."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        shared = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "NODE_RANK": "0", "GLOO_SOCKET_IFNAME": "lo"}
        shared |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(found.getsockname()[1]), "MODAK_STRATEGY": ""}
        shared |= {"TORCHELASTIC_RUN_ID": "1", "PL_TRAINER_NUM_NODES": "1", "PL_TRAINER_DEVICES": "2"}
        shared |= {"ACCELERATE_USE_CPU": "true", "MODAK_CHOICES": "input=memory workers=1"}
    (job.folder / "ranks" / "1").mkdir(parents=True)
    second = {name: str(job.folder / "ranks" / "1" / name) for name in ("applied.json", "metrics.json")}
    own = {"MODAK_APPLIED": second["applied.json"], "MODAK_METRICS": second["metrics.json"]}
    with ThreadPoolExecutor() as pool:
        places = [{"RANK": "0", "LOCAL_RANK": "0"}, {"RANK": "1", "LOCAL_RANK": "1", **own}]
        started = [pool.submit(job.train, script, **shared, **place) for place in places]
        first, other = (weights(each.result()) for each in started)
    assert first == other
    for name in ("applied.json", "ranks/1/applied.json"):
        report = job.read(name)
        assert report["mistakes"] == []
        assert report["steps"]["count"] == 24  # of 45 and 48 that one process makes
    assert job.read("metrics.json")["schema"] == "modak.trainer/1"
