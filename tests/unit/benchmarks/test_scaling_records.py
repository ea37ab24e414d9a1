"""The law of data-parallel training against the records that are published, told of two ranks alone."""

from __future__ import annotations

import importlib.util
import json
from statistics import median

import pytest
from infrastructure import BENCHMARKS

from modak_ansible.performance.data_parallel import Link, all_reduce

RECORDS = BENCHMARKS / "records" / "scaling"


def figure():
    spec = importlib.util.spec_from_file_location("scaling_figure", BENCHMARKS / "scaling_figure.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


FIGURE = figure()
STEPS, LINKS = FIGURE.measured(
    [json.loads(line) for line in (RECORDS / "cpu-intel-xeon.jsonl").read_text().splitlines()]
)
CELLS = sorted(key for key in STEPS if key[1] == "100mbit" and FIGURE.BUCKETS.get(key[3]) and key[0] > 1)
PLANS, PLAN_LINKS = FIGURE.measured(
    [json.loads(line) for line in (RECORDS / "plans-cpu-intel-xeon.jsonl").read_text().splitlines()]
)
SIMULATED = json.loads((RECORDS / "simulated.json").read_text())["runs"]


@pytest.mark.parametrize("key", CELLS, ids=lambda key: " ".join(map(str, key)))
def test_steps_over_a_slow_link_are_predicted_within_a_tenth(key):
    assert FIGURE.predicted(STEPS, LINKS, key) == pytest.approx(median(STEPS[key]), rel=0.1)


@pytest.mark.parametrize("choices", ["local_sgd=16", "local_sgd=16 gradient_compression=bf16"])
@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_what_modaks_own_runtime_sums_is_predicted_within_a_tenth_where_cores_count_little(ranks, choices):
    key = (ranks, "100mbit", "weak", f"prepare {choices}".strip())
    assert FIGURE.predicted(PLANS, PLAN_LINKS, key) == pytest.approx(median(PLANS[key]), rel=0.1)


def efficiency_of_four(setting):
    """What four weakly scaled ranks over the slow link do of what two do without any communication."""
    return median(PLANS[2, "100mbit", "weak", "none"]) / median(PLANS[4, "100mbit", "weak", setting])


def test_with_any_numerics_four_ranks_over_a_slow_link_reach_seven_tenths():
    for choices in ("local_sgd=16", "local_sgd=16 gradient_compression=bf16"):
        assert efficiency_of_four(f"prepare {choices}") >= 0.7
    assert efficiency_of_four("default") < 0.25


def test_every_number_of_ranks_and_way_to_scale_is_there():
    assert {key[0] for key in CELLS} == {2, 4, 8}
    assert {key[2] for key in CELLS} == {"weak", "strong"}
    assert all(len(STEPS[key]) >= 5 for key in CELLS)


@pytest.mark.parametrize(
    "run", [run for run in SIMULATED if run["ranks_divide_it"]], ids=lambda run: f"{run['algorithm']} {run['ranks']}"
)
def test_simulated_sums_of_many_ranks_are_predicted_within_a_tenth(run):
    runs = [each for each in SIMULATED if each["algorithm"] == run["algorithm"]]
    two = next(each for each in runs if each["ranks"] == 2)
    link = Link(two["latency"], (two["seconds"] - 2 * two["latency"]) / two["bytes"])  # calibrated at two ranks alone
    assert all_reduce(run["ranks"], run["bytes"], link, run["algorithm"]) == pytest.approx(run["seconds"], rel=0.1)
