"""How long a training takes whose ranks share out each step and sum their gradients: data parallel.

seconds = steps x (compute x straggler(p) + exposed(p)) + input, where steps = ceil(samples / (p x batch of a rank)).
Unlike in a program of fixed work (:mod:`~modak_ansible.performance.scaling`), communication shrinks with the number of
steps, and most of it hides behind the backward pass: gradients leave in buckets as they become ready, one bucket after
another, and a step ends with the later of its backward pass and its last bucket.

Pure: no I/O, no measured number of its own. Seconds and bytes throughout.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, exp, log2, sqrt
from typing import Literal, NamedTuple

Algorithm = Literal["ring", "rabenseifner"]
FLOAT = 4  # bytes of a gradient
MIB = 2**20


class Link(NamedTuple):
    """What a message between two nodes costs, through the library that the training itself uses."""

    alpha: float  # seconds of an empty message
    beta: float  # seconds that each byte adds


def all_reduce(ranks: int, size: float, link: Link, algorithm: Algorithm = "ring") -> float:
    """Seconds in which so many ranks sum so many bytes, each having all of the sum in the end.

    Both algorithms scatter the sums and gather them, which sends (p - 1)/p of the bytes twice. A ring, gloo's own and
    NCCL's usual one, takes p - 1 messages for each half; Rabenseifner's halving and doubling log2 p.
    """
    if ranks == 1 or not size:
        return 0.0
    messages = ranks - 1 if algorithm == "ring" else ceil(log2(ranks))
    return 2 * messages * link.alpha + 2 * (ranks - 1) / ranks * size * link.beta


def all_gather(ranks: int, size: float, link: Link, *, by_gloo: bool = True) -> float:
    """Seconds in which each of so many ranks is given the others' parts of so many bytes: a ring.

    Gloo sends a part in two halves, and leave to send the second one waits behind the first: half a part more.
    """
    if ranks == 1 or not size:
        return 0.0
    return (ranks - 1) * link.alpha + (ranks - 1 + by_gloo / 2) / ranks * size * link.beta


def reduce_scatter(ranks: int, size: float, link: Link, *, by_gloo: bool = True) -> float:
    """Seconds in which each of so many ranks is given its part of the sum of so many bytes.

    PyTorch's gloo sums all of them for it in every rank; NCCL does the half of that which is wanted.
    """
    return all_reduce(ranks, size, link) / (1 if by_gloo else 2)


class Layer(NamedTuple):
    """A layer of a network."""

    gradients: tuple[float, ...]  # bytes of each of its tensors, in the order of its parameters
    forward: float  # share of a step's compute, of which all layers' forward and backward make 1
    backward: float  # likewise; its gradients are ready once it ends


def even_layers(parameters: int, count: int) -> tuple[Layer, ...]:
    """A network of which nothing else is known: all layers alike, and backward passes twice as long as forward ones."""
    return (Layer((FLOAT * parameters / count,), 1 / 3 / count, 2 / 3 / count),) * count


class Buckets(NamedTuple):
    """How gradients leave, as PyTorch's DistributedDataParallel has it."""

    first: float = MIB  # bytes that close the first bucket: a small one, so that sending begins early
    others: float = 25 * MIB  # bytes that close each other
    kept: float = 1.0  # of the bytes that are sent; 0.5 where they travel in half precision
    passes: int = 1  # forward and backward passes of a rank for each sum, of which the last one alone sends
    rank: int = 0  # of the two factors that each matrix is sent as (PowerSGD); 0 where gradients themselves are sent
    coding: float = 0.0  # seconds of a rank for each byte that is brought into another form, there and back
    # steps that each rank makes by itself before parameters are averaged (local SGD), of which nothing hides
    every: int = 1

    def sent(self, gradient: float) -> float:
        """Bytes that a tensor of so many travels as.

        Nobody says how wide its matrix is: one is taken that is 64 times as wide as high, or as high as wide, whose
        factors are larger than those of a square.
        """
        factors = 8 * self.rank * sqrt(gradient / FLOAT) * FLOAT
        return factors if 0 < 2 * factors <= gradient else gradient * self.kept


STOCK = Buckets()


def exposed(ranks: int, compute: float, layers: Sequence[Layer], link: Link, buckets: Buckets = STOCK) -> float:
    """Seconds by which a pass is longer than its compute, for gradients that are still under way when it ends.

    Args:
        compute: seconds of forward and backward of one pass.
        layers: in the order of the forward pass.
        link: between any two neighbours.
        buckets: how gradients leave.

    Returns:
        the mean over the passes of a step, nought or more.
    """
    if ranks == 1:
        return 0.0
    total = sum(gradient for layer in layers for gradient in layer.gradients)
    if buckets.every > 1:
        return (buckets.coding * total + all_reduce(ranks, buckets.kept * total, link)) / buckets.every
    computed = compute * sum(layer.forward for layer in layers)
    now, free_at, size, bytes_sent, limit, sums = computed, 0.0, 0.0, 0.0, buckets.first, 0
    for layer in reversed(layers):
        computed += compute * layer.backward
        now += compute * layer.backward
        for gradient in reversed(layer.gradients):
            size, bytes_sent = size + gradient, bytes_sent + buckets.sent(gradient)
            if size >= limit:
                now += buckets.coding * size / 2
                free_at = max(free_at, now) + all_reduce(ranks, bytes_sent, link)
                size, bytes_sent, limit, sums = 0.0, 0.0, buckets.others, sums + 1
    if size:
        now += buckets.coding * size / 2
        free_at = max(free_at, now) + all_reduce(ranks, bytes_sent, link)
        sums += 1
    ended = max(free_at, now) + buckets.coding * total / 2
    if buckets.rank:  # the second factors follow at the end, a message for each bucket
        ended += sums * all_reduce(ranks, FLOAT, link)
    return max(0.0, ended - computed) / buckets.passes


def straggler(ranks: int, jitter: float) -> float:
    """How much longer the slowest of so many ranks computes than the middle one.

    Args:
        ranks: all of which wait for the last.
        jitter: standard deviation of the logarithm of a rank's compute; the expected largest of normal numbers is
            Blom's.
    """
    if ranks == 1:
        return 1.0
    from statistics import NormalDist  # noqa: PLC0415 - few plans are of several ranks, and it is slow to import

    return exp(jitter * NormalDist().inv_cdf((ranks - 0.375) / (ranks + 0.25)))
