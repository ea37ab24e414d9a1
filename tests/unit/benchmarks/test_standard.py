"""The standard networks: what they compute, what workload.yaml says of the scripts, and the suites that use them."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

import pytest
import yaml

from modak_ansible.measuring.suites.reader import find_suite, read_suite
from modak_ansible.model.measured.workload import Workload

FOLDER = Path(__file__).parents[3] / "benchmarks" / "standard"
WORKLOAD = Workload.model_validate(yaml.safe_load((FOLDER / "workload.yaml").read_text()))


def _module(name: str):
    spec = importlib.util.spec_from_file_location(f"standard_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


networks = _module("networks")


def test_the_work_of_dense_layers_by_hand():
    cost = networks.cost(networks.NETWORKS["mlp-medium"])
    weights = [1024 * 2048, 2048 * 2048, 2048 * 2048, 2048 * 10]
    assert cost.parameters == sum(weights) + 3 * 2048 + 10
    assert cost.forward_flop == 2 * sum(weights)
    assert cost.gflop_per_image == pytest.approx((3 * 2 * sum(weights) - 2 * weights[0]) / 1e9)
    assert (cost.bytes_per_image, cost.layers) == (4 * 1024, 4)


def test_the_work_of_a_convolution_and_of_attention_by_hand():
    assert networks.after(("conv", 64, 3, 2, 1), (3, 32, 32)) == ((64, 16, 16), 3 * 9 * 64 + 64, 2 * 27 * 64 * 256)
    assert networks.after(("conv", 8, 3, 1, 8), (8, 4, 4)) == ((8, 4, 4), 9 * 8 + 8, 2 * 9 * 8 * 16)
    shape, parameters, flop = networks.after(("attention", 4), (32, 128))
    assert shape == (32, 128)
    assert parameters == 2 * 128 + 4 * (128 * 128 + 128)
    assert flop == 2 * (4 * 32 * 128 * 128 + 2 * 32 * 32 * 128)


def test_the_work_of_blocks_by_hand():
    convolutions = [2 * 9 * 16 * 32 * 16 * 16, 2 * 9 * 32 * 32 * 16 * 16, 2 * 16 * 32 * 16 * 16]
    parameters = 9 * 16 * 32 + 32 + 9 * 32 * 32 + 32 + 16 * 32 + 32 + 2 * 2 * 32
    assert networks.after(("residual", 32, 2), (16, 32, 32)) == ((32, 16, 16), parameters, sum(convolutions))
    weights = 4 * 96 * (64 + 96)
    assert networks.after(("lstm", 96), (10, 64)) == ((10, 96), weights + 8 * 96, 2 * weights * 10)
    assert networks.after(("tables", 1000, 16), (8,)) == ((128,), 8 * 1000 * 16, 0)
    without_its_tables = networks.NETWORKS["tables-small"]._replace(
        shape=(128,), layers=networks.NETWORKS["tables-small"].layers[1:]
    )
    first, tables = networks.cost(without_its_tables), networks.cost(networks.NETWORKS["tables-small"])
    assert tables.gflop_per_image == pytest.approx(first.gflop_per_image + 2 * 128 * 64 / 1e9)  # tables want a gradient


@pytest.mark.parametrize("name", networks.NETWORKS)
def test_every_network_gives_scores_and_is_on_the_page(name):
    network = networks.NETWORKS[name]
    shape = network.shape
    for layer in network.layers:
        shape = networks.after(layer, shape)[0]
    assert shape == (networks.CLASSES,)
    assert f"{networks.cost(network).parameters:,}" in (FOLDER / "README.md").read_text()
    model, size = name.split("-")
    assert model in networks.MODELS
    assert size in networks.SIZES


@pytest.mark.parametrize("script", WORKLOAD.scripts, ids=lambda each: each.framework)
def test_workload_yaml_says_what_the_scripts_have(script):
    tree = ast.parse((FOLDER / script.script).read_text())
    values = next(each.value for each in tree.body if isinstance(each, ast.Assign) and each.targets[0].id == "SWITCHES")
    assert {name: tuple(known) for name, known in ast.literal_eval(values).items()} == script.switches


@pytest.mark.parametrize(
    "name", ["model-cpu", "model-cpu-more", "model-cpu-wider", "model-sizes", "model-kinds", "model-tensorflow"]
)
def test_suites_name_networks_that_there_are(name):
    for group in read_suite(find_suite(name)).groups:
        if group.workload == "standard":
            assert f"{group.arguments['model']}-{group.arguments['size']}" in networks.NETWORKS
            formats = {setting.get("memory_format") for matrix in group.matrix for setting in matrix.settings}
            images = len(networks.NETWORKS[f"{group.arguments['model']}-{group.arguments['size']}"].shape) == 3
            assert images or formats == {None}
