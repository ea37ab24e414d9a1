"""What a job's tuning.json says to people, and which plan it makes of the one that was made."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from modak_ansible.stages.jobs.tuned import as_trained, ratio, read_report, trained_of, tuning_pairs, tuning_rows


def candidate(number, **values):
    return {
        "name": f"c{number}", "title": f"candidate {number}", "values": {"allocator": "system", **values},
        "settings": values, "environment": [["A", str(number)]], "threads": 2, "is_stock": number == 1,
        "work_per_step": 1.0,
    }  # fmt: skip


PLAN = {
    "tuning": {"reduction": 3, "candidates": [candidate(0), candidate(1), candidate(2, allocator="tcmalloc")]},
    "choices": [{"name": "allocator", "value": "system", "stock": "system"}, {"name": "image", "value": "i"}],
    "candidates": [{"settings": {}, "chosen": True}, {"settings": {}, "chosen": False}],
    "job": {"threads": 1, "environment": {}},
}


def trial(name, rung, position, score):
    steps = {"count": 20 * rung, "median_seconds": score, "p10_seconds": score, "p90_seconds": score}
    return {
        "candidate": name, "rung": rung, "position": position, "asked": 20, "seconds": 3.0, "steps": steps,
        "score": score,
    }  # fmt: skip


REPORT = {
    "schema": "modak.tuning/1", "state": "finished", "reason": "one is left", "date": "2026-01-01T00:00:00Z",
    "hostname": "n1", "budget": 300, "spent": 61.0, "best": "c2", "best_rung": 1,
    "candidates": {
        candidate["name"]: {"title": candidate["title"], "settings": candidate["settings"], "outcome": "measured", "reason": ""}
        for candidate in PLAN["tuning"]["candidates"]
    },
    "trials": [trial("c0", 1, 1, 0.2), trial("c1", 1, 2, 0.3), trial("c2", 1, 3, 0.1), trial("c2", 2, 4, 0.11),
               trial("c0", 2, 5, 0.22)],
}  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "tuning.json").write_text(json.dumps(REPORT))
    return tmp_path


def write(folder, **changes):
    (folder / "tuning.json").write_text(json.dumps({**REPORT, **changes}))
    return read_report(folder)


def test_ratios_are_of_one_rung(folder):
    report = read_report(folder)
    assert ratio(report, "c0", "c2") == pytest.approx(2.0)
    assert ratio(report, "c1", "c2") == pytest.approx(3.0)
    assert ratio(report, "c1", "c9") is None


def test_what_a_neighbour_slowed_is_not_compared(folder):
    trials = [trial("c0", 1, 1, 0.2), trial("c1", 1, 2, 0.3), trial("c2", 1, 3, 0.1)]
    trials[0]["steps"]["foreign_cores"], trials[2]["steps"]["foreign_cores"] = 1.5, 0.1
    report = write(folder, trials=trials)
    assert ratio(report, "c0", "c2") is None
    assert ratio(report, "c1", "c2") == pytest.approx(3.0)
    assert "others kept up to 1.5 cores busy during 1 of the trials" in tuning_pairs(report, PLAN)[1][1]


def test_the_fastest_comes_first(folder):
    rows = tuning_rows(read_report(folder), PLAN)
    assert [row.name for row in rows] == ["c2", "c0", "c1"]
    assert (rows[0].outcome, rows[0].over_stock) == ("trains", pytest.approx(3.0))
    assert rows[0].trial.rung == 2


def test_the_summary_says_what_trains_and_why(folder):
    assert tuning_pairs(read_report(folder), PLAN) == [
        ("tuning", "candidate 2 of 3 candidates, 110.00 ms a step, 2.00x the plan's choice, 3.00x stock; "
         "5 trials in 1 min 1 s of 5 min"),
    ]  # fmt: skip


def test_the_summary_says_what_went_wrong(folder):
    lost = {**REPORT["candidates"], "c1": {**REPORT["candidates"]["c1"], "outcome": "out", "reason": "it broke"}}
    found = tuning_pairs(write(folder, state="stopped", reason="signal 15 stopped it", candidates=lost), PLAN)
    assert found[0][1].endswith("; stopped: signal 15 stopped it")
    assert found[1] == ("tuning", "out: candidate 1: it broke")
    nothing = tuning_pairs(write(folder, best="", trials=[], state="failed", reason="the image has no optuna"), PLAN)
    assert nothing[0][1].startswith("no candidate could be measured (the image has no optuna)")


def test_without_tuning_nothing_is_said(tmp_path):
    assert read_report(tmp_path) is None
    assert tuning_pairs(None, PLAN) == []


def test_the_plan_as_it_was_trained(folder):
    trained = as_trained(PLAN, trained_of(read_report(folder), PLAN))
    assert trained["choices"][0]["value"] == "tcmalloc"
    assert trained["choices"][1]["value"] == "i"
    assert trained["candidates"][0]["settings"] == {"allocator": "tcmalloc"}
    assert trained["job"] == {"threads": 2, "environment": {"A": "2"}}


@pytest.mark.parametrize("best", ["c0", "", "c9"])
def test_the_plans_own_choice_leaves_the_plan(folder, best):
    assert as_trained(PLAN, trained_of(write(folder, best=best), PLAN)) == PLAN


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.one_of(
        st.binary(max_size=50),
        st.dictionaries(st.sampled_from(list(REPORT)), st.one_of(st.none(), st.text(max_size=5), st.integers())).map(
            lambda changes: json.dumps({**REPORT, **changes}).encode()
        ),
    )
)
def test_whatever_a_job_leaves_breaks_nothing(folder, content):
    (folder / "tuning.json").write_bytes(content)
    report = read_report(folder)
    tuning_pairs(report, PLAN)
    as_trained(PLAN, trained_of(report, PLAN))


def turns(*steps, **changes):
    """A report of turns, by the seconds of a step of the choice and of stock; None where one was not measured."""
    trials = [
        trial(f"c{number}", rung, 2 * rung + number, step)
        for rung, pair in enumerate(steps, start=1)
        for number, step in enumerate(pair)
        if step
    ]
    plan = {**PLAN, "tuning": {"reduction": 1, "candidates": PLAN["tuning"]["candidates"][:2]}}
    return {"trials": trials, "best": "c0", "spent": 17.0, "budget": 20, **changes}, plan


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        (
            [(0.1, 0.23)],
            "2.30x of stock in one turn, which may be noise; compare_with_stock: 60 has more (2 trials in 17 s)",
        ),
        (
            [(0.1, 0.2), (0.1, 0.23), (0.1, 0.21)],
            "2.10x of stock, measured here (3 turns, 2.00 to 2.30; 6 trials in 17 s)",
        ),
        (
            [(0.1, None)],
            "could not be compared: 20 s are too short for one turn of each",
        ),
    ],
)
def test_what_compare_with_stock_found_is_one_line(folder, steps, text):
    changes, plan = turns(*steps)
    assert tuning_pairs(write(folder, **changes), plan) == [("steps", text)]


def test_that_stock_trained_is_said(folder):
    changes, plan = turns((0.2, 0.1), (0.2, 0.1), best="c1")
    report = write(folder, **changes)
    text = "0.50x of stock, measured here, so stock trained (2 turns, 0.50 to 0.50; 4 trials in 17 s)"
    assert tuning_pairs(report, plan) == [("steps", text)]


def test_why_stock_could_not_be_compared_is_said(folder):
    changes, plan = turns((0.1, None))
    candidates = {**REPORT["candidates"]}
    candidates["c1"] = {**candidates["c1"], "outcome": "out", "reason": "it ended with exit code 1"}
    report = write(folder, **changes, candidates=candidates)
    assert tuning_pairs(report, plan) == [("steps", "could not be compared: candidate 1: it ended with exit code 1")]


def test_that_stock_trained_where_the_choice_ended_is_said(folder):
    changes, plan = turns((None, 0.1), best="c1")
    candidates = {**REPORT["candidates"]}
    candidates["c0"] = {**candidates["c0"], "title": "the plan's choice", "outcome": "out", "reason": "no such library"}
    told = "could not be compared: the plan's choice: no such library, so stock trained"
    assert tuning_pairs(write(folder, **changes, candidates=candidates), plan) == [("steps", told)]


def test_what_goes_on_is_not_compared_yet(folder):
    """Whoever deploys with --detach sees the first results while the trials run."""
    changes, plan = turns((0.1, None))
    [(_, text)] = tuning_pairs(write(folder, **changes, state="running", reason=""), plan)
    assert text == "not compared yet: 1 trial in 17 s"


def test_neighbours_of_one_alone_leave_nothing_to_compare(folder):
    changes, plan = turns((0.1, 0.2))
    for each, busy in zip(changes["trials"], (0.0, 1.2), strict=True):
        each["steps"]["foreign_cores"] = busy
    [(_, text)] = tuning_pairs(write(folder, **changes), plan)
    assert text == "could not be compared: others kept the node busy while one ran, and not while the other did"
