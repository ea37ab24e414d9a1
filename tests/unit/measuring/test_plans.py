"""The plan of a run: stock where nothing is said, and a deployment of its own."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import pytest

from modak_ansible.errors import CannotPlan
from modak_ansible.measuring.plans import SuiteTarget, place_of, plan_run
from modak_ansible.measuring.suites.reader import find_suite, load_inventory, read_suite
from modak_ansible.measuring.suites.switches import optimisation_of
from modak_ansible.measuring.suites.variants import blocks_of
from modak_ansible.planning.plan import make_plan
from modak_ansible.planning.service import request_of
from modak_ansible.reading.blueprint.reader import Inputs


@pytest.fixture(scope="module")
def shipped():
    """The variants of a shipped suite by name."""
    known = load_inventory()

    def variants(name):
        suite = read_suite(find_suite(name), known)
        return suite, {
            (block.group, variant.name): variant for block in blocks_of(suite, known) for variant in block.variants
        }

    return variants


@pytest.fixture(scope="module")
def plan(shipped, place):
    suite, variants = shipped("today-cpu")

    def make(group, name, where=place, **more):
        return plan_run(suite, variants[group, name], where, **more).plan

    return make


@pytest.mark.parametrize(
    ("architecture", "is_planned"), [("zen2", False), ("icelake", True), ("x86_64", True), ("", True)]
)
def test_what_a_processor_can_only_imitate_is_left_out(shipped, place, architecture, is_planned):
    """With AVX2 alone, the bf16 runs of a suite of 25 minutes would take hours."""
    suite, variants = shipped("model-cpu")
    there = replace(place, architecture=architecture)
    with nullcontext() if is_planned else pytest.raises(CannotPlan, match="zen2 has neither bf16 nor AVX-512"):
        plan_run(suite, variants["mlp", "pytorch-2.13-cpu precision=bf16"], there)
    plan_run(suite, variants["mlp", "pytorch-2.13-cpu"], there)


def choices(plan) -> dict[str, str]:
    return {choice.name: choice.value for choice in plan.choices}


def test_stock_is_what_a_user_has_without_us(plan):
    stock = plan("pytorch", "pytorch-2.13-cpu")
    assert choices(stock)["allocator"] == "system"
    assert choices(stock)["staging"] == "shared"
    assert {"OMP_WAIT_POLICY", "LD_PRELOAD"}.isdisjoint(stock.job.environment)
    assert "allocator" not in dict(stock.application.arguments)
    assert stock.job.exclusive


def test_switches_of_the_plan_are_the_plans_and_others_the_scripts(plan):
    tuned = plan("resnet50", "pytorch-2.13-cpu memory_format=channels_last allocator=tcmalloc")
    assert tuned.job.environment["LD_PRELOAD"].startswith("libtcmalloc")
    assert dict(tuned.application.arguments)["memory-format"] == "channels_last"
    assert "allocator" not in dict(tuned.application.arguments)


def test_native_is_an_environment_of_the_node(plan):
    native = plan("native", "tensorflow-2.21-cpu container=native")
    assert native.image.layers[-1].kind == "venv"
    assert "apptainer" not in native.job.script


def test_every_run_is_a_deployment_of_its_own_with_the_same_image(plan):
    one, two = (plan("pytorch", "pytorch-2.13-cpu") for _ in range(2))
    assert one.deployment != two.deployment
    assert one.image.digest == two.image.digest
    same = [plan("pytorch", "pytorch-2.13-cpu", run="a").digest for _ in range(2)]
    assert same[0] == same[1]


def test_a_network_takes_two_nodes_and_no_data(plan):
    network = plan("network", "openmpi-mpi4py")
    assert (network.job.nodes, network.job.processes_per_node, network.dataset) == (2, 1, None)


def test_true_is_an_option_without_a_value(shipped, place):
    suite, variants = shipped("numerics")
    made = plan_run(suite, variants["today", "pytorch-2.13-cpu"], place).plan
    assert dict(made.application.arguments)["check-gradients"] is True
    assert "--check-gradients" in made.job.script


def test_builds_for_the_processor_are_planned_for_the_one_that_was_found(shipped, place):
    suite, variants = shipped("paper-cpu")
    target = place.request.target
    family = target.processor.model_copy(update={"architecture": "x86_64"})  # whatever is known of this very machine
    request = place.request.model_copy(update={"target": target.model_copy(update={"processor": family})})
    found = SuiteTarget(place.blueprint, request, "zen4")
    own = plan_run(suite, variants["own-builds", "pytorch-2.13-cpu-opt"], found).plan
    stock = plan_run(suite, variants["own-builds", "pytorch-2.13-cpu"], found).plan
    assert own.target.processor.architecture == "zen4"
    assert stock.target.processor.architecture == "x86_64"  # the image is the one that users of the target have


def test_what_cannot_be_planned_says_so(plan, place):
    small = place.request.target.model_copy(update={"partitions": ()})
    one_node = small.partitions or [part.model_copy(update={"nodes": 1}) for part in place.request.target.partitions]
    target = small.model_copy(update={"partitions": tuple(one_node)})
    alone = SuiteTarget(place.blueprint, place.request.model_copy(update={"target": target}))
    with pytest.raises(CannotPlan, match="2 nodes are asked for"):
        plan("network", "openmpi-mpi4py", alone)


def test_paths_of_a_blueprint_hold_from_anywhere(blueprint):
    data = blueprint.path / "data"
    data.mkdir()
    (data / "train-images-idx3-ubyte.gz").write_bytes(b"pixels")
    blueprint.replace("source: [ digits ]", "source: [ data ]").replace("name: mnist", "name: mine")
    found = place_of(blueprint.service, Inputs())
    assert [source.location for source in found.request.dataset.sources] == [str(data)]


def test_a_build_with_operators_of_ours_is_measured_with_all_of_them(blueprint):
    """What a record does not name is stock, whatever a plan would leave out for the sake of results."""
    request = request_of(blueprint.service, Inputs())
    made = make_plan(request.model_copy(update={"optimisation": optimisation_of({}, "pytorch-2.13-cpu-ops")}))
    assert choices(made)["operators"] == "all"
    assert "MODAK_OPERATORS" not in made.job.environment
    exact = optimisation_of({"operators": "exact", "huge_pages": "transparent"}, "pytorch-2.13-cpu-ops")
    environment = make_plan(request.model_copy(update={"optimisation": exact})).job.environment
    assert environment["MODAK_OPERATORS"] == "pooling,random"
    assert environment["THP_MEM_ALLOC_ENABLE"] == "1"
