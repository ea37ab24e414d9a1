"""What a plan says of the time of the strategies that it does not take: by the law, where all of it is known."""

from __future__ import annotations

import pytest
from traced import GIB, MIB, need

from modak_ansible.commands.plan.facts import measured
from modak_ansible.model.application import Application, Optimisation, Resources
from modak_ansible.model.measured.need import TracedBlocks
from modak_ansible.model.measured.work import Work
from modak_ansible.model.request import Request
from modak_ansible.model.target import Network, Processor, Scheduler, Target
from modak_ansible.performance import load_model
from modak_ansible.planning.plan import make_plan

SLOW, FAST = Network(latency=323, bandwidth=0.01187), Network(latency=2, bandwidth=12.5)
BLOCKS = (TracedBlocks(kind="Block", count=8, saved=0, largest=0, outputs=MIB // 4),)


@pytest.fixture(scope="module")
def model():
    return load_model()


def strategies(model, network=SLOW, **known):
    """What is said of each strategy that is not taken, by its name."""
    target = Target(
        name="cluster", scheduler=Scheduler.SLURM, network=network,
        processor=Processor(cores=1, architecture="x86_64_v4", model="AMD EPYC", peak_gflops=100.0),
    )  # fmt: skip
    application = Application(
        name="example", framework="pytorch", script="train.py", prepares=True,
        work=Work(workload="mnist_cnn", samples=60_000, epochs=12, batch_size=512),
    )  # fmt: skip
    request = Request(
        blueprint="example", training="train", target=target, application=application,
        resources=Resources(nodes=4, processes_per_node=1, memory=8 * GIB), optimisation=Optimisation(),
        need=need().model_copy(update=known),
    )  # fmt: skip
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
