"""The laws of fsdp, tensor and pipeline against the records that are published, told of two ranks' link alone."""

from __future__ import annotations

import json
from statistics import median

import pytest
from infrastructure import BENCHMARKS, module

RECORDS = BENCHMARKS / "records" / "scaling" / "strategies-cpu-intel-xeon.jsonl"
TABLE = module("strategies_table.py")
LINES = [json.loads(line) for line in RECORDS.read_text().splitlines()]
FOUND = TABLE.measured([each for each in LINES if each["round"] == 2])  # in the first one others had the cores
CELLS = sorted(key for key in FOUND.steps if key.ranks > 1)
WHOLE = [key for key in CELLS if not key.strategy.startswith("pipeline")]
STAGES = [key for key in CELLS if key.strategy.startswith("pipeline")]


def named(key):
    return " ".join(map(str, key))


@pytest.mark.parametrize("key", [key for key in WHOLE if key.link == "100mbit"], ids=named)
def test_steps_over_a_slow_link_are_predicted_within_an_eighth(key):
    assert TABLE.predicted(FOUND, key).middle == pytest.approx(median(FOUND.steps[key]), rel=0.12)


@pytest.mark.parametrize("key", [key for key in STAGES if key.link == "100mbit"], ids=named)
def test_steps_of_a_pipeline_are_predicted_but_for_what_their_ranks_wait_for_a_core(key):
    law = TABLE.predicted(FOUND, key).middle
    assert law == pytest.approx(TABLE.own_seconds(FOUND, key), rel=0.25)
    assert law < median(FOUND.steps[key])


@pytest.mark.parametrize("ranks", [2, 4])
def test_what_is_scattered_by_gloo_is_summed_everywhere_and_what_is_gathered_is_not(ranks):
    summed, gathered, scattered = (
        median(FOUND.collectives[name, ranks, "100mbit"]) for name in ("all_reduce", "all_gather", "reduce_scatter")
    )
    assert scattered == pytest.approx(summed, rel=0.25)
    assert gathered < 0.9 * summed


def test_every_strategy_and_number_of_ranks_is_there_five_times_at_least():
    assert {(key.strategy, key.ranks) for key in CELLS} == {
        *((name, ranks) for name in ("ddp", "fsdp", "tensor", "pipeline") for ranks in (2, 4)),
        *((f"{name}_2", 4) for name in ("fsdp", "tensor", "pipeline")),
    }
    assert {key.link for key in CELLS} == {"1gbit", "100mbit"}
    assert all(len(FOUND.steps[key]) >= 5 for key in CELLS)
