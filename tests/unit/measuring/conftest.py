"""Suites, records and runs that nothing runs."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from example_suite import GROUP

from modak_ansible.catalogue import Catalogue, load_catalogue
from modak_ansible.measuring.executor import RunOutcome
from modak_ansible.measuring.plans import place_of, plan_run
from modak_ansible.measuring.suites.reader import Inventory, read_suite
from modak_ansible.measuring.suites.variants import blocks_of
from modak_ansible.model.measured.record import Record
from modak_ansible.model.measured.workload import Workload
from modak_ansible.reading.blueprint.reader import Inputs

SCRIPTS = [
    {"framework": "pytorch", "script": "pytorch.py", "switches": {"memory_format": ["contiguous", "channels_last"]}},
    {"framework": "tensorflow", "versions": ">=2.16", "script": "tensorflow_keras.py"},
]
SUITE = "name: example\ntitle: An example\nrounds: 2\ngroups:\n" + GROUP


@pytest.fixture(scope="session")
def known() -> Inventory:
    trained = Workload(name="mnist_cnn", title="MNIST-CNN", kind="training", dataset=True, scripts=SCRIPTS)
    everywhere = [{"framework": "any", "script": "network.py"}]
    between = Workload(name="network", title="Network", kind="infrastructure", nodes=2, scripts=everywhere)
    shipped = load_catalogue()
    names = ("pytorch-2.13-cpu", "tensorflow-2.21-cpu")
    entries = tuple(entry for entry in shipped.entries if entry.name in names)
    catalogue = Catalogue(entries=entries, bases=shipped.bases, datasets=shipped.datasets)
    return Inventory(catalogue, {"mnist_cnn": trained, "network": between})


@pytest.fixture
def suite_file(tmp_path: Path):
    def write(text: str | dict = SUITE) -> Path:
        path = tmp_path / "example.yaml"
        path.write_text(text if isinstance(text, str) else yaml.safe_dump(text))
        return path

    return write


@pytest.fixture(scope="session")
def place(root: Path):
    return place_of(root / "tosca" / "blueprints" / "mnist-pytorch-slurm" / "service.yaml", Inputs())


@pytest.fixture
def example(suite_file, known):
    """A suite with two variants of one group, and its blocks."""
    suite = read_suite(suite_file(), known)
    return suite, blocks_of(suite, known)


@pytest.fixture(scope="session")
def planned(place, known, tmp_path_factory):
    """A plan that serves for any run."""
    path = tmp_path_factory.mktemp("suite") / "example.yaml"
    path.write_text(SUITE)
    suite = read_suite(path, known)
    return plan_run(suite, blocks_of(suite, known)[0].variants[0], place)


@pytest.fixture
def plan_of(planned):
    """Plans a run without work: the digest says what is run, and how often that was asked for."""
    counts: dict[str, int] = {}

    def plan(suite, variant, place, run=""):
        counts[variant.name] = counts.get(variant.name, 0) + 1
        digest = f"{variant.name}#{counts[variant.name]}"
        image = planned.plan.image.model_copy(update={"digest": variant.entry.name, "entry": variant.entry.name})
        return planned._replace(plan=planned.plan.model_copy(update={"digest": digest, "image": image}))

    return plan


def metrics(seconds: float = 2.0, foreign: float | None = 0.0, epochs: int = 3) -> dict:
    """What a training of 100 images leaves."""
    epoch = {"seconds": seconds, "images_per_second": 100 / seconds, "evaluation_seconds": 0.5, "training_loss": 0.3,
             "test_loss": 0.2, "test_accuracy": 0.9, "foreign_cores": foreign}  # fmt: skip
    listed = [{**epoch, "epoch": number} for number in range(1, epochs + 1)]
    return {
        "schema": "modak.metrics/1", "workload": "mnist_cnn", "finished": True, "versions": {"python": "3.13.0"},
        "hostname": "node01", "processor": {"model": "A processor", "architecture": "x86_64"}, "threads": 1,
        "parameters": 1_199_882, "dataset": {"name": "mnist", "label": "MNIST"}, "training_images": 100,
        "test_images": 10, "batch_size": 10, "seed": 1, "learning_rate": 1.0, "dropout": 1.0, "epochs": listed,
        "first_losses": [2.3, 2.2], "gradient_error": None, "load_average": 0.1, "switches": {},
        "seconds": {"import": 1.0, "load_data": 0.1, "to_first_step": 1.5, "first_step": 0.2, "compile": 0.0, "total": 9.0},
        "peak_memory_bytes": 10**8,
    }  # fmt: skip


class FakeExecutor:
    """Runs nothing; answers what a test has it answer, in turn, and does well otherwise."""

    def __init__(self):
        self.runs: list[str] = []
        self.prepared: list[str] = []
        self.ended: list[str] = []
        self.answers: dict[str, list] = {}
        self.unfit: dict[str, Exception] = {}

    def look(self, planned):
        return {"processor": "A processor", "architecture": "zen2", "cores": 2, "memory": 2**34, "hostname": "frontend"}

    def prepare(self, planned):
        self.prepared.append(planned.plan.image.entry)
        if planned.plan.image.entry in self.unfit:
            raise self.unfit[planned.plan.image.entry]

    def run(self, planned):
        name = planned.plan.digest.partition("#")[0]
        self.runs.append(name)
        waiting = self.answers.get(name)
        answer = waiting.pop(0) if waiting else metrics()
        if isinstance(answer, BaseException):
            raise answer
        job = {"job_id": str(len(self.runs)), "started": 1_700_000_000 + len(self.runs)}
        return RunOutcome(answer, job) if isinstance(answer, dict) else RunOutcome(None, job, answer)

    def end(self, planned):
        self.ended.append(planned.plan.digest.partition("#")[0])


@pytest.fixture(name="metrics")
def _metrics():
    return metrics


@pytest.fixture
def executor() -> FakeExecutor:
    return FakeExecutor()


@pytest.fixture
def record():
    def make(**changes) -> Record:
        """A measured run; ``seconds`` are those of a steady epoch."""
        seconds = changes.pop("seconds", 2.0)
        values = {name: value for name, value in metrics(seconds).items() if name in _TRAINING}
        fields = {
            "date": "2026-11-21T12:00:00+00:00", "suite": "example", "suite_digest": "a" * 64, "group": "pytorch",
            "variant": "stock", "round": 1, "position": 1, "outcome": "measured", "workload": "mnist_cnn",
            "entry": "pytorch-2.13-cpu", "framework": "pytorch", "version": "2.13.0", "origin": "pip", "plan": "p",
            "target": {"name": "testbed", "scheduler": "slurm", "hostname": "node01", "processor": "A processor",
                       "architecture": "zen2"},
            "training": {**values, "dataset": "MNIST"},
        }  # fmt: skip
        if changes.get("outcome", "measured") in ("failed", "refused") or "measures" in changes:
            fields["training"] = None
        return Record.model_validate({**fields, **changes})

    return make


_TRAINING = (
    "parameters", "training_images", "test_images", "batch_size", "seed", "learning_rate", "dropout", "epochs",
    "first_losses", "gradient_error", "seconds", "peak_memory_bytes",
)  # fmt: skip
