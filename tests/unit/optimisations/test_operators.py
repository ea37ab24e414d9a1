"""Which operators run, and what that leaves of the results."""

from __future__ import annotations

import pytest

from modak_ansible.errors import CannotPlan
from modak_ansible.planning.plan import make_plan
from modak_ansible.planning.service import request_of
from modak_ansible.reading.blueprint.reader import Inputs

OPS = "entry: pytorch-2.13-cpu-ops"


def planned(blueprint, preferences):
    made = make_plan(request_of(blueprint.replace("numerics: same", preferences).service, Inputs()))
    return {choice.name: choice for choice in made.choices}, made.job.environment.get("MODAK_OPERATORS")


def test_an_image_that_carries_them_uses_them_all_where_results_may_change(blueprint):
    choices, variable = planned(blueprint, f"{OPS}, numerics: any")
    assert choices["operators"].value == "all"
    assert choices["operators"].numerics == "any"
    assert variable is None


@pytest.mark.parametrize("numerics", ["same", "reassociation"])
def test_results_that_are_to_stay_keep_what_is_bit_for_bit(blueprint, numerics):
    choices, variable = planned(blueprint, f"{OPS}, numerics: {numerics}")
    assert choices["operators"].value == "exact"
    assert choices["operators"].numerics == "same"
    assert variable == "pooling,random"


@pytest.mark.parametrize(("value", "told"), [("none", "none"), ("exact", "pooling,random"), ("all", None)])
def test_a_preference_is_kept(blueprint, value, told):
    choices, variable = planned(blueprint, f"{OPS}, numerics: any, operators: {value}")
    assert choices["operators"].value == value
    assert variable == told


@pytest.mark.parametrize("numerics", ["same", "reassociation"])
def test_a_preference_that_moves_results_needs_leave_to(blueprint, numerics):
    with pytest.raises(CannotPlan, match="all changes results"):
        planned(blueprint, f"{OPS}, numerics: {numerics}, operators: all")


def test_other_images_have_nothing_to_decide(blueprint):
    choices, _ = planned(blueprint, "numerics: reassociation")
    assert choices["image"].value == "pytorch-2.13-cpu"
    assert "operators" not in choices
    rejected = {rejected.value for rejected in choices["image"].rejected}
    assert "pytorch-2.13-cpu-ops" in rejected
