"""What a run costs: its price times its predicted time, and nothing where either is not known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.errors import CannotPlan
from modak_ansible.model.measured.prediction import Interval, Prediction
from modak_ansible.model.plan import Candidate
from modak_ansible.model.target import Scheduler, Target, Terms
from modak_ansible.planning.costs.money import cost_words, planned_cost

HOURS = Interval(middle=7200.0, low=3600.0, high=14400.0)


def cost_of(seconds=HOURS, walltime=6 * 3600, **terms):
    target = Target(name="cloud", scheduler=Scheduler.NONE, terms=Terms(**terms))
    prediction = Prediction(seconds=seconds, known=True) if seconds else None
    return planned_cost(target, [Candidate(entry="pytorch", prediction=prediction, chosen=True)], walltime)


def test_it_is_the_price_of_the_time_with_its_interval():
    cost = cost_of(price_per_hour=0.5, currency="EUR")
    assert cost.predicted == Interval(middle=1.0, low=0.5, high=2.0)
    words = cost_words(cost, 6 * 3600)
    assert words.startswith(
        "1 EUR (0.5 to 2) for the training, at most 3 EUR within its wall time of 06:00:00, at 0.5 EUR"
    )


def test_it_is_that_of_all_hosts_of_a_cluster_and_so_is_the_budget():
    assert cost_of(price_per_hour=0.5, budget=3.0, machines=3).predicted.middle == 3.0
    with pytest.raises(CannotPlan, match="over the budget of 2"):
        cost_of(price_per_hour=0.5, budget=2.0, machines=3)


def test_without_a_price_nothing_is_said():
    cost = cost_of()
    assert (cost.predicted, cost.most, cost_words(cost, 60)) == (None, None, "")


def test_of_what_is_not_predicted_only_the_wall_time_is_said():
    cost = cost_of(seconds=None, price_per_hour=1.0, budget=0.5)
    assert cost.predicted is None
    assert cost_words(cost, 6 * 3600).startswith("not predicted, at most 6 within")


def test_of_a_machine_that_nobody_makes_there_is_no_cost():
    assert planned_cost(Target(name="host", scheduler=Scheduler.NONE), [], 60) is None


@given(price=st.floats(0.01, 100), budget=st.floats(0.01, 1000))
def test_over_budget_is_refused_and_nothing_else(price, budget):
    expected = price * 2.0
    if float(f"{expected:.4g}") > budget:
        with pytest.raises(CannotPlan, match="over the budget"):
            cost_of(price_per_hour=price, budget=budget)
    else:
        assert cost_of(price_per_hour=price, budget=budget).predicted


def test_large_amounts_are_written_out():
    words = cost_words(cost_of(price_per_hour=1234.5, budget=10**6, currency="JPY"), 6 * 3600)
    assert words.startswith(
        "2469 JPY (1234 to 4938) for the training, at most 7407 JPY within its wall time of 06:00:00, at 1234 JPY"
    )
    assert words.endswith("it has cost 1000000 JPY")
