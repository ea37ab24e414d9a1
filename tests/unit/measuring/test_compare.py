"""What is held against what, and what does not count."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.commands.bench.tables import print_tables
from modak_ansible.measuring.compare import compare


def rounds(record, variant, seconds, position=1, **changes):
    return [
        record(variant=variant, round=number, position=position, seconds=each, **changes)
        for number, each in enumerate(seconds, 1)
    ]


def test_medians_and_ratios_are_of_rounds(record):
    records = rounds(record, "stock", [2.0, 4.0, 3.0]) + rounds(record, "fast", [1.0, 2.0, 1.5], position=2)
    (table,) = compare(records)
    stock, fast = table.lines
    assert (stock.steady.median, stock.steady.least, stock.steady.most, stock.steady.n) == (3.0, 2.0, 4.0, 3)
    assert stock.ratio is None
    assert (fast.ratio.median, fast.ratio.low, fast.ratio.high) == (0.5, 0.5, 0.5)
    assert not fast.is_noise
    assert fast.images_per_second.median == pytest.approx(100 / 1.5)


def test_joules_are_of_the_runs_that_something_counted_them_for(record, capsys):
    records = rounds(record, "stock", [2.0, 4.0]) + rounds(record, "fast", [1.0, 2.0], position=2)
    print_tables(records)
    assert "joules" not in capsys.readouterr().out
    told = [
        each.model_copy(update={"joules": 100.0 * number, "energy_source": "RAPL (package)"})
        for number, each in enumerate(records[:2], 1)
    ]
    failed = told[0].model_copy(update={"outcome": "failed", "joules": 9e9, "round": 3})
    (table,) = compare([*told, failed, *records[2:]])
    stock, fast = table.lines
    assert (stock.joules.median, stock.joules.n, fast.joules) == (150.0, 2, None)
    print_tables([*told, *records[2:]])
    shown = capsys.readouterr().out
    assert "J a run" in shown
    assert re.search(r"(?m)^stock .* 150 ", shown)
    assert "  joules: by RAPL (package)\n" in shown


def test_a_run_that_failed_without_a_word_is_counted(record, capsys):
    """As a job may have that its scheduler told nothing of."""
    print_tables([record(variant="stock").model_copy(update={"outcome": "failed"})])
    assert "  stock: 1 failed\n" in capsys.readouterr().out


def test_the_first_variant_of_the_suite_is_the_baseline_whatever_ran_first(record):
    later = [record(variant="fast", round=2, position=1), record(variant="stock", round=2, position=2)]
    first = [record(variant="stock", round=1, position=1), record(variant="fast", round=1, position=2)]
    assert [line.variant for line in compare(later + first)[0].lines] == ["stock", "fast"]
    assert [line.variant for line in compare(later)[0].lines] == ["stock", "fast"]


def test_a_ratio_around_one_is_noise(record):
    records = rounds(record, "stock", [2.0] * 3) + rounds(record, "other", [1.9, 2.1, 2.0], position=2)
    assert compare(records)[0].lines[1].is_noise


def test_one_round_says_nothing_of_the_noise(record):
    records = rounds(record, "stock", [2.0]) + rounds(record, "other", [1.0], position=2)
    line = compare(records)[0].lines[1]
    assert (line.ratio.median, line.ratio.low, line.is_noise) == (0.5, None, True)


def test_of_a_round_that_was_begun_again_only_the_last_counts(record):
    records = [
        record(seconds=9.0), record(variant="other", position=2, outcome="disturbed", seconds=9.0, reason="busy"),
        record(seconds=2.0, attempt=2), record(variant="other", position=2, seconds=1.0, attempt=2),
    ]  # fmt: skip
    stock, other = compare(records)[0].lines
    assert (stock.steady.median, other.steady.median) == (2.0, 1.0)
    assert other.left_out == {}


def test_the_text_that_was_run_last_counts_in_whatever_order_files_are_given(record):
    old = rounds(record, "stock", [9.0], suite_digest="old", date="2026-11-20T10:00:00+00:00")
    new = rounds(record, "stock", [2.0], suite_digest="new", date="2026-11-26T10:00:00+00:00")
    for records in (old + new, new + old):
        (line,) = compare(records)[0].lines
        assert (line.steady.median, line.steady.n) == (2.0, 1)


def test_rounds_of_two_files_are_never_the_same_round(record):
    first = rounds(record, "stock", [2.0], attempt=2) + rounds(record, "fast", [1.0], position=2, attempt=2)
    second = rounds(record, "stock", [4.0]) + rounds(record, "fast", [2.0], position=2)
    (table,) = compare(first, second)
    stock, fast = table.lines
    assert (stock.steady.median, stock.steady.n, stock.images_per_second.n) == (3.0, 2, 2)
    assert (fast.ratio.median, fast.ratio.n) == (0.5, 2)


def test_machines_under_one_target_s_name_have_tables_of_their_own(record):
    slow = record().target.model_copy(update={"processor": "A slow one"})
    here = rounds(record, "stock", [2.0, 2.0])
    there = [each.model_copy(update={"target": slow}) for each in rounds(record, "stock", [8.0, 8.0])]
    nowhere = record(variant="broken", plan="", outcome="refused", reason="no").model_copy(
        update={"target": slow.model_copy(update={"processor": ""})}
    )
    one, other = compare([*here, nowhere], there)
    assert (one.target, one.lines[0].steady.median) == ("testbed (A processor)", 2.0)
    assert (other.target, other.lines[0].steady.median) == ("testbed (A slow one)", 8.0)
    assert [line.variant for line in one.lines] == ["stock", "broken"]
    assert compare([*here, nowhere])[0].target == "testbed"


def test_what_is_disturbed_or_failed_is_counted_and_left_out(record):
    records = [
        record(), record(round=2, outcome="disturbed", reason="others kept 1 core busy"),
        record(variant="broken", position=1, plan="", outcome="refused", reason="its probe failed"),
    ]  # fmt: skip
    stock, broken = compare(records)[0].lines
    assert (stock.steady.n, stock.left_out) == (1, {"disturbed": 1})
    assert (broken.steady, broken.left_out, broken.reason) == (None, {"refused": 1}, "its probe failed")


def test_records_of_an_earlier_text_do_not_count(record):
    records = [record(seconds=9.0, suite_digest="b" * 64), record(seconds=2.0)]
    assert compare(records)[0].lines[0].steady.median == 2.0


def test_a_single_epoch_has_no_steady_part(record):
    one = record()
    short = one.model_copy(update={"training": one.training.model_copy(update={"epochs": one.training.epochs[:1]})})
    line = compare([short])[0].lines[0]
    assert (line.steady, line.parts["import"].median) == (None, 1.0)
    assert "first epoch" not in line.parts


def test_quantities_are_pooled_by_what_they_are_of(record):
    def measured(number, *samples):
        measure = {"name": "triad", "unit": "GB/s", "samples": samples, "about": {"threads": 1}}
        return record(round=number, measures=[measure])

    (quantity,) = compare([measured(1, 9.0, 10.0), measured(2, 11.0)])[0].quantities
    assert (quantity.values.median, quantity.values.least, quantity.values.most, quantity.values.n) == (10, 9, 11, 3)
    assert (quantity.name, quantity.about, quantity.unit) == ("triad", "threads 1", "GB/s")


def test_nothing_is_no_table():
    assert compare([]) == []


@given(slower=st.floats(0.2, 5.0), drift=st.lists(st.floats(0.5, 2.0), min_size=2, max_size=6))
def test_a_machine_that_drifts_changes_no_ratio(slower, drift):
    from modak_ansible.measuring.statistics import paired_ratio

    baseline = dict(enumerate(drift))
    ratio = paired_ratio(baseline, {number: slower * each for number, each in baseline.items()})
    assert ratio.low == pytest.approx(slower)
    assert ratio.high == pytest.approx(slower)
