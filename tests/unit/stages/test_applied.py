"""Planned and applied are compared by the word of the process, and where it left none, nobody claims to know."""

from __future__ import annotations

import json

import pytest

from modak_ansible.stages.jobs.applied import compare_choices, report_of, summary_pairs, warnings_of

PLAN = {
    "choices": [
        {"name": "allocator", "value": "tcmalloc", "stock": "system", "reaches": "environment"},
        {"name": "compiler", "value": "inductor", "stock": "none", "reaches": "code"},
        {"name": "precision", "value": "fp32", "stock": "fp32", "reaches": "code"},
        {"name": "batch_size", "value": "64x2", "stock": "keep", "reaches": "code"},
    ]
}


def word(applied, how="prepare", reason=""):
    return {"planned": "?", "applied": applied, "how": how, "reason": reason}


def test_each_choice_in_the_code_has_its_outcome():
    choices = {"compiler": word(None, reason="it failed"), "batch_size": word("64"), "accumulation": word("2")}
    outcomes = compare_choices(PLAN, {"choices": choices}, None)
    assert [(outcome["name"], outcome["planned"], outcome["applied"]) for outcome in outcomes] == [
        ("compiler", "inductor", None), ("batch_size", "64", "64"), ("accumulation", "2", "2")
    ]  # fmt: skip
    assert warnings_of(outcomes) == ["planned but not applied: compiler inductor: it failed"]
    assert summary_pairs(outcomes) == [
        ("applied", "batch_size 64 (prepare), accumulation 2 (prepare)"),
        ("applied", "planned but not applied: compiler inductor: it failed"),  # a longer title would run into its text
    ]


def test_of_a_trace_which_computes_nothing_no_choice_is_missed():
    report = {"choices": {"compiler": word(None, reason="nothing was given")}, "memory": {"loops": []}}
    assert compare_choices(PLAN, report, None) == []


def test_without_a_word_nothing_is_known():
    outcomes = compare_choices(PLAN, None, {"anything": 1})
    assert [outcome["known"] for outcome in outcomes] == [False, False, False]
    assert warnings_of(outcomes)[0].startswith("planned; whether it was applied is not known: compiler inductor")


@pytest.mark.parametrize(("stands", "applied"), [("inductor", "inductor"), ("none", None)])
def test_the_switches_of_a_benchmark_say_how_they_stood(stands, applied):
    metrics = {"schema": "modak.metrics/1", "switches": {"compiler": stands}}
    refused = word(None, reason="the script does not call prepare")
    outcome = compare_choices(PLAN, {"choices": {"compiler": refused}}, metrics)[0]
    assert (outcome["applied"], outcome["how"], outcome["known"]) == (applied, "switch", True)


@pytest.mark.parametrize("text", ["[]", "{}", '{"schema": "other/1"}', "{torn", '{"schema": "modak.applied/2"}'])
def test_what_is_no_report_is_none(tmp_path, text):
    (tmp_path / "applied.json").write_text(text)
    assert report_of(tmp_path) is None


def test_a_report_with_nonsense_in_it_says_nothing(tmp_path):
    (tmp_path / "applied.json").write_text(json.dumps({"schema": "modak.applied/1", "choices": [1]}))
    assert not any(each["known"] for each in compare_choices(PLAN, report_of(tmp_path), None))


@pytest.mark.parametrize(
    ("report", "applied", "known", "said"),
    [
        ({"ranks": {"strategy": "ddp", "world": 4}}, "ddp", True, "prepare, 4 ranks"),
        ({"ranks": {"strategy": "ddp", "world": 4, "loaders": 0}}, "ddp", True, "it was given no loader"),
        ({"ranks": None}, None, True, "each process trained the whole model"),
        ({}, None, True, "prepare was not called"),
        ({"ranks": "many"}, None, True, "prepare was not called"),
        (None, None, False, "did not report it"),
    ],
)
def test_whether_processes_were_one_training_is_told(report, applied, known, said):
    plan = {"choices": [{"name": "strategy", "value": "ddp", "stock": "none", "reaches": "job"}]}
    (outcome,) = compare_choices(plan, report, None)
    assert (outcome["applied"], outcome["known"]) == (applied, known)
    assert said in outcome["how"] + outcome["reason"]
    plan["choices"][0]["value"] = "fsdp"  # and where another way was taken, that is told
    assert compare_choices(plan, {"ranks": {"strategy": "fsdp", "world": 2}}, None)[0]["applied"] == "fsdp"
    plan["choices"][0]["value"] = "own"
    assert compare_choices(plan, report, None) == []
