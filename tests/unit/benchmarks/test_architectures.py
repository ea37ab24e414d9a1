"""Today's architectures: what they learn, and that only what learns passes."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from modak_ansible.measuring.suites.reader import find_suite, read_suite
from modak_ansible.model.measured.workload import Workload

FOLDER = Path(__file__).parents[3] / "benchmarks" / "architectures"
spec = importlib.util.spec_from_file_location("architectures_tasks", FOLDER / "tasks.py")
tasks = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tasks)


@pytest.fixture
def texts(tmp_path):
    random = np.random.RandomState(0)
    for name, letters in (("a", "abcdef"), ("b", "fghijk"), ("c", "klmnop")):
        (tmp_path / name).write_text("".join(random.choice(list(letters), 9000)))
    (tmp_path / "short").write_text("too short to be learnt")
    return tmp_path


def test_the_next_character_is_the_label_and_no_tested_text_is_trained_on(texts):
    task = tasks.next_characters(32, 200, 1, texts)
    assert task.samples.shape == task.labels.shape == (200, 32)
    assert (task.samples[:, 1:] == task.labels[:, :-1]).all()
    trained = {row.tobytes() for row in np.lib.stride_tricks.sliding_window_view(task.samples, 12, 1).reshape(-1, 12)}
    tested = np.lib.stride_tricks.sliding_window_view(task.test_samples, 12, 1).reshape(-1, 12)
    assert not any(row.tobytes() in trained for row in tested)
    assert task.ignorant_loss == pytest.approx(np.log(task.classes), rel=0.2)


def test_the_label_is_what_was_done_to_a_text(texts):
    plain, task = tasks.next_characters(16, 90, 1, texts), tasks.disorder(16, 90, 1, texts)
    for before, after, label in zip(plain.samples, task.samples, task.labels, strict=True):
        assert sorted(before) == sorted(after)
        assert label or (before == after).all()
        assert label != 3 or (before[::-1] == after).all()
    assert set(task.labels) == set(range(4))
    assert task.ignorant_loss == pytest.approx(np.log(4), rel=0.1)


@pytest.mark.parametrize(
    "make", [lambda seed: tasks.shapes(16, 40, seed), lambda seed: tasks.table(8, 40, seed)], ids=["shapes", "table"]
)
def test_what_is_drawn_is_the_same_for_a_seed_and_another_for_another(make):
    one, same, other = make(3), make(3), make(4)
    assert (one.samples == same.samples).all()
    assert (one.labels == same.labels).all()
    assert not (one.samples == other.samples).all()
    assert len(set(one.labels)) == one.classes


def test_a_graph_s_links_go_both_ways_and_no_node_is_trained_on_and_tested():
    task, features, links = tasks.communities(200, 8, 1)
    pairs = set(map(tuple, links.T))
    assert {(b, a) for a, b in pairs} == pairs
    assert features.shape == (200, 8)
    assert sorted([*task.samples, *task.test_samples]) == list(range(200))


def test_a_folder_without_texts_is_told(tmp_path):
    with pytest.raises(tasks.DataError, match=r"two texts of at least 4 KB, and has 0"):
        tasks.texts(tmp_path)


def test_the_suite_s_scripts_have_the_switches_that_it_names():
    suite = read_suite(find_suite("architectures"))
    workload = Workload.model_validate(yaml.safe_load((FOLDER / "workload.yaml").read_text()))
    assert {group.workload for group in suite.groups} == {workload.name}
    table = (FOLDER / "README.md").read_text()
    assert all(f"| `{group.name}` |" in table for group in suite.groups)


@pytest.mark.component
def test_trees_learn_and_say_how_well(tmp_path):
    metrics = tmp_path / "metrics.json"
    # of several threads each waits for the slowest in a circle, for a minute where another worker has a core
    sizes = ["--images", "500", "--epochs", "2", "--threads", "1"]
    command = [sys.executable, str(FOLDER / "boosted_trees.py"), *sizes, "--metrics", str(metrics)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    epochs = json.loads(metrics.read_text())["epochs"]
    assert epochs[1]["test_loss"] < epochs[0]["test_loss"] < np.log(3)
