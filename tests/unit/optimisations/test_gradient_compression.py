"""How gradients travel: only where prepare sends them, and never in another form unless somebody asks."""

from __future__ import annotations

import pytest

from modak_ansible.errors import CannotPlan
from modak_ansible.model.application import Application, Optimisation, Resources
from modak_ansible.model.distributed import Distributed
from modak_ansible.model.measured.work import Work
from modak_ansible.model.request import Request
from modak_ansible.model.target import Network, Processor, Scheduler, Target
from modak_ansible.performance import load_model
from modak_ansible.planning.plan import make_plan


@pytest.fixture(scope="module")
def model():
    return load_model()


def plan(model, *, nodes=2, strategy="auto", **wanted):
    target = Target(
        name="cluster", scheduler=Scheduler.SLURM, network=Network(latency=200, bandwidth=0.0118),
        processor=Processor(cores=1, architecture="x86_64_v4", model="AMD EPYC", peak_gflops=100.0),
    )  # fmt: skip
    application = Application(
        name="example", framework="pytorch", script="train.py", prepares=True,
        distributed=Distributed(strategy=strategy), work=Work(workload="mnist_cnn", samples=60_000, epochs=12, batch_size=512),
    )  # fmt: skip
    request = Request(
        blueprint="example", training="train", target=target, application=application,
        resources=Resources(nodes=nodes, processes_per_node=1), optimisation=Optimisation(**wanted),
    )  # fmt: skip
    return make_plan(request, model=model)


def chosen(made):
    return {choice.name: choice.value for choice in made.choices}.get("gradient_compression")


@pytest.mark.parametrize("numerics", ["same", "any"])
def test_nothing_takes_it_by_itself(model, numerics):
    made = plan(model, numerics=numerics)
    assert chosen(made) == "none"
    assert "gradient_compression" not in made.job.script


@pytest.mark.parametrize("value", ["fp16", "bf16", "powersgd"])
def test_it_gets_to_prepare_where_it_is_asked_for(model, value):
    made = plan(model, numerics="any", gradient_compression=value)
    assert chosen(made) == value
    assert f"gradient_compression={value}" in made.job.script


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"nodes": 1, "numerics": "any"}, "one process sends its gradients nowhere"),
        ({"strategy": "none", "numerics": "any"}, "the script itself sends its gradients"),
        ({"numerics": "reassociation"}, "numerics"),
    ],
)
def test_where_it_cannot_be_had_the_plan_says_why(model, more, reason):
    with pytest.raises(CannotPlan, match=reason):
        plan(model, gradient_compression="fp16", **more)


def test_one_process_has_no_row_of_it(model):
    assert chosen(plan(model, nodes=1, numerics="any")) is None
