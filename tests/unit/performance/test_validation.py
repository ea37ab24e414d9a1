"""What was left out is predicted, and a choice costs what it costs."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from invented_machine import WORKS, Truth

from modak_ansible.errors import ModakError
from modak_ansible.performance.fit import plots
from modak_ansible.performance.fit.cases import cases
from modak_ansible.performance.fit.machines import machines
from modak_ansible.performance.fit.plots import write_plots
from modak_ansible.performance.fit.validation import Predicted, Validation, validate


@pytest.fixture(scope="module")
def found():
    return validate(Truth(11, noise=0.02).records(2), WORKS)


def test_configurations_that_were_left_out_are_predicted(found):
    rows = [each for each in found.predicted if each.left_out == "configurations"]
    assert len(rows) == len(WORKS) * 6
    assert found.error("configurations") < 0.15
    assert found.coverage("configurations") > 0.7
    assert all(row.known for row in rows)


def test_workloads_that_were_left_out_are_predicted_with_wider_intervals(found):
    rows = {
        kind: [math.log(each.high / each.low) for each in found.predicted if each.left_out == kind]
        for kind in ("configurations", "workloads")
    }
    assert len(rows["workloads"]) == len(WORKS) * 6
    assert min(rows["workloads"]) > max(rows["configurations"])
    assert found.coverage("workloads") > 0.8


def test_workloads_that_were_left_out_are_predicted_better_by_the_time_of_their_plain_steps(found):
    rows = [each for each in found.predicted if each.left_out == "timed"]
    assert len(rows) == len(WORKS) * 5  # the plain configuration is what was timed
    assert found.error("timed") < 0.7 * found.error("workloads")
    assert found.coverage("timed") > 0.8
    widths = {
        kind: max(each.high / each.low for each in found.predicted if each.left_out == kind)
        for kind in ("timed", "workloads")
    }
    assert widths["timed"] < widths["workloads"]


def test_one_machine_cannot_be_left_out(found):
    assert found.error("machines") is None
    assert any("no machines can be left out" in text for text in found.skipped)


def test_a_machine_that_was_left_out_is_predicted_from_its_peak_and_learnt_run_by_run(tmp_path):
    here, there = Truth(12, of_workload=0.02), Truth(12, of_workload=0.02)
    other = {"name": "other", "processor": "Other Processor"}
    moved = [
        record.model_copy(update={"target": record.target.model_copy(update=other), "suite_digest": "3" * 64})
        for record in there.records(4)
    ]
    found = validate([*here.records(2), *moved], WORKS)
    assert found.error("machines") < 0.15
    assert found.coverage("machines") > 0.9
    assert found.skipped == ()
    (none, *_, last) = (each for each in found.learned if "Other" in each.machine)
    assert (none.given, none.own) == (0, None)
    assert last.own < 2 * last.noise
    of_machines = tuple(each for each in found.predicted if each.left_out == "machines")  # the others are drawn below
    drawn = write_plots(replace(found, predicted=of_machines, regrets=()), tmp_path)
    names = {"predicted-machines", "machine-given-back"}
    assert {path.name for path in drawn} == {f"{name}.{ending}" for name in names for ending in ("png", "svg")}


def test_regret_is_that_of_the_best_of_the_table(found):
    assert {regret.left_out for regret in found.regrets} == {"", "workload"}
    assert {regret.numerics for regret in found.regrets} == {"up to reassociation", "any numerics"}
    for regret in found.regrets:
        assert regret.regret >= 0
        assert (regret.regret == 0) == (regret.taken == regret.best)
        assert regret.taken != regret.stock or regret.over_stock == 0
    order = [bool(regret.left_out) for regret in found.regrets]
    assert order == sorted(order, reverse=True)
    for left_out in ("workload", ""):
        values = [regret.regret for regret in found.regrets if regret.left_out == left_out]
        short = found.regret(left_out)
        assert (short.tables, short.over) == (len(values), sum(value > 0.03 for value in values))
        assert (short.mean, short.most) == (pytest.approx(sum(values) / len(values)), max(values))
    assert found.regret("machine") is None
    told = [regret for regret in found.regrets if not regret.left_out]
    assert max(each.over_stock for each in told) <= 0.05
    assert sum(each.regret for each in told) / len(told) < 0.05


def test_machines_under_one_target_s_name_share_neither_rounds_nor_tables():
    """Every testbed is called so, and a suite has one digest wherever it runs."""
    here = Truth(13).records(2)
    other = {"processor": "Other Processor"}
    there = [
        record.model_copy(update={"target": record.target.model_copy(update=other)}) for record in Truth(14).records(2)
    ]
    every = [*here, *there]
    found = cases(every, WORKS, machines(every))
    blocks = {}
    for case in found:
        blocks.setdefault(case.block, set()).add(case.facts.machine)
    assert {len(each) for each in blocks.values()} == {1}
    assert len(validate(every, WORKS).regrets) == 2 * len(validate(here, WORKS).regrets)


def test_the_class_of_numerics_keeps_to_itself(found):
    for regret in found.regrets:
        assert regret.numerics == "any numerics" or "precision" not in regret.taken + regret.best


def test_pictures_are_drawn(found, tmp_path):
    drawn = write_plots(found, tmp_path / "figures")
    names = {"predicted-configurations", "predicted-workloads", "predicted-timed", "regret"}
    assert {path.name for path in drawn} == {f"{name}.{ending}" for name in names for ending in ("png", "svg")}
    assert all(path.stat().st_size > 5000 for path in drawn)
    (tmp_path / "file").touch()
    with pytest.raises(ModakError, match="cannot be written"):
        write_plots(found, tmp_path / "file" / "deeper")


def test_nothing_to_validate_is_said():
    with pytest.raises(ModakError, match="there is nothing to fit"):
        validate([], WORKS)


def test_no_two_workloads_share_colour_and_mark_and_all_are_named(tmp_path, monkeypatch):
    row = Predicted("configurations", "", "any", 1, 1.0, 1.0, 0.5, 2.0, True, "")
    several = tuple(replace(row, workload=f"workload-{number}") for number in range(48))
    drawn = []
    monkeypatch.setattr(plots, "_written", lambda axes, folder, name: drawn.append(axes) or [])
    write_plots(Validation(several, ()), tmp_path)
    found = [(line.get_color(), line.get_marker()) for line in drawn[0].get_lines() if line.get_marker() in plots.MARKS]
    assert len(found) == len(set(found)) == 48
    figure, legend = drawn[0].get_figure(), drawn[0].get_legend()
    figure.canvas.draw()
    assert legend.get_window_extent().y0 >= 0
