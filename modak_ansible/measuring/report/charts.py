"""What figures show: bars with their intervals and counts, a roofline, and the tables of the same numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Bar:
    """One value with its interval; ``low`` and ``high`` are None where one sample alone says nothing of the spread."""

    label: str
    value: float
    low: float | None
    high: float | None
    n: int
    is_baseline: bool = False
    paper: float | None = None  # where the paper's ratio would put the bar
    newer: bool = False  # the software is newer than what the paper's ratio is of


@dataclass(frozen=True)
class Table:
    """Texts in rows; the first column names the row."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Chart:
    """Bars of one unit from 0."""

    name: str  # of its file
    title: str
    unit: str
    bars: tuple[Bar, ...]
    interval: str  # what the whiskers are
    table: Table
    caption: str = ""
    more_is_better: bool = True
    lines: tuple[tuple[str, float], ...] = ()  # values to hold the bars against, such as measured peaks


@dataclass(frozen=True)
class Roofline:
    """Work a second that a machine could do at most for each intensity, and what trainings did."""

    name: str
    title: str
    peak: float  # GFLOP/s
    peak_name: str
    bandwidth: float  # GB/s
    points: tuple[tuple[str, float, float], ...]  # label, FLOP/byte, GFLOP/s
    caption: str

    @property
    def ridge(self) -> float:
        """The intensity in FLOP/byte from which on the arithmetic is the limit."""
        return self.peak / self.bandwidth

    @property
    def above(self) -> list[int]:
        """The numbers, from 1, of the points that stand above the roof."""
        return [index for index, (_, x, y) in enumerate(self.points, 1) if y > self._limit(x)]

    @property
    def table(self) -> Table:
        columns = ("Point", "FLOP/byte, computed", "GFLOP/s, measured", "of the limit there")
        return Table(
            columns,
            tuple(
                (f"{index}. {label}", number(x), number(y), f"{100 * y / self._limit(x):.0f} %")
                for index, (label, x, y) in enumerate(self.points, 1)
            ),
        )

    def _limit(self, intensity: float) -> float:
        return min(self.peak, intensity * self.bandwidth)


def number(value: float) -> str:
    """Three significant digits; an exponent only where there would be nothing but noughts."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if abs(value) < 1e-6:
        return f"{value:.2e}"
    return f"{value:,.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


def spread(bar: Bar) -> str:
    """The interval and the count of a bar, in words."""
    if bar.low is None or bar.high is None:
        return f"no interval, n = {bar.n}"
    return f"{number(bar.low)} to {number(bar.high)}, n = {bar.n}"


def bar_table(bars: Iterable[Bar], unit: str) -> Table:
    """The numbers of some bars and nothing more."""
    columns = ("Variant", f"Median {unit}", "Least to most, n")
    return Table(columns, tuple((bar.label, number(bar.value), spread(bar)) for bar in bars))
