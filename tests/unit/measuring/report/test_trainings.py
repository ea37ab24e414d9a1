"""Charts of trainings: what they are held against, and what of the paper stands beside them."""

from __future__ import annotations

import pytest
from synthetic_records import record, rounds, training

from modak_ansible.measuring.report.paper import paper
from modak_ansible.measuring.report.runs import Run, comparisons
from modak_ansible.measuring.report.trainings import how_much, speed_chart, wall_clock
from modak_ansible.model.measured.record import TrainingResult


def comparison(*records):
    (found,) = comparisons(Run(record, "a file") for record in records)
    return found


def test_bars_are_medians_of_rounds_with_least_and_most():
    (bar,) = speed_chart(comparison(*rounds("pytorch-1.4-pip", 100, "stock-images")), "").bars
    assert (bar.value, bar.low, bar.high, bar.n) == (100, 97, 104, 5)


def test_one_round_has_no_interval_and_says_so():
    chart = speed_chart(comparison(*rounds("pytorch-1.4-pip", 100, "stock-images", count=1)), "")
    assert (chart.bars[0].low, chart.bars[0].n) == (None, 1)
    assert "no interval, n = 1" in chart.table.rows[0][1]


def test_the_papers_ratio_is_put_on_what_it_is_of():
    chart = speed_chart(
        comparison(
            *rounds("tensorflow-2.1-pip", 1000, "compilers"),
            *rounds("tensorflow-2.1-pip", 700, "compilers", 2, settings={"compiler": "xla"}),
            *rounds("tensorflow-1.14-pip", 800, "compilers", 3),
        ),
        "",
    )
    assert [bar.is_baseline for bar in chart.bars] == [True, False, False]
    assert chart.bars[1].paper == pytest.approx(0.7 * chart.bars[0].value)
    assert (chart.bars[2].paper, chart.table.rows[2][4]) == (None, "none stated")


def test_newer_software_is_marked_as_such():
    chart = speed_chart(
        comparison(
            *rounds("pytorch-2.13-cpu", 1000, "own-builds"), *rounds("pytorch-2.13-cpu-opt", 1200, "own-builds", 2)
        ),
        "",
    )
    assert (chart.bars[1].paper, chart.bars[1].newer) == (pytest.approx(1.17 * chart.bars[0].value), True)
    assert chart.table.rows[1][4] == "1.17, of older versions"


def test_the_first_variant_is_the_first_round_s_first():
    """Whatever the order in the file: later rounds are reversed."""
    records = [*rounds("pytorch-1.4-pip", 100, "group", 2), *rounds("mxnet-1.6-pip", 100, "group", 1)]
    assert comparison(*records).baseline.entry == "mxnet-1.6-pip"


def test_a_variant_that_failed_first_is_no_baseline():
    found = comparison(record("mxnet-1.6-pip", "group", outcome="failed"), *rounds("pytorch-1.4-pip", 100, "group", 2))
    assert found.baseline.entry == "pytorch-1.4-pip"


def test_how_much_ran_is_said():
    scaled = how_much(comparison(*rounds("pytorch-1.4-pip", 100, "stock-images")))
    assert scaled.startswith(
        "Scaled down: 3 epochs of 10,000 images, batch 128, data mnist (the paper: 12 epochs of 60,000)"
    )
    full = how_much(
        comparison(*rounds("pytorch-1.4-pip", 100, "stock-images", trained={"training_images": 60_000, "epochs": 12}))
    )
    assert full.startswith("Run in full: 12 epochs of 60,000 images")


def test_the_papers_wall_clock_is_computed_from_a_shorter_run():
    result, full = TrainingResult.model_validate(training(1000.0)), paper().trainings["mnist_cnn"]
    # start 1.9 s, the first epoch's extra 2 s, twelve epochs of 60 s
    assert wall_clock(result, full) == pytest.approx(1.9 + 2.0 + 12 * 60)
    assert wall_clock(TrainingResult.model_validate(training(1000.0, epochs=1)), full) is None


def test_a_later_attempt_stands_for_its_round():
    first, second = (
        rounds("pytorch-1.4-pip", speed, "group", count=1, attempt=attempt, date=f"2026-11-21T1{attempt}:00:00Z")
        for attempt, speed in ((1, 100), (2, 200))
    )
    (bar,) = speed_chart(comparison(*second, *first), "").bars
    assert (bar.n, round(bar.value)) == (1, 204)


def test_speeds_without_dropout_are_of_no_interest():
    exact = rounds("tensorflow-1.14-pip", 900, "paper", trained={"dropout": 0.0})
    assert not comparison(*exact).is_timed
    assert comparison(*exact, *rounds("tensorflow-2.1-pip", 900, "paper", 2)).is_timed


def test_native_runs_stand_beside_the_same_in_a_container():
    found = comparison(
        *rounds("pytorch-2.13-cpu", 100, "pytorch", 1),
        *rounds("pytorch-2.13-cpu", 100, "pytorch", 2, settings={"precision": "bf16"}),
        *rounds("pytorch-2.13-cpu", 100, "pytorch", 3, settings={"container": "native"}),
    )
    assert [variant.label for variant in found.native_pairs.variants] == [
        "pytorch-2.13-cpu container=native",
        "pytorch-2.13-cpu",
    ]
    assert not found.is_native
