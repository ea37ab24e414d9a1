"""progress.json: how far a training is, while it runs, at next to no cost."""

from __future__ import annotations

import io
import json
import sys
import types

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.runtime import FILES

sys.path.insert(0, str(FILES))

from modak_runtime import hooks
from modak_runtime.pytorch import loader_imported
from modak_runtime.report import Report
from modak_runtime.steps import Steps
from modak_runtime.trainers import keras_epochs

sys.path.remove(str(FILES))


class Clock:
    def __init__(self, monkeypatch):
        self.now = 1000.0
        monkeypatch.setattr("time.perf_counter", lambda: self.now)


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


@pytest.fixture
def steps(tmp_path, clock):
    return Steps(Report(str(tmp_path / "applied.json"), {}))


def written(tmp_path):
    return json.loads((tmp_path / "progress.json").read_text())


def test_it_is_written_at_the_first_step_and_every_five_seconds(tmp_path, clock, steps):
    looks = []
    for number in range(1, 121):
        clock.now += 0.25
        if steps.step():
            looks.append(number)
            assert written(tmp_path)["step"] == number
    assert looks == [1, 21, 41, 61, 81, 101]
    assert written(tmp_path) == {"schema": "modak.progress/1", "step": 101, "epoch": None, "epochs": None, "loss": None}
    steps.tell()
    assert written(tmp_path)["step"] == 120
    assert sorted(path.name for path in tmp_path.iterdir()) == ["applied.json", "progress.json"]


def test_a_full_disk_that_has_the_log_too_ends_no_training(tmp_path, clock, steps, monkeypatch):
    """Nothing can be written, and nobody can be told."""

    def no(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", no)
    # as with PYTHONUNBUFFERED, which every job has
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(io.FileIO("/dev/full", "w"), write_through=True))
    clock.now += 10
    assert steps.step()
    steps._report.write(finished=True)


def test_a_slow_file_system_is_written_to_less_often(clock, steps, monkeypatch):
    monkeypatch.setattr("os.replace", lambda *_: setattr(clock, "now", clock.now + 0.5))
    assert steps.progress.write(1) == pytest.approx(500)  # half a second is a thousandth of that


def test_where_it_cannot_be_written_the_training_goes_on(tmp_path, clock, capsys):
    steps = Steps(Report(str(tmp_path / "nowhere" / "applied.json"), {}))
    for _ in range(3):
        clock.now += 6
        steps.step()
    assert capsys.readouterr().err.count("progress.json cannot be written") == 1


def test_a_trial_and_a_process_that_nobody_asks_write_nothing(tmp_path, clock):
    for made in (Steps(Report("", {})), Steps(Report(str(tmp_path / "applied.json"), {}), limit=9)):
        made.step()
        made.tell()
    assert not (tmp_path / "progress.json").exists()


# --- PyTorch: epochs are the loops in which there are steps


class Loader:
    batch_size = 2

    def __init__(self, count):
        self.dataset, self.count = [0] * 2 * count, count

    def __len__(self):
        return self.count

    def __iter__(self):
        return iter(range(self.count))


@pytest.fixture
def loops(steps):
    class DataLoader(Loader):
        pass

    loader_imported(types.SimpleNamespace(DataLoader=DataLoader), None, steps)
    return DataLoader


def test_epochs_are_counted_and_tests_between_them_are_not(loops, steps):
    seen = []
    for _ in range(3):
        for _ in loops(12):  # a loader of its own each time
            steps.step()
        seen.append(steps.progress.loops.epoch(steps.count))
        list(loops(4))
        seen.append(steps.progress.loops.epoch(steps.count))
    assert seen == [1, 1, 2, 2, 3, 3]
    assert (steps.batch_size, steps.samples) == (2, 24)


def test_before_the_first_step_there_is_no_epoch(loops, steps):
    list(loops(4))
    assert steps.progress.loops.epoch(steps.count) is None


def test_batches_that_are_drawn_one_at_a_time_are_no_epochs(loops, steps):
    for _ in range(5):
        next(iter(loops(40)))
        steps.step()
    assert steps.progress.loops.epoch(steps.count) is None


def test_gradients_that_are_accumulated_are_epochs_still(loops, steps):
    for _ in range(2):
        for number in loops(40):
            if number % 4 == 3:
                steps.step()
    assert steps.progress.loops.epoch(steps.count) == 2


@given(st.lists(st.tuples(st.integers(0, 50), st.none() | st.integers(0, 100)), max_size=20))
def test_any_loops_give_an_epoch_or_none(begun):
    steps, count = Steps(Report("", {})), 0
    for made, batches in begun:
        steps.progress.loops.begins(count, batches)
        count += made
    assert 0 < (steps.progress.loops.epoch(count) or 1) <= len(begun) + 1


# --- Keras: as it tells its callbacks


class CallbackList:
    def __init__(self, **params):
        self.params, self.heard = params, []

    def on_epoch_begin(self, epoch, logs=None):
        self.heard.append(("begin", epoch, logs))

    def on_epoch_end(self, epoch, logs=None):
        self.heard.append(("end", epoch, logs))


def test_keras_says_epochs_and_losses(steps):
    class Own(CallbackList):
        pass

    keras_epochs.follow(types.SimpleNamespace(callbacks=types.SimpleNamespace(CallbackList=Own)), steps.progress)
    callbacks = Own(epochs=4)
    callbacks.on_epoch_begin(2)
    assert (steps.progress.epoch, steps.progress.epochs, steps.progress.loss) == (3, 4, None)
    callbacks.on_epoch_end(2, {"loss": "0.5"})
    assert steps.progress.loss == 0.5
    assert callbacks.heard == [("begin", 2, None), ("end", 2, {"loss": "0.5"})]
    callbacks.on_epoch_end(3, logs={})
    assert steps.progress.loss is None


def test_another_keras_is_left_alone(steps):
    keras_epochs.follow(types.SimpleNamespace(), steps.progress)
    assert steps.progress.epoch is None


def test_who_goes_on_from_a_checkpoint_says_which_epoch_it_is(tmp_path, steps, monkeypatch):
    monkeypatch.setattr(hooks, "_state", [(None, steps)])
    hooks.tell(23, 40)
    steps.progress.write(5)
    assert (written(tmp_path)["epoch"], written(tmp_path)["epochs"]) == (23, 40)
