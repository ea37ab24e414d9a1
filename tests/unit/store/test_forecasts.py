"""Forecasts are kept for the run that they were made of, and told beside what became of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.store.forecasts import (
    BEFORE,
    WAITING,
    accuracy_of,
    directives_of,
    forecasts_of,
    machine_of,
    noted,
    words_of_start,
)
from modak_ansible.store.record import RecordData
from modak_ansible.store.shapes import fitted

JOB = {"job_id": "7", "state": "RUNNING", "started": 10_000.0}


PLAN = {"target": {"name": "cluster", "address": "login.example"}, "job": {"scheduler": "slurm"}}
HERE = machine_of(PLAN)


def record_of(error, said=9_000.0, job=JOB, plan=PLAN):
    forecast = {"said": said, "starts": job["started"] - error}
    return {"job": job, "forecasts": noted({}, job, BEFORE, forecast, plan)}


@pytest.mark.parametrize(
    ("error", "words"),
    [(420, "7 min later"), (-7_200, "2 h earlier"), (89_000, "24 h 43 min later")],
)
def test_how_wrong_a_forecast_was(error, words):
    (told,) = forecasts_of(record_of(error))
    assert told.error == error
    assert told.words.endswith(words)
    assert accuracy_of([told], HERE, "cluster") == f"the last forecast on cluster: {words}"
    assert accuracy_of([told], "another", "cluster") == ""


@pytest.mark.parametrize("error", [0, -59])
def test_one_that_was_right_is_no_news(error):
    (told,) = forecasts_of(record_of(error))
    assert told.words.endswith(", began then")
    assert not told.is_news
    assert accuracy_of([told] * 5, HERE, "cluster") == ""


def test_what_is_told_is_told_of_a_machine_be_it_called_what_it_will():
    def named(**target):
        return {**PLAN, "target": {**PLAN["target"], **target}}

    plans = [PLAN, named(name="centre", username="alice"), named(address="other.example"), named(port=2222),
             named(local=True), {**PLAN, "job": {"scheduler": "torque"}}]  # fmt: skip
    told = [each for plan in plans for each in forecasts_of(record_of(600, plan=plan))]
    assert [each.machine == HERE for each in told] == [True, True, False, False, False, False]
    assert accuracy_of(told, HERE, "centre").startswith("of the last 2 forecasts on centre")


def test_half_of_the_last_ten():
    told = [each for error in range(20) for each in forecasts_of(record_of(600.0 * error, said=9_000.0 - error))]
    words = accuracy_of(told, HERE, "cluster")  # the last ones are those with the least errors, 0 to 90 min
    assert words == "of the last 10 forecasts on cluster, half were within 45 min; the worst: 1 h 30 min later"


def test_the_first_of_each_kind_counts_for_each_run():
    record = record_of(60)
    for when, starts in ((BEFORE, 1.0), (WAITING, 2.0), (WAITING, 3.0)):
        record["forecasts"] = noted(record, JOB, when, {"said": 0.0, "starts": starts}, PLAN)
    assert [(each.when, each.starts) for each in forecasts_of(record)] == [(BEFORE, 9_940.0), (WAITING, 2.0)]
    for other in ({**JOB, "run": 2}, {**JOB, "attempt": 2}, {**JOB, "job_id": "8"}, None, 5):
        assert forecasts_of(fitted({**record, "job": other}, RecordData, [])) == []
    # one that was made after the run began was of the next one, which has no number yet
    assert forecasts_of({**record, "job": {**JOB, "started": -100.0}}) == []


def test_one_that_waits_has_no_error():
    waits = {"job_id": "7", "state": "QUEUED", "started": None}
    (told,) = forecasts_of({"job": waits, "forecasts": record_of(0)["forecasts"]})
    assert told.error is None
    assert "began" not in told.words
    assert accuracy_of([told], HERE, "cluster") == ""


@given(st.recursive(st.none() | st.text(max_size=3) | st.floats(), lambda each: st.lists(each) | st.dictionaries(
    st.sampled_from(["machine", "when", "said", "starts", "run"]), each)))  # fmt: skip
def test_a_damaged_record_tells_nothing(value):
    assert forecasts_of(fitted({"job": JOB, "forecasts": value}, RecordData, [])) == []


def test_when_something_may_begin():
    assert words_of_start({"said": 0.0, "starts": 30.0}).endswith(", at once")
    assert words_of_start({"said": 0.0, "starts": 5400.0}).endswith(", in 1 h 30 min")
    assert words_of_start({"said": 0.0, "starts": 2.0 * 86400}).startswith("at 1970-01-0")


def test_what_a_scheduler_is_asked_about():
    assert directives_of("#!/bin/sh\n#SBATCH -n 1\n#PBS -l x\n# SBATCH\ntrue\n") == "#SBATCH -n 1\n#PBS -l x"
