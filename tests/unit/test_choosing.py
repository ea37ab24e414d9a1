"""What is taken, what is not, and the reasons that people are told."""

from __future__ import annotations

import pytest
from measured import Measured

from modak_ansible.blueprint.reader import Inputs
from modak_ansible.optimisations.base import CannotPlan
from modak_ansible.planner import make_plan
from modak_ansible.planning import request_of


@pytest.fixture
def plan(blueprint):
    def make(model=None, **wishes):
        request = request_of(blueprint.service, Inputs())
        optimisation = request.optimisation.model_copy(update=wishes)
        return make_plan(request.model_copy(update={"optimisation": optimisation}), model=model)

    return make


def choice(made, name):
    return next(each for each in made.choices if each.name == name)


def test_without_records_stock_stays(plan):
    made = choice(plan(), "allocator")
    assert (made.value, made.stock, made.speed) == ("system", "system", None)
    assert made.rejected[0].reason == "nothing like it was measured"


def test_a_gain_that_is_more_than_noise_is_taken(plan):
    made = choice(plan(Measured(allocator_tcmalloc=1.3)), "allocator")
    assert (made.value, made.records) == ("tcmalloc", 5)
    assert made.speed.middle == pytest.approx(1.3)
    assert made.rejected[0].reason == "slower here"


def test_a_gain_inside_the_noise_is_not_taken(plan):
    made = choice(plan(Measured(spread=0.1, allocator_tcmalloc=1.05)), "allocator")
    assert made.value == "system"
    assert made.rejected[0].reason == "no difference that is more than noise"
    assert made.rejected[0].speed.middle == pytest.approx(1.05)


def test_what_is_slower_is_taken_where_it_is_asked_for(plan):
    model = Measured(allocator_tcmalloc=0.8)
    made = choice(plan(model, allocator="tcmalloc"), "allocator")
    assert (made.value, made.reason) == ("tcmalloc", "asked for")
    assert made.speed.middle == pytest.approx(0.8)


def test_safety_goes_before_speed(plan):
    model = Measured(wait_policy_passive=0.8)
    made = choice(plan(model), "wait_policy")
    assert made.value == "passive"
    assert "others may use the node" in made.reason


def test_a_wish_that_cannot_be_had_is_refused_with_its_place(plan, blueprint):
    blueprint.replace("username: alice", "container_runtime: none")
    with pytest.raises(CannotPlan, match="tcmalloc is not to be had: without a container") as caught:
        plan(allocator="tcmalloc")
    assert caught.value.about == "optimisation.allocator"
    assert caught.value.hint == "take any, or system"


def test_candidates_hold_the_chosen_one_and_stock(plan):
    model = Measured(allocator_tcmalloc=1.3)
    chosen, stock, *others = plan(model).candidates
    assert (chosen.chosen, chosen.settings["allocator"]) == (True, "tcmalloc")
    assert (stock.note, stock.settings) == ("stock", {})
    assert chosen.prediction.seconds.middle < stock.prediction.seconds.middle
    assert not any(each.chosen for each in others)


def test_the_same_request_and_model_give_the_same_digest(plan):
    model = Measured(allocator_tcmalloc=1.3)
    assert plan(model).digest == plan(model).digest
    assert plan(model).digest != plan().digest
