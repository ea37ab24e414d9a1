"""What a plan says of the time of the strategies that it does not take: by the law, where all of it is known."""

from __future__ import annotations

import pytest
from data_parallel_request import SLOW, data_parallel_request
from traced import GIB, MIB, need

from modak_ansible.commands.plan.facts import measured
from modak_ansible.model.measured.need import TracedBlocks
from modak_ansible.performance import load_model
from modak_ansible.planning.plan import make_plan

BLOCKS = (TracedBlocks(kind="Block", count=8, saved=0, largest=0, outputs=MIB // 4),)


@pytest.fixture(scope="module")
def model():
    return load_model()


def strategies(model, network=SLOW, **known):
    """What is said of each strategy that is not taken, by its name."""
    request = data_parallel_request(network=network, memory=8 * GIB, need=need().model_copy(update=known))
    made = next(choice for choice in make_plan(request, model=model).choices if choice.name == "strategy")
    assert made.value == "ddp"
    return {each.value: each for each in made.rejected}


def test_what_sends_more_is_said_to_be_slower_by_law(model):
    found = strategies(model, widths={64: 60 * MIB}, blocks=BLOCKS)
    assert found["fsdp"].reason == "ddp fits, and sends less"
    assert found["fsdp"].speed.middle < 0.7
    assert measured(found["fsdp"]).endswith("by law")
    for name in ("tensor", "pipeline"):  # whose activations are less than the gradients
        assert found[name].speed.middle > 1


def test_no_number_is_said_where_something_of_it_is_unknown(model):
    unknown = strategies(model, network=None, widths={64: 60 * MIB}, blocks=BLOCKS)
    assert [unknown[name].speed for name in ("fsdp", "tensor", "pipeline")] == [None, None, None]
    untraced = strategies(model, widths={64: 60 * MIB}, blocks=())
    assert untraced["fsdp"].speed is not None
    assert [untraced[name].speed for name in ("tensor", "pipeline")] == [None, None]
