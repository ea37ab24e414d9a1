"""Forecasts are kept for the run that they were made of, and told beside what became of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.store.forecasts import BEFORE, WAITING, accuracy_of, noted, told_of, words_of_start

JOB = {"job_id": "7", "state": "RUNNING", "started": 10_000.0}


def record_of(error, said=9_000.0, job=JOB, target="cluster"):
    forecast = {"said": said, "starts": job["started"] - error}
    return {"job": job, "forecasts": noted({}, job, BEFORE, forecast, target)}


@pytest.mark.parametrize(
    ("error", "words"),
    [(0, "within a minute of it"), (-59, "within a minute of it"), (420, "7 min later"), (-7_200, "2 h earlier"),
     (89_000, "24 h 43 min later")],
)  # fmt: skip
def test_how_wrong_a_forecast_was(error, words):
    (told,) = told_of(record_of(error))
    assert told.error == error
    assert told.words.endswith(words)
    assert accuracy_of([told], "cluster") == f"the last forecast on cluster: {words}"
    assert accuracy_of([told], "another") == ""


def test_half_of_the_last_ten():
    told = [each for error in range(20) for each in told_of(record_of(600.0 * error, said=9_000.0 - error))]
    words = accuracy_of(told, "cluster")  # the last ones are those with the least errors, 0 to 90 min
    assert words == "of the last 10 forecasts on cluster, half were within 45 min; the worst: 1 h 30 min later"


def test_the_first_of_each_kind_counts_for_each_run():
    record = record_of(60)
    for when, starts in ((BEFORE, 1.0), (WAITING, 2.0), (WAITING, 3.0)):
        record["forecasts"] = noted(record, JOB, when, {"said": 0.0, "starts": starts}, "cluster")
    assert [(each.when, each.starts) for each in told_of(record)] == [(BEFORE, 9_940.0), (WAITING, 2.0)]
    for other in ({**JOB, "run": 2}, {**JOB, "attempt": 2}, {**JOB, "job_id": "8"}, None, 5):
        assert told_of({**record, "job": other}) == []
    # one that was made after the run began was of the next one, which has no number yet
    assert told_of({**record, "job": {**JOB, "started": -100.0}}) == []


def test_one_that_waits_has_no_error():
    waits = {"job_id": "7", "state": "QUEUED", "started": None}
    (told,) = told_of({"job": waits, "forecasts": record_of(0)["forecasts"]})
    assert told.error is None
    assert "began" not in told.words
    assert accuracy_of([told], "cluster") == ""


@given(st.recursive(st.none() | st.text(max_size=3) | st.floats(), lambda each: st.lists(each) | st.dictionaries(
    st.sampled_from(["target", "when", "said", "starts", "run"]), each)))  # fmt: skip
def test_a_damaged_record_tells_nothing(value):
    assert told_of({"job": JOB, "forecasts": value}) == []


def test_when_something_may_begin():
    assert words_of_start({"said": 0.0, "starts": 30.0}).endswith(", at once")
    assert words_of_start({"said": 0.0, "starts": 5400.0}).endswith(", in 1 h 30 min")
    assert words_of_start({"said": 0.0, "starts": 2.0 * 86400}).startswith("at 1970-01-0")
