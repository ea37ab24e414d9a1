"""The numbers of a script's own metrics.json, whatever it calls them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.target.jobs.numbers import number, numbers_of, shown_numbers


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        ({"r2": 0.8, "rmse": 3}, {"r2": 0.8, "rmse": 3}),
        ({"fit_seconds": 2.5, "r2": 0.8}, {"r2": 0.8, "fit_seconds": 2.5}),  # what says how well comes first
        ({"test": {"perplexity": 12.5, "note": "good"}}, {"test.perplexity": 12.5}),
        ({"loss": [3.0, 2.0, 1.0], "history": [{"auc": 0.5}, {"auc": 0.75}]}, {"loss": 1.0, "history.auc": 0.75}),
        ({"done": True, "nothing": None, "bad": float("nan"), "large": 10**400, "list": []}, {}),
        ([{"loss": 2.0}, {"loss": 1.0}], {"loss": 1.0}),
        (12, {}),
    ],
)
def test_every_number_has_its_name(metrics, expected):
    found = numbers_of(metrics)
    assert found == expected
    assert list(found) == list(expected)


def test_an_integer_that_no_float_holds_is_none():
    assert number(10**400) is None


def test_a_name_cannot_move_the_cursor():
    assert numbers_of({"\x1b[2J": 1, "a" * 100: 2, "ok": 3}) == {"ok": 3}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


@given(JSON)
def test_whatever_is_there_gives_numbers_that_can_be_shown(metrics):
    found = numbers_of(metrics)
    json.dumps(found, allow_nan=False)
    assert len(shown_numbers(found, 3)) == min(3, len(found))


def test_numbers_are_shown_for_people():
    numbers = {"accuracy": 0.97222, "perplexity": 12.3456, "trees": 100, "r2": -0.25}
    assert shown_numbers(numbers, 9) == ["accuracy 97.22%", "perplexity 12.35", "trees 100", "r2 -0.25"]
