"""How ranks sum: only where prepare sends gradients, within what numerics permits, and as the law of the network says."""

from __future__ import annotations

import re

import pytest
from data_parallel_request import FAST, data_parallel_request

from modak_ansible.errors import CannotPlan
from modak_ansible.performance import load_model
from modak_ansible.planning.plan import make_plan

NAMES = ("bucket_size", "gradient_compression", "local_sgd")


@pytest.fixture(scope="module")
def model():
    return load_model()


def plan(model, **asked):
    return make_plan(data_parallel_request(**asked), model=model)


def chosen(made):
    found = {choice.name: choice.value for choice in made.choices}
    return {name: found[name] for name in NAMES if name in found}


def sent(made):
    words = re.search(r"MODAK_CHOICES=['\"]?([^'\"\n]*)", made.job.script)
    found = (word.partition("=") for word in words[1].split()) if words else ()
    return {name: value for name, _, value in found if name in NAMES}


def predicted(made):
    return next(each.prediction for each in made.candidates if each.chosen)


def waiting(made):
    return predicted(made).parts["waiting"].middle


STOCK = {"bucket_size": "25", "gradient_compression": "none", "local_sgd": "none"}


def test_over_a_slow_network_the_law_takes_what_any_numerics_permits(model):
    made = plan(model, numerics="any")
    assert sent(made) == {
        "gradient_compression": "fp16",
        "local_sgd": "16",
    }  # by records of bf16: 0.8 of the efficiency
    assert waiting(made) < 0.1 * waiting(plan(model))


@pytest.mark.parametrize("numerics", ["same", "reassociation"])
def test_results_stay_what_they_are_where_nothing_else_is_permitted(model, numerics):
    made = plan(model, numerics=numerics)
    assert {**chosen(made), "bucket_size": ""} == {**STOCK, "bucket_size": ""}
    if numerics == "same":
        assert chosen(made) == STOCK


def test_the_plan_states_what_the_link_permits(model):
    doubts = predicted(plan(model, numerics="reassociation")).doubts
    assert any("the network permits steps of 607 ms" in each for each in doubts)  # 2 x 3/4 of 4.8 MB at 11.87 MB/s
    assert not any("the network permits" in each for each in predicted(plan(model, network=FAST)).doubts)


@pytest.mark.parametrize("network", [FAST, None])
def test_where_nothing_is_waited_for_or_nobody_knows_all_stay_stock(model, network):
    made = plan(model, numerics="any", network=network)
    assert chosen(made) == STOCK
    assert sent(made) == {}


@pytest.mark.parametrize(
    "preference",
    [{"gradient_compression": value} for value in ("fp16", "bf16", "powersgd", "powersgd_2", "powersgd_4")]
    + [{"local_sgd": "16"}, {"local_sgd": "8", "gradient_compression": "bf16"}, {"bucket_size": "5"}],
)
def test_it_gets_to_prepare_where_it_is_asked_for(model, preference):
    made = plan(model, numerics="any", **preference)
    assert chosen(made).items() >= preference.items()
    assert sent(made).items() >= preference.items()


@pytest.mark.parametrize("preference", [{"gradient_compression": "fp16"}, {"local_sgd": "4"}, {"bucket_size": "1"}])
@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"nodes": 1, "numerics": "any"}, "one process sends no gradients"),
        ({"strategy": "none", "numerics": "any"}, "the script itself sends its gradients"),
        ({"numerics": "same"}, "numerics"),
    ],
)
def test_where_it_cannot_be_had_the_plan_says_why(model, more, reason, preference):
    with pytest.raises(CannotPlan, match=reason):
        plan(model, **more, **preference)


def test_what_factors_leave_out_does_not_wait_for_a_mean_of_steps(model):
    with pytest.raises(CannotPlan, match="too many steps"):
        plan(model, numerics="any", local_sgd="8", gradient_compression="powersgd")
    made = plan(model, numerics="any", local_sgd="8")
    assert not chosen(made)["gradient_compression"].startswith("powersgd")


def test_one_process_has_no_row_of_them(model):
    assert chosen(plan(model, nodes=1, numerics="any")) == {}
