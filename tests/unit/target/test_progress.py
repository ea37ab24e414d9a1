"""How far a training is, by whatever it has written."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from modak_ansible.target.jobs import progress
from modak_ansible.target.jobs.progress import progress_of


def epochs(*losses):
    return [{"epoch": i + 1, "training_loss": loss, "test_accuracy": 0.9} for i, loss in enumerate(losses)]


def of(folder, own=None, metrics=None):
    for name, value in (("progress.json", own), ("metrics.json", metrics)):
        if value is not None:
            (folder / name).write_text(json.dumps(value))
    return progress_of(folder)


def test_nothing_is_known_of_a_training_that_says_nothing(tmp_path):
    assert of(tmp_path) == {}


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        ({"epochs": [], "epochs_requested": 3}, {"epoch": 1, "epochs": 3}),
        ({"epochs": epochs(2.0), "epochs_requested": 3}, {"epoch": 2, "epochs": 3, "loss": 2.0, "accuracy": 0.9}),
        ({"epochs": epochs(2.0, 1.0), "epochs_requested": 2}, {"epoch": 2, "epochs": 2, "loss": 1.0, "accuracy": 0.9}),
        ({"epochs": epochs(2.0), "epochs_requested": 3, "now": {"epoch": 2, "share": 0.5, "loss": 1.5}},
         {"epoch": 2, "epochs": 3, "loss": 1.5, "accuracy": 0.9}),
        ({"epochs": 12, "loss": 1}, {"numbers": {"loss": 1, "epochs": 12}}),  # a script's own form
    ],
)  # fmt: skip
def test_a_training_that_measures_itself(tmp_path, metrics, expected):
    assert of(tmp_path, metrics=metrics) == expected


def test_both_together(tmp_path):
    own = {"schema": "modak.progress/1", "step": 99, "epoch": 1, "epochs": None, "loss": None}
    assert of(tmp_path, own, {"epochs": epochs(0.5), "epochs_requested": 4}) == {
        "step": 99, "epoch": 2, "epochs": 4, "loss": 0.5, "accuracy": 0.9,
    }  # fmt: skip


def test_what_is_no_number_is_not_handed_on(tmp_path):
    (tmp_path / "progress.json").write_text('{"step": true, "epoch": "3", "loss": NaN}')
    assert progress_of(tmp_path) == {}


def test_a_huge_file_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(progress, "_LARGEST", 10)
    assert of(tmp_path, {"step": 12345678}) == {}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.sampled_from(["epochs", "now", "epochs_requested", "step", "loss", "epoch"]), JSON), JSON)
def test_whatever_a_script_writes_gives_numbers(tmp_path, metrics, own):
    found = of(tmp_path, own, metrics)
    assert set(found) <= {"step", "epoch", "epochs", "loss", "accuracy", "numbers"}
    json.dumps(found, allow_nan=False)
