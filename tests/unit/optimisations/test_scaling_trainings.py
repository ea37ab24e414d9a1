"""How many nodes a training gets: by the shipped model of one process, and an invented network."""

from __future__ import annotations

import pytest

from modak_ansible.commands.plan.table import plan_table
from modak_ansible.model.application import Application, Optimisation, Resources
from modak_ansible.model.distributed import Distributed
from modak_ansible.model.measured.work import Work
from modak_ansible.model.request import Request
from modak_ansible.model.scaled import Scale
from modak_ansible.model.target import Network, Partition, Processor, Scheduler, Target
from modak_ansible.performance import load_model
from modak_ansible.performance.scaling import ScalingRun
from modak_ansible.planning.plan import make_plan

QUICK, SLOW = Network(latency=20, bandwidth=1.0), Network(latency=500, bandwidth=0.0118)


@pytest.fixture(scope="module")
def model():
    return load_model()


def request(network=QUICK, *, nodes=1, cores=2, walltime=36_000, prepares=True, at=None, hosts=(), **wanted):
    target = Target(
        name="cluster", scheduler=Scheduler.NONE if hosts else Scheduler.SLURM, network=network, hosts=hosts,
        processor=Processor(cores=cores, architecture="x86_64_v4", model="AMD EPYC", peak_gflops=300.0),
        partitions=() if hosts else (Partition(name="batch", nodes=8, cores=cores),),
    )  # fmt: skip
    return Request(
        blueprint="example", training="train", target=target, optimisation=Optimisation(numerics="reassociation"),
        resources=Resources(nodes=nodes, processes_per_node=1, cores_per_process=at, walltime=walltime),
        scale=Scale(**wanted) if wanted else None,
        application=Application(
            name="example", framework="pytorch", script="train.py", prepares=prepares,
            work=Work(workload="mnist_cnn", samples=60_000, epochs=12, batch_size=512),
        ),
    )  # fmt: skip


def choice(plan):
    return next(each for each in plan.choices if each.name == "scaling")


def test_the_curve_and_the_choice_are_in_the_plan(model):
    plan = make_plan(request(minimal_efficiency=0.7), model=model)
    curve = plan.scale.curve
    assert [point.nodes for point in curve] == list(range(1, 9))
    assert all(point.efficiency <= 1.001 for point in curve)
    good = [point for point in curve if point.efficiency >= 0.7]
    assert 1 < plan.job.nodes == min(good, key=lambda point: point.seconds.middle).nodes
    assert f"--nodes={plan.job.nodes}" in plan.job.script
    assert "by the law of one process's steps and the network as measured" in choice(plan).reason
    assert all(point.seconds.low < point.seconds.middle < point.seconds.high for point in curve)
    chosen = next(each for each in plan.candidates if each.chosen)
    assert chosen.prediction.seconds == curve[plan.job.nodes - 1].seconds


def test_the_text_has_the_curve_with_the_choice_marked(model):
    plan = make_plan(request(minimal_efficiency=0.7), model=model)
    text = plan_table(plan, 120)
    assert "nodes, by the law of one process's steps" in text
    marked = [line for line in text.splitlines() if line.startswith("  * ") and line.endswith(f"{plan.job.nodes} x 1")]
    assert len(marked) == 1


def test_without_a_scheduler_the_hosts_that_are_described_are_weighed(model):
    hosts = ("two", "three")
    plan = make_plan(request(hosts=hosts, minimal_efficiency=0.5), model=model)
    assert [point.nodes for point in plan.scale.curve] == [1, 2, 3]
    assert plan.job.nodes > 1
    assert "hosts=(two" in plan.job.script
    assert len(make_plan(request(hosts=hosts, at_most=2), model=model).scale.curve) == 2
    unprepared = make_plan(request(hosts=hosts, prepares=False, minimal_efficiency=0.5), model=model)
    assert unprepared.job.nodes == 1


def test_objectives_differ(model):
    def nodes(objective, **more):
        return make_plan(request(objective=objective, minimal_efficiency=0.5, **more), model=model).job.nodes

    soonest = nodes("time")
    assert nodes("cost") == 1
    assert soonest > 1
    assert nodes("efficiency") >= soonest
    assert 1 < nodes("cost", walltime=300) <= soonest  # one node would not end in time
    assert nodes("time", at_most=2) == 2


