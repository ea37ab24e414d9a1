"""What a chart shows, however it is drawn: bars with their intervals and counts, and the table of the same numbers."""

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

    @property
    def end(self) -> float:
        """The end of the axis: no bar, whisker or mark lies beyond it."""
        reach = [max(bar.value, bar.high or 0, bar.paper or 0) for bar in self.bars]
        return _round_up(max([*reach, *(value for _, value in self.lines)], default=1.0) * 1.02)

    @property
    def ticks(self) -> list[float]:
        step = _step(self.end)
        return [index * step for index in range(int(self.end / step + 1e-9) + 1)]

    @property
    def summary(self) -> str:
        """The chart in words, for those who cannot see it."""
        bars = "; ".join(f"{bar.label} {number(bar.value)} {self.unit} ({spread(bar)})" for bar in self.bars)
        return f"{self.title}: {bars}"


@dataclass(frozen=True)
class Section:
    """A part of the page."""

    name: str
    title: str
    lead: str = ""
    charts: tuple[Chart, ...] = ()
    tables: tuple[tuple[str, Table], ...] = ()
    missing: str = ""  # the command that would measure it; empty where it was measured
    roofs: tuple[Roofline, ...] = ()


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
        return [index for index, (_, x, y) in enumerate(self.points, 1) if y > min(self.peak, x * self.bandwidth)]


def number(value: float) -> str:
    """Three significant digits; an exponent only where there would be nothing but noughts."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if abs(value) < 1e-6:
        return f"{value:.2e}"
    return f"{value:,.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


def tick_text(value: float) -> str:
    """A place of an axis: all of its digits, and none that say nothing."""
    return f"{value:,.9f}".rstrip("0").rstrip(".")


def spread(bar: Bar) -> str:
    """The interval and the count of a bar, in words."""
    if bar.low is None or bar.high is None:
        return f"no interval, n = {bar.n}"
    return f"{number(bar.low)} to {number(bar.high)}, n = {bar.n}"


def bar_table(bars: Iterable[Bar], unit: str) -> Table:
    """The numbers of some bars and nothing more."""
    columns = ("Variant", f"Median {unit}", "Least to most, n")
    return Table(columns, tuple((bar.label, number(bar.value), spread(bar)) for bar in bars))


def _step(end: float) -> float:
    """A round distance that makes four to eight of an axis."""
    magnitude = 10.0 ** math.floor(math.log10(end / 4))
    return next(step * magnitude for step in (5, 2.5, 2, 1) if end / (step * magnitude) >= 4)


def _round_up(value: float) -> float:
    if value <= 0:
        return 1.0
    step = _step(value)
    return math.ceil(value / step - 1e-9) * step
