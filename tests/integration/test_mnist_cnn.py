"""The MNIST-CNN really trains in each framework, in the environments that the local blueprint makes."""

import json
import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

import jsonschema
import pytest
from cluster import ROOT, thorough

from modak_ansible.catalogue import digits

BENCHMARKS = ROOT / "benchmarks"
FOLDER = BENCHMARKS / "mnist_cnn"
SCHEMA = json.loads((BENCHMARKS / "metrics.schema.json").read_text())


@dataclass(frozen=True)
class Framework:
    """A framework, the interpreter that can import it, and the script that trains with it."""

    name: str
    interpreter: str
    script: str


@pytest.fixture
def pytorch(pytorch_python: str) -> Framework:
    return Framework("PyTorch", pytorch_python, "pytorch.py")


@pytest.fixture
def tensorflow(tensorflow_python: str) -> Framework:
    return Framework("TensorFlow", tensorflow_python, "tensorflow_keras.py")


@pytest.fixture(params=["pytorch", "tensorflow"])
def framework(request: pytest.FixtureRequest) -> Framework:
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("digits")
    digits.write(folder)
    (folder / "dataset.json").write_text(json.dumps({"name": "digits", "label": digits.NAME}))
    return folder


def command(framework: Framework, *arguments: object) -> list[str]:
    return [framework.interpreter, framework.script, *map(str, arguments)]


def environment() -> dict[str, str]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith("MODAK_")}
    # Passive waiting: a busy neighbour, such as another test, must not stop the training.
    return ours | {"PYTHONDONTWRITEBYTECODE": "1", "OMP_WAIT_POLICY": "PASSIVE"}


def run(framework: Framework, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(framework, *arguments),
        check=False,
        cwd=FOLDER,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=900,
    )


def train(framework: Framework, folder: Path, metrics: Path, *arguments: object) -> dict:
    done = run(framework, "--data", folder, "--metrics", metrics, *arguments)
    assert done.returncode == 0, done.stderr
    measured = json.loads(metrics.read_text())
    jsonschema.validate(measured, SCHEMA)
    assert measured["finished"] is True
    return measured


def best_accuracy(metrics: dict) -> float:
    return max(epoch["test_accuracy"] for epoch in metrics["epochs"])


def test_drawn_digits_are_learnt(framework: Framework, drawn: Path, tmp_path: Path) -> None:
    metrics = train(framework, drawn, tmp_path / "metrics.json", "--epochs", 2)
    assert metrics["parameters"] == 1_199_882
    assert metrics["framework"]["name"] == framework.name
    assert (metrics["training_images"], metrics["test_images"]) == (6000, 1000)
    assert metrics["dataset"]["label"] == "digits (drawn, not MNIST)"
    assert len(metrics["epochs"]) == 2
    assert best_accuracy(metrics) > 0.95


@pytest.mark.parametrize("name", ["tensorflow", *thorough("pytorch")])  # which every run trains in a job
def test_mnist_is_learnt(request: pytest.FixtureRequest, mnist: Path, tmp_path: Path, name: str) -> None:
    metrics = train(request.getfixturevalue(name), mnist, tmp_path / "metrics.json", "--epochs", 6)
    assert best_accuracy(metrics) > 0.97


@pytest.mark.parametrize(("learning_rate", "steps", "tolerance"), [(0.1, 5, 1e-5), (1.0, 3, 1e-4)])
def test_both_frameworks_begin_alike(
    pytorch: Framework,
    tensorflow: Framework,
    drawn: Path,
    tmp_path: Path,
    learning_rate: float,
    steps: int,
    tolerance: float,
) -> None:
    """The first losses agree: it is one network, one start, one order, one optimiser.

    At the learning rate 1.0 the fourth and fifth steps multiply float32's rounding up to a thousandfold (in float64 both
    frameworks agree to nine digits there too), so all five are compared at a smaller one.
    """
    arguments = ("--epochs", 1, "--limit", 640, "--dropout", 0, "--learning-rate", learning_rate)
    ours = train(pytorch, drawn, tmp_path / "pytorch.json", *arguments)["first_losses"]
    theirs = train(tensorflow, drawn, tmp_path / "tensorflow.json", *arguments)["first_losses"]
    assert len(ours) == len(theirs) == 5
    assert ours[:steps] == pytest.approx(theirs[:steps], rel=tolerance)


def test_threads_are_those_of_the_environment(
    framework: Framework, drawn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    metrics = train(framework, drawn, tmp_path / "metrics.json", "--epochs", 1, "--limit", 128)
    assert metrics["threads"] == 1


def test_sigterm_leaves_the_epochs_that_ended(framework: Framework, drawn: Path, tmp_path: Path) -> None:
    path = tmp_path / "metrics.json"
    arguments = ("--data", drawn, "--metrics", path, "--epochs", 500, "--limit", 1000)
    with subprocess.Popen(
        command(framework, *arguments), cwd=FOLDER, env=environment(), stdout=subprocess.PIPE, text=True
    ) as training:
        assert training.stdout
        while "epoch 2/500" not in training.stdout.readline():
            assert training.poll() is None
        training.send_signal(signal.SIGTERM)
        training.communicate(timeout=60)
    assert training.returncode == 143
    metrics = json.loads(path.read_text())
    jsonschema.validate(metrics, SCHEMA)
    assert metrics["finished"] is False
    assert 1 <= len(metrics["epochs"]) < 500
    assert list(tmp_path.iterdir()) == [path]


def test_errors_are_one_line(framework: Framework, drawn: Path, tmp_path: Path) -> None:
    truncated = tmp_path / "truncated"
    truncated.mkdir()
    for file in drawn.iterdir():
        (truncated / file.name).write_bytes(file.read_bytes()[:-1000] if "images" in file.name else file.read_bytes())
    for folder, message in (
        (tmp_path / "nowhere", "no such folder"),
        (tmp_path, "no data set in IDX form"),
        (truncated, "truncated"),
    ):
        done = run(framework, "--data", folder, "--metrics", tmp_path / "metrics.json")
        assert done.returncode == 2
        assert "Traceback" not in done.stderr
        errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
        assert len(errors) == 1
        assert message in errors[0]
        assert done.stdout == ""
    assert not (tmp_path / "metrics.json").exists()


STEPS = ("--epochs", 1, "--images", 640, "--dropout", 0, "--learning-rate", 0.1, "--check-gradients")


@pytest.fixture(scope="module")
def plain(pytorch_python: str, drawn: Path, tmp_path_factory: pytest.TempPathFactory) -> dict:
    """What a training without switches measures, which each of the switches is compared with."""
    framework = Framework("PyTorch", pytorch_python, "pytorch.py")
    return train(framework, drawn, tmp_path_factory.mktemp("plain") / "metrics.json", *STEPS)


@pytest.mark.parametrize(
    "switches",
    [("--memory-format", "channels_last"), ("--input", "loader"), ("--compiler", "none", "--matmul", "default")],
)
def test_switches_that_keep_the_numerics(
    pytorch: Framework, drawn: Path, tmp_path: Path, plain: dict, switches: tuple[str, ...]
) -> None:
    switched = train(pytorch, drawn, tmp_path / "switched.json", *STEPS, *switches)
    assert switched["first_losses"] == pytest.approx(plain["first_losses"], rel=1e-5)
    assert switched["switches"][switches[0][2:].replace("-", "_")] == switches[1]
    # some processors round so that a maximum falls on another pixel than in double precision
    assert 0 < plain["gradient_error"] < 1e-3
    assert 0 < switched["gradient_error"] < max(1e-5, 2 * plain["gradient_error"])
