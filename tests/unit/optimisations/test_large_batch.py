"""Batches that grow with the ranks: only asked for, only where the runtime can, and predicted as what it does."""

from __future__ import annotations

import re

import pytest

from modak_ansible.errors import CannotPlan
from modak_ansible.performance import load_model

from .test_sums import FAST, plan, predicted


@pytest.fixture(scope="module")
def model():
    return load_model()


def choices(made):
    return re.search(r"MODAK_CHOICES=['\"]?([^'\"\n]*)", made.job.script)[1].split()


@pytest.mark.parametrize("value", ["linear", "lars"])
def test_it_gets_to_the_runtime_with_a_warm_up_of_a_part_of_the_epochs(model, value):
    made = plan(model, numerics="any", large_batch=value, local_sgd="none")
    assert {f"large_batch={value}", "warm_up=1"} <= set(choices(made))


def test_nobody_takes_it_unasked(model):
    assert not [each for each in plan(model, numerics="any").choices if each.name == "large_batch"]


def test_results_that_are_to_stay_permit_it_not(model):
    with pytest.raises(CannotPlan, match="numerics: any permits it"):
        plan(model, large_batch="linear", strict=True)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"nodes": 1}, "one process sends no gradients"),
        ({"strategy": "fsdp"}, "a rank of fsdp does not have"),
        ({"strategy": "tensor"}, "a rank of tensor does not have"),
        ({"local_sgd": "8"}, "with local_sgd ranks make steps by themselves"),
    ],
)
def test_where_it_cannot_be_it_is_said_why(model, more, why):
    with pytest.raises(CannotPlan, match=why):
        plan(model, **{"numerics": "any", "large_batch": "linear", "strict": True, "local_sgd": "none", **more})


def test_a_step_is_predicted_with_a_whole_batch_in_each_rank(model):
    """Over a quick network four ranks make a quarter of the steps, each as long as that of one process."""
    alone = predicted(plan(model, nodes=1, numerics="any"))
    same = {
        "numerics": "any",
        "network": FAST,
        "local_sgd": "none",
        "gradient_compression": "none",
        "bucket_size": "25",
    }
    large = predicted(plan(model, large_batch="linear", **same))
    assert large.seconds.middle == pytest.approx(alone.seconds.middle / 4, rel=0.2)
