"""A fitted regression as planning reads it: sums of coefficients, and the variance of such a sum; no numpy."""

from __future__ import annotations

from collections.abc import Iterable
from math import fsum
from typing import NamedTuple

from modak_ansible.errors import ModakError
from modak_ansible.performance.features import DAY, Facts, Feature, unmeasured, usual_group
from modak_ansible.performance.stored import AGAIN, UNIT, Part


class Vector(NamedTuple):
    """Features of a run by the places of their coefficients."""

    seen: dict[int, float]  # values by place
    # of features that nobody has seen, by name: their value times the standard deviation of their group
    unseen: dict[str, float]


class _Rows(dict[int, tuple[float, ...]]):
    """The rows of correlations up to the diagonal, by place; of hundreds each is read when it is first asked for."""

    def __init__(self, stored: tuple[str | tuple[float, ...], ...]) -> None:
        super().__init__()
        self._stored = stored

    def __missing__(self, place: int) -> tuple[float, ...]:
        row = self._stored[place]
        if isinstance(row, str):
            try:
                row = tuple(int(number) / UNIT for number in row.split())
            except ValueError as error:
                raise ModakError(f"the fitted model is damaged: correlations.{place}: {error}", hint=AGAIN) from error
        self[place] = row = (*row, 1.0)
        return row


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
        self._deviations = part.deviations
        self._rows = _Rows(part.correlations)
        self._spread = part.spread

    def vector(self, features: Iterable[Feature]) -> Vector:
        values: dict[int, float] = {}
        unknown_values: dict[str, float] = {}
        place, spread = self._place, self._spread
        for group, name, value in features:
            where = place.get(name)
            if where is None:
                unknown_values[name] = value * spread.get(group, spread.get(usual_group(group), 0.0))
            else:
                values[where] = values.get(where, 0.0) + value
        return Vector(values, unknown_values)

    def mean(self, vector: Vector) -> float:
        """The logarithm that they make together; what nobody has seen counts as its group's mean, nought."""
        means = self._mean
        return sum(value * means[place] for place, value in vector.seen.items())

    def variance(self, vector: Vector) -> float:
        """Of that logarithm."""
        return self._variance(vector.seen.items(), vector.unseen.values())

    def variance_of_run(self, vector: Vector, facts: Facts) -> float:
        """Of that logarithm in a new run on a day on record, as wide as it must be where nothing like it was."""
        factors = self.part.calibration
        kinds = unmeasured(facts, self.counts) if factors else []
        # too few machines are on record to say how wide: as wide as for work, and no narrower than the prior
        default = max(1.0, factors.get("workloads", 1.0))
        factor = max((factors.get(kind, default) for kind in kinds), default=1.0)
        return factor**2 * (self.variance(vector) + self.noise(facts.framework))

    @property
    def variance_of_days(self) -> float:
        return self._spread[DAY] ** 2

    def variance_between(self, one: Vector, other: Vector, share: float = 1.0, other_share: float = 1.0) -> float:
        """Of a share of the one logarithm less a share of the other; where shares are equal, what is alike cancels."""
        if share == other_share:
            first, second = one.seen.items() - other.seen.items(), other.seen.items() - one.seen.items()
            alone, lonely = one.unseen.items() - other.unseen.items(), other.unseen.items() - one.unseen.items()
        else:
            first, second = set(one.seen.items()), set(other.seen.items())
            alone, lonely = set(one.unseen.items()), set(other.unseen.items())
        weights = [(place, share * value) for place, value in first]
        weights += [(place, -other_share * value) for place, value in second]
        by_name: dict[str, float] = {name: share * value for name, value in alone}
        for name, value in lonely:
            by_name[name] = by_name.get(name, 0.0) - other_share * value
        return self._variance(weights, by_name.values())

    def noise(self, framework: str) -> float:
        """Variance of a run around what its features say, the machine's own changes included."""
        noise = self.part.noise.get(framework, self.part.noise.get("", 0.0))
        return float(noise**2 + fsum(deviation**2 for deviation in self.part.passing.values()))

    def _variance(self, weights: Iterable[tuple[int, float]], unknown_values: Iterable[float]) -> float:
        rows, deviations, total = self._rows, self._deviations, 0.0
        before: list[tuple[int, float]] = []
        for where, weight in sorted(weights):
            own = weight * deviations[where]
            row = rows[where]
            inner = 0.5 * own
            for other, factor in before:
                inner += factor * row[other]
            total += own * inner
            before.append((where, own))
        return max(0.0, 2.0 * total) + fsum(value * value for value in unknown_values)  # in any order
