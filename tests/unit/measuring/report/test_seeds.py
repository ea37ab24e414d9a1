"""Whole trainings from several seeds: intervals over seeds, and differences seed by seed."""

from __future__ import annotations

import pytest
from synthetic_records import record, training

from modak_ansible.measuring.report.making import make_report
from modak_ansible.measuring.report.runs import Run
from modak_ansible.measuring.report.seeds import mean, seeds


def trained(seed, variant, accuracy, outcome="measured", **changes):
    given = training(1000, seed=seed, **changes)
    given["epochs"][-1]["test_accuracy"] = accuracy
    return record(
        "pytorch-2.13-cpu", f"seed-{seed}", variant=variant, outcome=outcome, training=given, suite="seeds"
    )  # fmt: skip


def both(count=5, **changes):
    return [
        trained(seed, variant, 0.97 + 0.001 * seed + more, **changes)
        for seed in range(1, count + 1)
        for variant, more in (("stock", 0.0), ("ours", 0.002))
    ]


def found(records):
    return seeds(Run(record, "a file") for record in records)


def test_the_interval_is_student_s():
    of = mean([1.0, 2.0, 3.0, 4.0, 5.0])
    assert (of.value, of.high - of.value) == (3.0, pytest.approx(2.776 * 1.5811 / 5**0.5, rel=1e-3))
    assert mean([1.0] * 40).high == 1.0


def test_differences_are_of_one_seed_each():
    (of,) = found(both())
    stock, ours = of.table.rows
    assert (stock[0], stock[1], stock[4]) == ("stock", "5", "")
    assert ours[4] == "+0.20 (+0.20 to +0.20)", "seeds differ by more, and each by the same"
    assert [curve.label for curve in of.curves] == ["stock", "ours"]
    assert of.curves[0].accuracies[2] == pytest.approx(0.972)


def test_a_busy_machine_learns_as_well_and_a_failed_run_does_not_count():
    assert found(both(outcome="disturbed"))
    assert not found(both(outcome="failed"))


def test_two_seeds_or_one_variant_show_nothing():
    assert not found(both(count=2))
    assert not found([each for each in both() if each.variant == "stock"])


def test_what_was_trained_otherwise_is_kept_apart():
    assert len(found([*both(), *both(dropout=0.0)])) == 2


def test_they_are_on_the_page_and_drawn(tmp_path):
    file = tmp_path / "records.jsonl"
    file.write_text("".join(each.model_dump_json(by_alias=True) + "\n" for each in both()))
    made = make_report([file], tmp_path / "page.html", tmp_path / "figures")
    assert "Whole trainings" in (page := made.page.read_text())
    assert "+0.20 (+0.20 to +0.20)" in page
    assert tmp_path / "figures" / "seeds-mnist-cnn.svg" in made.figures
