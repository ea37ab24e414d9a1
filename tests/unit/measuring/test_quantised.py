"""Which times are a clock's and not the work's, and that no claim is made of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_records import record, rounds, training

from modak_ansible.measuring.compare import compare
from modak_ansible.measuring.records import RecordFile, mark, read_records
from modak_ansible.measuring.report.headline import judged, sentences
from modak_ansible.measuring.report.runs import Run, comparisons
from modak_ansible.measuring.report.trainings import speed_chart
from modak_ansible.model.measured.finished_run import quantised_s

ENTRY = "tensorflow-2.21-cpu"
VERSIONS = {"tensorflow": "2.21.0", "keras": "3.15.0"}


def fitted(step, entry=ENTRY, group="compilers", number=1, position=1, settings=None, **changes):
    """A run of 10 steps an epoch, of so many seconds each."""
    trained = training(1280 / (10 * step), training_images=1280)
    return record(
        entry, group, round=number, position=position, settings=settings or {}, versions=VERSIONS,
        training=trained, **changes,
    )  # fmt: skip


def marked(several):
    return [each.model_copy(update={"quantised_s": quantised_s(each)}) for each in several]


@given(sleeps=st.integers(6, 12), late=st.floats(0.0, 0.099))
def test_an_epoch_that_ends_with_a_sleep_of_tf_data_waited(sleeps, late):
    slept = 0.01 * (2**sleeps - 1)
    assert quantised_s(fitted((slept + late) / 10)) == pytest.approx(slept)


@given(sleeps=st.integers(6, 12), share=st.floats(0.2, 0.99))
def test_an_epoch_that_ends_between_two_did_not(sleeps, share):
    assert quantised_s(fitted(0.001 * (2**sleeps - 1 + share * 2**sleeps))) is None


@pytest.mark.parametrize("seconds", [0.0, 0.001, 0.31, 0.5])
def test_short_epochs_take_any_time(seconds):
    run = fitted(0.131)
    epochs = tuple(each.model_copy(update={"seconds": seconds}) for each in run.training.epochs)
    assert quantised_s(run.model_copy(update={"training": run.training.model_copy(update={"epochs": epochs})})) is None


@pytest.mark.parametrize(
    ("changes", "is_marked"),
    [
        ({}, True),
        ({"settings": {"compiler": "xla"}}, True),
        ({"settings": {"pipeline_tuning": "stock"}}, True),
        ({"settings": {"pipeline_tuning": "off"}}, False),
        ({"settings": {"step_loop": "whole"}}, False),
        ({"settings": {"input": "tfdata"}}, False),
    ],
)
def test_only_arrays_that_go_through_tf_data_wait(changes, is_marked):
    assert (quantised_s(fitted(0.131, **changes)) is not None) is is_marked


@pytest.mark.parametrize(
    "versions",
    [
        {},
        {"torch": "2.13.0"},
        {"keras": "3.15.0", "jax": "0.10"},
        {"tensorflow": "2.1.0"},
        {"tensorflow": "2.9", "keras": "2.9"},
    ],
)
def test_other_frameworks_have_no_such_clock(versions):
    assert quantised_s(fitted(0.131).model_copy(update={"versions": versions})) is None


def test_shipped_records_carry_the_mark_that_the_rule_gives(root):
    marks = 0
    for path in (root / "benchmarks" / "records").rglob("*.jsonl"):
        for number, each in enumerate(read_records(path), 1):
            assert each.quantised_s == quantised_s(each), f"{path}:{number}: mark it, as records/README.md says"
            marks += each.quantised_s is not None
    assert marks > 50


def test_marking_changes_nothing_else(tmp_path):
    path = tmp_path / "records.jsonl"
    before = [fitted(0.131), fitted(0.2), fitted(0.2).model_copy(update={"quantised_s": 1.27})]
    for each in before:
        RecordFile(path).append(each)
    mark(path)
    assert read_records(path) == marked(before)
    assert [record.quantised_s for record in read_records(path)] == [1.27, None, None]
    text = path.read_text()
    mark(path)
    assert path.read_text() == text


def test_marking_minds_empty_lines_and_ends_of_lines_within_a_text(tmp_path):
    path = tmp_path / "records.jsonl"
    before = [fitted(0.131).model_copy(update={"reason": "one\u2028two"}), fitted(0.131), fitted(0.2)]
    path.write_text("\n" + "".join(f"{each.model_dump_json(by_alias=True)}\n\n" for each in before))
    mark(path)
    assert read_records(path) == marked(before)


def pairs(*variants):
    return marked(
        fitted(step, number=number, position=position, settings=settings)
        for number in range(1, 6)
        for position, (step, settings) in enumerate(variants, 1)
    )


OFF = {"pipeline_tuning": "off"}


def xla(*records):
    found = comparisons(Run(record, "a file") for record in records)
    (finding,) = (each for each in judged(found) if each.finding.name == "xla-cpu")
    return finding, sentences(found, judged(found)), found


def test_no_finding_is_judged_by_ticks():
    finding, said, found = xla(*pairs((0.131, {}), (1.03, {"compiler": "xla"})))
    (verdict,) = finding.verdicts
    assert (verdict.word, verdict.reason) == (
        "cannot be said",
        "epochs wait for tf.data's tuning until 10.23 s have passed",
    )
    assert not any(word == "holds" for word, _ in said)
    assert "no measure: epochs wait" in speed_chart(found[0], "").table.rows[1][3]


def test_the_pair_that_waits_for_no_clock_is_judged():
    finding, _, _ = xla(
        *pairs((0.131, {}), (1.03, {"compiler": "xla"}), (0.12, OFF), (0.2, {**OFF, "compiler": "xla"}))
    )
    (verdict,) = finding.verdicts
    assert verdict.word == "holds"
    assert verdict.ratio.median == pytest.approx(0.6)


def test_the_largest_gain_is_no_clock_s():
    _, said, _ = xla(*pairs((0.262, {}), (0.1, {"precision": "bf16"})))
    assert not any("largest gain" in text for _, text in said)


def test_an_import_is_judged_whatever_its_steps_wait_for():
    native = marked(
        fitted(0.131, group="native", number=number, settings={"container": "native"}) for number in range(1, 6)
    )
    found = comparisons(
        Run(each, "a file")
        for each in [*native, *marked(fitted(0.131, group="native", number=n, position=2) for n in range(1, 6))]
    )
    by_name = {each.finding.name: each for each in judged(found)}
    assert by_name["container"].verdicts[0].reason.startswith("epochs wait")
    assert by_name["import"].verdicts[0].reason != by_name["container"].verdicts[0].reason


def test_compare_says_that_a_ratio_is_a_clock_s():
    (table,) = compare(pairs((0.131, {}), (1.03, {"compiler": "xla"})))
    first, second = table.lines
    assert (first.tick, second.tick, second.is_noise) == (None, 10.23, True)
    assert rounds("pytorch-2.13-cpu", 100, "x")[0].quantised_s is None
