"""What trainers of libraries tell: their numbers, and when their training is to save and to end."""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
import time
import types

import pytest

from modak_ansible.runtime import FILES
from modak_ansible.target.jobs.numbers import numbers_of

sys.path.insert(0, str(FILES))

from modak_runtime.report import Report
from modak_runtime.trainers import common, transformers_trainer
from modak_runtime.trainers.common import Ending, Numbers

sys.path.remove(str(FILES))


@pytest.fixture
def numbers(tmp_path, monkeypatch):
    monkeypatch.setenv("MODAK_METRICS", str(tmp_path / "metrics.json"))
    return Numbers(Report(str(tmp_path / "applied.json"), {}), "lightning")


def test_the_newest_of_each_number_is_kept(numbers, tmp_path):
    numbers.take({"loss": 2.0, "note": "text", "bad": float("nan"), "none": None})
    numbers.take({"loss": 1.5, "eval_f1": "0.5"})
    numbers.write()
    assert numbers_of(json.loads((tmp_path / "metrics.json").read_text())) == {"loss": 1.5, "eval_f1": 0.5}


@pytest.mark.parametrize("text", ['{"r2": 1}', "[1]", "no json"])
def test_a_file_of_the_script_s_own_stays(numbers, tmp_path, text):
    (tmp_path / "metrics.json").write_text(text)
    numbers.take({"loss": 2.0})
    numbers.write()
    assert (tmp_path / "metrics.json").read_text() == text


def test_without_a_number_nothing_is_written(numbers, tmp_path):
    numbers.take({"note": "text"})
    numbers.write()
    assert not (tmp_path / "metrics.json").exists()


@pytest.fixture
def job(tmp_path, monkeypatch):
    """A job with checkpoints, whose signals come back to what they were."""
    for name, value in (("MODAK_CHECKPOINTS", "ck"), ("MODAK_STOP", "stop")):
        monkeypatch.setenv(name, str(tmp_path / value))
    monkeypatch.setenv("MODAK_CHECKPOINT_EVERY", "600")
    monkeypatch.delitem(sys.modules, "modak_checkpoint.beginning", raising=False)
    before = signal.getsignal(signal.SIGTERM)
    yield tmp_path
    signal.signal(signal.SIGTERM, before)


def test_outside_of_a_job_nothing_is_saved(monkeypatch):
    monkeypatch.delenv("MODAK_CHECKPOINTS", raising=False)
    ending = Ending()
    ending.begins()
    assert not (ending.folder or ending.is_due() or ending.is_asked())


def test_a_file_asks_for_the_end_and_is_not_forgotten(job):
    ending = Ending()
    assert not ending.is_asked()
    (job / "stop").touch()
    ending._next_look = 0.0
    assert ending.is_asked()
    (job / "stop").unlink()
    assert ending.is_asked()
    with pytest.raises(SystemExit) as left:
        ending.leave()
    assert left.value.code == 85


def test_a_signal_waits_for_the_end_of_the_step(job):
    ending = Ending()
    ending.begins()
    os.kill(os.getpid(), signal.SIGTERM)
    assert ending.is_asked()
    with pytest.raises(SystemExit) as left:
        ending.leave()
    assert left.value.code == 128 + signal.SIGTERM


def test_it_is_time_again_after_a_while(job, monkeypatch):
    monkeypatch.setenv("MODAK_CHECKPOINT_EVERY", "0")
    ending = Ending()
    assert ending.is_due()
    monkeypatch.setenv("MODAK_CHECKPOINT_EVERY", "junk")
    assert not Ending().is_due()


@pytest.mark.parametrize(("name", "value"), [("WORLD_SIZE", "2"), ("OMPI_COMM_WORLD_SIZE", "4")])
def test_one_of_several_processes_saves_nothing(job, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    assert Ending().folder == ""


def test_a_script_that_keeps_its_own_checkpoints_is_left_to_it(job, monkeypatch):
    ending = Ending()
    monkeypatch.setitem(sys.modules, "modak_checkpoint.beginning", object())
    ending.begins()
    assert ending.folder == ""


def test_the_trainer_s_last_checkpoint_is_found_again_while_it_is_there(tmp_path):
    saved = tmp_path / "out" / "checkpoint-7"
    saved.mkdir(parents=True)
    transformers_trainer._note(str(tmp_path / "ck"), str(saved))
    assert transformers_trainer._last(str(tmp_path / "ck")) == ""
    (saved / "trainer_state.json").write_text("{}")
    assert transformers_trainer._last(str(tmp_path / "ck")) == str(saved)
    assert transformers_trainer._last(str(tmp_path / "none")) == ""


def test_each_training_of_a_script_has_checkpoints_of_its_own(job, monkeypatch):
    monkeypatch.setattr(common, "_TRAININGS", itertools.count(1))
    folders = []
    for _ in range(3):
        ending = Ending()
        ending.begins()
        folders.append(ending.folder)
    assert folders == [str(job / "ck"), str(job / "ck/training-2"), str(job / "ck/training-3")]
    ending.begins()  # of the same trainer
    assert ending.folder == str(job / "ck/training-4")


@pytest.mark.component
def test_a_forked_child_ends_at_a_signal_that_its_parent_waits_with(job):
    Ending().begins()
    ours, childs = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(childs, b"1")  # a signal before Python is ready in it is lost
        time.sleep(60)
        os._exit(0)
    os.read(ours, 1)
    os.kill(child, signal.SIGTERM)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGTERM


def test_of_checkpoints_that_only_the_job_asked_for_two_stay(job, tmp_path):
    made = transformers_trainer._callback(object)(None, types.SimpleNamespace(progress=types.SimpleNamespace()))
    arguments = types.SimpleNamespace(output_dir=str(tmp_path / "out"), max_steps=0)
    for step in range(1, 8):
        (tmp_path / f"out/checkpoint-{step}").mkdir(parents=True)
        state = types.SimpleNamespace(
            global_step=step, max_steps=9, epoch=0.1, num_train_epochs=1,
            best_model_checkpoint=str(tmp_path / "out/checkpoint-2"),
        )  # fmt: skip
        control = types.SimpleNamespace(should_save=step == 3)  # the script's own
        made.ending.is_due = lambda: True
        made.on_step_end(arguments, state, control)
        assert control.should_save
        made.on_save(arguments, state, control)
    kept = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert kept == ["checkpoint-2", "checkpoint-3", "checkpoint-6", "checkpoint-7"]
