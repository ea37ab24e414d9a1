"""metrics.json: whole at any time, and of the published format."""

import json
import signal
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

import common
import jsonschema
import machine
import numpy as np
import pytest
import recorder

SCHEMA = json.loads((Path(__file__).parents[3] / "benchmarks/metrics.schema.json").read_text())
DATA = common.Data(
    train_images=np.zeros((200, 28, 28), np.float32),
    train_labels=np.zeros(200, np.int64),
    test_images=np.zeros((20, 28, 28), np.float32),
    test_labels=np.zeros(20, np.int64),
    dataset={"name": "digits", "label": "digits (drawn, not MNIST)"},
)


@pytest.fixture(autouse=True)
def _own_signal_handler() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)
    recorder._signals.clear()


@pytest.fixture
def training(tmp_path: Path) -> recorder.Recorder:
    arguments = Namespace(
        threads=2, batch_size=128, seed=1, learning_rate=1.0, dropout=1.0, epochs=2, metrics=tmp_path / "metrics.json",
        switches={"compiler": "none"},
    )  # fmt: skip
    return recorder.Recorder(common.WORKLOAD, arguments, "PyTorch", [("torch", "2.13.0")])


def read(training: recorder.Recorder) -> dict:
    metrics = json.loads(training.arguments.metrics.read_text())
    jsonschema.validate(metrics, SCHEMA)
    return metrics


def train_epoch(training: recorder.Recorder, losses: tuple[float, float]) -> None:
    training.epoch_begins()
    training.step_ends(losses[0], 128)
    training.step_ends(losses[1], 72)
    training.evaluation_begins()
    training.epoch_ends(test_loss=0.5, test_accuracy=0.875)


def test_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_before_the_first_epoch(training: recorder.Recorder) -> None:
    common.begin(training, DATA, common.PARAMETERS)
    metrics = read(training)
    assert metrics["finished"] is False
    assert metrics["epochs"] == []
    assert metrics["parameters"] == 1199882
    assert metrics["dataset"] == DATA.dataset
    assert metrics["framework"] == {"name": "PyTorch", "version": "2.13.0"}
    assert metrics["versions"]["torch"] == "2.13.0"
    assert (metrics["training_images"], metrics["test_images"]) == (200, 20)
    assert metrics["peak_memory_bytes"] > 10e6


def test_epochs(training: recorder.Recorder) -> None:
    common.begin(training, DATA, common.PARAMETERS)
    train_epoch(training, (2.0, 1.0))
    assert read(training)["finished"] is False
    train_epoch(training, (0.5, 0.5))
    metrics = read(training)
    assert metrics["finished"] is True
    assert metrics["first_losses"] == [2.0, 1.0, 0.5, 0.5]
    first, second = metrics["epochs"]
    assert (first["epoch"], second["epoch"]) == (1, 2)
    assert first["training_loss"] == pytest.approx((2.0 * 128 + 1.0 * 72) / 200)
    assert first["images_per_second"] == pytest.approx(200 / first["seconds"])
    assert (first["test_loss"], first["test_accuracy"]) == (0.5, 0.875)


def test_five_first_losses_are_kept(training: recorder.Recorder) -> None:
    common.begin(training, DATA, common.PARAMETERS)
    for first, second in ((6.0, 5.0), (4.0, 3.0), (2.0, 1.0)):
        train_epoch(training, (first, second))
    assert read(training)["first_losses"] == [6.0, 5.0, 4.0, 3.0, 2.0]


def test_seconds(training: recorder.Recorder) -> None:
    with training.timed("load_data"):
        pass
    common.begin(training, DATA, common.PARAMETERS)
    train_epoch(training, (2.0, 1.0))
    seconds = read(training)["seconds"]
    assert 0 < seconds["import"] < seconds["to_first_step"] < seconds["total"]
    assert seconds["load_data"] > 0
    assert seconds["first_step"] > 0
    assert seconds["compile"] == 0