def test_a_slow_network_is_worth_no_second_node(model):
    plan = make_plan(request(SLOW, minimal_efficiency=0.8, nodes=4), model=model)
    assert (plan.job.nodes, choice(plan).stock.partition("x")[0]) == (1, "4")


def test_whole_nodes_are_filled(model):
    plan = make_plan(request(cores=4, at=1, minimal_efficiency=0.01), model=model)
    assert plan.job.processes_per_node == 4
    assert {point.processes // point.nodes for point in plan.scale.curve} == {4}


def test_what_only_the_user_has_set_may_be_unmeasured(model):
    asked = request(cores=9, at=2, minimal_efficiency=0.01)
    preferenceed = asked.optimisation.model_copy(update={"wait_policy": "brief"})
    plan = make_plan(asked.model_copy(update={"optimisation": preferenceed}), model=model)
    assert "without the effect of wait policy brief, which was not measured" in plan.scale.source
    assert plan.job.processes_per_node == 4


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (request(None, minimal_efficiency=0.5), "network: latency, bandwidth"),
        (request(prepares=False, minimal_efficiency=0.5), "nothing in its source joins processes"),
    ],
)
def test_why_it_stays_as_asked(model, asked, words):
    plan = make_plan(asked, model=model)
    assert (plan.job.nodes, plan.scale) == (1, None)
    assert words in choice(plan).reason
    assert words in " ".join(plan_table(plan, 120, with_rest=False).split())


def test_a_curve_of_copies_has_whole_copies_alone(model):
    """Each number of nodes is asked as the mesh that it would be: fsdp in pairs of 2, 4, 6 and 8 ranks."""
    plain = request(minimal_efficiency=0.01, nodes=2)
    said = Distributed(strategy="fsdp", degree=2)
    asked = plain.model_copy(update={"application": plain.application.model_copy(update={"distributed": said})})
    found = {point.nodes: point.seconds.middle for point in make_plan(asked, model=model).scale.curve}
    assert list(found) == [1, 2, 4, 6, 8]  # one process needs no other
    eight = make_plan(asked.model_copy(update={"resources": Resources(nodes=8), "scale": None}), model=model)
    predicted = next(each for each in eight.candidates if each.chosen).prediction
    assert found[8] == pytest.approx(predicted.seconds.middle)


def test_runs_of_as_many_processes_are_counted(model, monkeypatch):
    monkeypatch.setattr(
        model, "scaling_runs", lambda asked: (ScalingRun(1, 0.2), ScalingRun(2, 0.1), ScalingRun(2, 0.11))
    )
    plan = make_plan(request(minimal_efficiency=0.7), model=model)
    assert [point.measured for point in plan.scale.curve[:3]] == [1, 2, 0]
    assert "2 x 1, 2 runs on record" in plan_table(plan, 120)


def test_without_a_scale_nothing_is_weighed(model):
    plan = make_plan(request(), model=model)
    assert plan.scale is None
    assert "scaling" not in {each.name for each in plan.choices}


def test_several_nodes_that_are_asked_for_are_predicted(model):
    plan = make_plan(request(nodes=4), model=model)
    chosen = next(each for each in plan.candidates if each.chosen)
    assert chosen.prediction.known
    assert chosen.prediction.parts["waiting"].high > 0


@pytest.mark.parametrize(
    "preference", [{"gradient_compression": "bf16"}, {"large_batch": "linear", "local_sgd": "none"}]
)
def test_what_is_asked_of_sums_is_weighed_and_kept_where_one_process_is_asked_for(model, preference):
    plain = request(minimal_efficiency=0.01, objective="time")
    asked = plain.model_copy(update={"optimisation": Optimisation(numerics="any", **preference)})
    plan = make_plan(asked, model=model)
    assert plan.job.nodes > 1
    assert preference.items() <= {each.name: each.value for each in plan.choices}.items()
    found = {point.nodes: point.seconds for point in plan.scale.curve}
    assert found[plan.job.nodes] == next(each for each in plan.candidates if each.chosen).prediction.seconds
