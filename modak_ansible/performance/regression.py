"""A fitted regression as planning reads it: sums of coefficients, and the variance of such a sum; no numpy."""

from __future__ import annotations

from collections.abc import Iterable

from modak_ansible.performance.features import Feature
from modak_ansible.performance.stored import Part

Weights = dict[str, tuple[str, float]]  # by feature: its group, and how often it counts


class Regression:
    """One part of the model.

    Attributes:
        counts: measured runs by feature.
    """

    def __init__(self, part: Part) -> None:
        self.part = part
        self.counts = dict(zip(part.names, part.counts, strict=True))
        self._place = {name: place for place, name in enumerate(part.names)}
        self._mean = part.mean
        self._rows = part.covariance
        self._spread = part.spread

    def mean(self, features: Iterable[Feature]) -> float:
        """The logarithm that some features make together; what nobody has seen counts as its group's mean, nought."""
        place, means = self._place, self._mean
        return sum(value * means[place[name]] for _, name, value in features if name in place)

    def coefficient(self, name: str) -> float:
        """Of one feature; nought where nobody has seen it."""
        place = self._place.get(name)
        return 0.0 if place is None else self._mean[place]

    def variance(self, weights: Weights) -> float:
        """Of the weighted sum of some features' coefficients, their covariance included."""
        place, rows = self._place, self._rows
        found, total = [], 0.0
        for name, (group, weight) in weights.items():
            where = place.get(name)
            if where is None:
                total += (weight * self._spread.get(group, 0.0)) ** 2
            else:
                found.append((where, weight))
        found.sort()
        for number, (where, weight) in enumerate(found):
            row = rows[where]
            inner = 0.5 * weight * row[where]
            for other, factor in found[:number]:
                inner += factor * row[other]
            total += 2.0 * weight * inner
        return max(0.0, total)

    def noise(self, framework: str) -> float:
        """Variance of a run around what its features say, the machine's own changes included."""
        noise = self.part.noise.get(framework, self.part.noise.get("", 0.0))
        return float(noise**2 + self.part.rounds**2)


def weigh(weights: Weights, features: Iterable[Feature], factor: float = 1.0) -> None:
    """Adds some features to a weighted sum; what cancels is left out."""
    for group, name, value in features:
        before = weights.get(name)
        total = factor * value + (before[1] if before else 0.0)
        if abs(total) < 1e-12:
            weights.pop(name, None)
        else:
            weights[name] = (group, total)