def test_the_process_started_before_this_test_and_not_long_ago() -> None:
    assert 0 < recorder._elapsed() < 24 * 3600


def test_without_proc_the_script_counts_as_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_proc(*_: object) -> list[str]:
        raise FileNotFoundError

    monkeypatch.setattr(machine, "_stat_fields", no_proc)
    now = machine.clock()
    assert now <= machine.process_started() < now + 1


def test_progress(training: recorder.Recorder, capsys: pytest.CaptureFixture[str]) -> None:
    common.begin(training, DATA, common.PARAMETERS)
    train_epoch(training, (2.0, 1.0))
    heading, data, epoch = capsys.readouterr().out.splitlines()
    assert heading.startswith("MNIST-CNN of 1199882 parameters, PyTorch 2.13.0, threads: 2, processor: ")
    assert data == "data: digits (drawn, not MNIST), 200 images to train on, 20 to test on"
    assert epoch.startswith("epoch 1/2  loss 1.6400  accuracy 87.5 %  ")
    assert epoch.endswith(" images/s")


def test_long_epochs_show_progress(
    training: recorder.Recorder, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    common.begin(training, DATA, common.PARAMETERS)
    capsys.readouterr()
    monkeypatch.setattr(recorder, "PROGRESS_INTERVAL", 0)
    train_epoch(training, (2.0, 1.0))
    within, _ = capsys.readouterr().out.splitlines()
    assert within.startswith("epoch 1/2  64 %  loss 2.0000  ")


def test_a_long_epoch_can_be_watched_in_the_metrics(
    training: recorder.Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    common.begin(training, DATA, common.PARAMETERS)
    monkeypatch.setattr(recorder, "PROGRESS_INTERVAL", 0)
    training.epoch_begins()
    training.step_ends(2.0, 128)
    assert read(training)["now"] == {"epoch": 1, "share": 0.64, "loss": 2.0}
    written = training.arguments.metrics
    training.arguments.metrics = written.parent / "nowhere" / "metrics.json"
    training.step_ends(2.0, 32)  # cannot be written, and goes on
    training.arguments.metrics = written
    training.step_ends(2.0, 40)
    training.evaluation_begins()
    training.epoch_ends(test_loss=0.5, test_accuracy=0.875)
    assert "now" not in read(training)


def test_another_network_is_refused(training: recorder.Recorder, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        common.begin(training, DATA, 1_200_000)
    assert raised.value.code == 1
    assert "1200000 trainable parameters where the paper's has 1199882" in capsys.readouterr().err
    assert not training.arguments.metrics.exists()


@pytest.mark.parametrize("loss", [float("nan"), float("inf"), 5e27])
def test_a_training_that_diverges_ends(
    training: recorder.Recorder, capsys: pytest.CaptureFixture[str], loss: float
) -> None:
    common.begin(training, DATA, common.PARAMETERS)
    training.epoch_begins()
    with pytest.raises(SystemExit) as raised:
        training.step_ends(loss, 128)
    assert raised.value.code == 1
    assert "diverged" in capsys.readouterr().err
    assert read(training)["finished"] is False


def test_metrics_that_cannot_be_written(
    training: recorder.Recorder, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    training.arguments.metrics = tmp_path / "nowhere" / "metrics.json"
    with pytest.raises(SystemExit) as raised:
        common.begin(training, DATA, common.PARAMETERS)
    assert raised.value.code == 2
    expected = f"error: {tmp_path}/nowhere/metrics.json: the metrics cannot be written: No such file or directory\n"
    assert capsys.readouterr().err == expected


def test_a_write_that_fails_leaves_the_last_whole_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "metrics.json"
    recorder.write_atomically(str(path), "first")

    def interrupted(*_: object) -> None:
        raise SystemExit(143)

    monkeypatch.setattr("os.rename", interrupted)
    with pytest.raises(SystemExit):
        recorder.write_atomically(str(path), "second")
    assert path.read_text() == "first"
    assert list(tmp_path.iterdir()) == [path]


def test_an_accelerator_is_not_waited_for_at_each_step(training: recorder.Recorder) -> None:
    """The first five losses are read at once, the others when the epoch's work is done."""
    waited: list[int] = []
    read_losses: list[float] = []

    class Loss(float):
        def __float__(self) -> float:
            read_losses.append(float.__add__(self, 0))
            return float.__add__(self, 0)

    training.deferred, training.synchronise = True, lambda: waited.append(len(read_losses))
    common.begin(training, DATA, common.PARAMETERS)
    training.epoch_begins()
    for loss in range(8):
        training.step_ends(Loss(loss), 25)
    assert read_losses == [0, 1, 2, 3, 4]
    training.evaluation_begins()
    assert (waited, read_losses[5:]) == ([5], [5, 6, 7])
    training.epoch_ends(test_loss=0.5, test_accuracy=0.875)
    assert read(training)["epochs"][0]["training_loss"] == pytest.approx(3.5)


def test_what_else_was_measured(training: recorder.Recorder) -> None:
    training.gradients_checked(1.5e-6)
    common.begin(training, DATA, common.PARAMETERS)
    train_epoch(training, (2.0, 1.0))
    metrics = read(training)
    assert metrics["gradient_error"] == 1.5e-6
    assert metrics["switches"] == {"compiler": "none"}
    assert metrics["load_average"] >= 0
    assert metrics["epochs"][0]["foreign_cores"] >= 0


def test_sigterm_ends_a_training_whose_framework_swallows_it(
    training: recorder.Recorder, capfd: pytest.CaptureFixture[str]
) -> None:
    common.begin(training, DATA, common.PARAMETERS)
    training.epoch_begins()
    with pytest.raises(SystemExit):
        signal.raise_signal(signal.SIGTERM)
    with pytest.raises(SystemExit) as raised:
        training.step_ends(2.0, 128)
    assert raised.value.code == 143
    assert capfd.readouterr().err == "stopped by SIGTERM; the metrics hold the epochs that ended\n"


def test_what_was_measured_goes_on_after_an_interruption(training: recorder.Recorder) -> None:
    """Through JSON, as a checkpoint's plain values."""
    common.begin(training, DATA, common.PARAMETERS)
    train_epoch(training, (2.0, 1.0))
    training.epoch_begins()
    training.step_ends(0.5, 128)
    training.running = {"images": 128, "loss_sum": 64.0}
    state = json.loads(json.dumps(training.state_dict()))
    again = recorder.Recorder(common.WORKLOAD, training.arguments, "PyTorch", [("torch", "2.13.0")])
    again.load_state_dict(state)
    common.begin(again, DATA, common.PARAMETERS)
    assert len(read(again)["epochs"]) == 1
    again.epoch_begins()
    assert (again.images_done, again.running) == (128, {"images": 128, "loss_sum": 64.0})
    again.step_ends(0.25, 72)
    again.evaluation_begins()
    again.epoch_ends(test_loss=0.5, test_accuracy=0.875)
    metrics = read(again)
    assert metrics["finished"] is True
    assert metrics["first_losses"] == [2.0, 1.0, 0.5, 0.25]
    assert metrics["epochs"][1]["training_loss"] == (0.5 * 128 + 0.25 * 72) / 200
    assert metrics["epochs"][1]["seconds"] >= state["epoch"]["seconds"]
    assert metrics["seconds"]["total"] > state["seconds"]["total"]


def test_an_epoch_that_has_ended_leaves_nothing_to_the_next(training: recorder.Recorder) -> None:
    common.begin(training, DATA, common.PARAMETERS)
    train_epoch(training, (2.0, 1.0))
    state = training.state_dict()
    assert state["epoch"] == {"seconds": 0.0, "loss_sum": 0.0, "images_done": 0}
