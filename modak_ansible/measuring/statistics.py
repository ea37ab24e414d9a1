"""The numbers that runs are judged by: medians, spread, and ratios of runs that stood next to each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

Block = TypeVar("Block")  # what names a round, whatever the caller takes for it

CONFIDENCE = 0.95
_RESAMPLES = 10_000


@dataclass(frozen=True)
class Summary:
    """Some measurements of one thing, in the unit that they came in."""

    median: float
    least: float
    most: float
    n: int


@dataclass(frozen=True)
class Ratio:
    """How many times as large one thing is as another, by rounds in which both were measured.

    ``low`` and ``high`` are the bounds of the 95 % interval; None where one round alone says nothing of the spread.
    """

    median: float
    low: float | None
    high: float | None
    n: int


def summary(values: Iterable[float]) -> Summary:
    """Median, least and most.

    Raises:
        ValueError: there are no values.
    """
    numbers = np.fromiter(values, dtype=float)
    if not numbers.size:
        raise ValueError("nothing was measured, so there is no median")
    return Summary(float(np.median(numbers)), float(numbers.min()), float(numbers.max()), int(numbers.size))


def paired_ratio(baseline: Mapping[Block, float], other: Mapping[Block, float]) -> Ratio | None:
    """``other / baseline``: the median over the rounds that have both, with a bootstrap interval over those rounds.

    Only runs of one round are divided by each other: a machine that is slower in the afternoon slows both alike. With
    few rounds the interval is about the least to the most of the ratios, which is all that they can say.

    Args:
        baseline: a measurement by round; one that a coarse clock has made nothing of is left out.
        other: the same of what is compared.

    Returns:
        None where no round has both, above nothing.
    """
    rounds = [block for block, value in baseline.items() if block in other and value > 0]
    if not rounds:
        return None
    ratios = np.array([other[block] / baseline[block] for block in rounds])
    median = float(np.median(ratios))
    if len(rounds) == 1:
        return Ratio(median, None, None, 1)
    # a report is made again with the same numbers
    drawn = np.random.default_rng(0).integers(len(ratios), size=(_RESAMPLES, len(ratios)))
    edge = 100 * (1 - CONFIDENCE) / 2
    low, high = np.percentile(np.median(ratios[drawn], axis=1), [edge, 100 - edge])
    return Ratio(median, float(low), float(high), len(rounds))
