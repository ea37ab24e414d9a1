"""Probes the network between two ranks through the library that trains: PyTorch's gloo."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from measures import Measures

SMALL, MIDDLE, LARGE = 4096, 2 * 2**20, 8 * 2**20  # bytes
PAUSE = 0.05  # seconds before each sum: a link with a rate that has just sent lets less through at once


def probe(samples: int, group: Any = None) -> list[list[float]]:
    """Returns the seconds of an all-reduce of each size in each sample; sizes take turns; all of a group call it."""
    import torch  # noqa: PLC0415 - what was probed is noted where there is none, too
    from torch import distributed  # noqa: PLC0415

    tensors = [torch.zeros(size // 4) for size in (SMALL, MIDDLE, LARGE)]
    seconds: list[list[float]] = [[] for _ in tensors]
    for _ in range(samples + 1):  # the first connects the ranks
        for tensor, found in zip(tensors, seconds):
            distributed.barrier(group)
            time.sleep(PAUSE)
            distributed.barrier(group)
            begun = time.perf_counter()
            distributed.all_reduce(tensor, group=group)
            found.append(time.perf_counter() - begun)
    return [found[1:] for found in seconds]


def add_probe(measures: Measures, found: list[list[float]], **about: Any) -> None:
    """Takes what two ranks have probed: the smallest size tells the latency, the slope of the others the bandwidth.

    An all-reduce of two ranks is two messages, each of half of the bytes; sizes took turns, so that each sample gives
    one of either.
    """
    small, middle, large = found
    about = {"backend": "gloo", **about}
    for size, seconds in ((SMALL, small), (MIDDLE, middle), (LARGE, large)):
        measures.add("allreduce", seconds, bytes=size, **about)
    measures.add("latency", [seconds / 2 for seconds in small], **about)
    rates = [(LARGE - MIDDLE) / (most - less) / 1e9 for less, most in zip(middle, large) if most > less]
    if rates:
        measures.add("bandwidth", rates, **about)
