"""The gradients in float64 that every framework is held against: they are those of the loss, by finite differences."""

from __future__ import annotations

from argparse import Namespace

import common
import numpy as np
import pytest
import reference

RANDOM = np.random.RandomState(3)
IMAGES = RANDOM.rand(2, 28, 28).astype(np.float32)
LABELS = np.array([3, 8])
WEIGHTS = [kernel.astype(np.float64) for kernel in common.initial_weights(1)]


def loss(weights: list[np.ndarray]) -> float:
    """The network's mean loss, written down without any of what reference.py does it by."""
    x = IMAGES.astype(np.float64)[..., None]
    for kernel in weights[:2]:
        size = x.shape[1] - 2
        parts = [x[:, i : i + size, j : j + size] @ kernel[i, j] for i in range(3) for j in range(3)]
        x = np.maximum(sum(parts), 0)
    x = np.max([x[:, i::2, j::2] for i in range(2) for j in range(2)], axis=0).reshape(len(IMAGES), -1)
    scores = np.maximum(x @ weights[2], 0) @ weights[3]
    return float(np.mean(np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(len(LABELS)), LABELS]))


@pytest.mark.parametrize("layer", range(4))
def test_gradients_are_those_of_the_loss(layer: int) -> None:
    gradient = reference.exact_gradients(WEIGHTS, IMAGES, LABELS)[2 * layer]
    assert gradient.shape == common.WEIGHTS[layer]
    direction = RANDOM.rand(*gradient.shape) - 0.5
    step = 1e-9  # so small that hardly a unit goes over the edge of its ReLU
    around = []
    for sign in (1, -1):
        weights = list(WEIGHTS)
        weights[layer] = WEIGHTS[layer] + sign * step * direction
        around.append(loss(weights))
    assert float((gradient * direction).sum()) == pytest.approx((around[0] - around[1]) / (2 * step), rel=1e-4)


def test_a_bias_of_the_last_layer_sees_what_is_too_much_of_each_score() -> None:
    bias = reference.exact_gradients(WEIGHTS, IMAGES, LABELS)[7]
    assert bias.sum() == pytest.approx(0, abs=1e-12)
    assert sorted(np.flatnonzero(bias < 0)) == sorted(LABELS)


def test_the_error_is_the_worst_tensors() -> None:
    expected = [np.ones(4), np.full(4, 10.0)]
    assert reference.largest_error([np.ones(4), np.full(4, 10.0)], expected) == 0
    assert reference.largest_error([np.full(4, 1.5), np.full(4, 10.1)], expected) == pytest.approx(0.5)


def test_the_recorder_is_told_of_the_first_step() -> None:
    told: list[float] = []
    data = common.Data(IMAGES, LABELS, IMAGES, LABELS, {})
    arguments = Namespace(batch_size=1, seed=1)
    seen: list[np.ndarray] = []

    def gradients(images: np.ndarray, labels: np.ndarray) -> list[np.ndarray]:
        seen.append(images)
        return reference.exact_gradients(WEIGHTS, images, labels)

    reference.check(arguments, data, Namespace(gradients_checked=told.append), gradients)
    assert told == [0]
    assert len(seen[0]) == 1
