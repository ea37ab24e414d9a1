"""Lines of braille dots, two by four in each letter of a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

_DOTS = (
    (0x01, 0x08),
    (0x02, 0x10),
    (0x04, 0x20),
    (0x40, 0x80),
)  # of Unicode's patterns from U+2800 on, by row and column


class Canvas:
    """A field of dots on which lines are drawn.

    Args:
        width, height: in letters.
        across, up: the least and the greatest of the places and of the values.

    Attributes:
        ends: in which row of letters each line ends, by its number.
    """

    def __init__(self, width: int, height: int, across: tuple[float, float], up: tuple[float, float]) -> None:
        self.width, self.height = width, height
        self._across, self._up = across, up
        self._dots: dict[tuple[int, int], tuple[int, int]] = {}
        self.ends: dict[int, int] = {}

    def line(self, points: Sequence[tuple[float, float]], owner: int) -> None:
        """Draws a line through points in the order of their places; it has a gap where a value is no finite number."""
        before: tuple[int, int] | None = None
        for place, value in points:
            if not math.isfinite(value):
                before = None
                continue
            dot = self._dot(place, value)
            for column, row in _between(before, dot) if before else [dot]:
                self._set(column, row, owner)
            before = dot
            self.ends[owner] = dot[1] // 4

    def rows(self) -> Iterator[list[tuple[str, int | None]]]:
        """Letters from the top, each with the line that was drawn there last; None where there is none."""
        for row in range(self.height):
            cells = [self._dots.get((column, row)) for column in range(self.width)]
            yield [(chr(0x2800 + cell[0]), cell[1]) if cell else (" ", None) for cell in cells]

    def _dot(self, place: float, value: float) -> tuple[int, int]:
        across = _share(place, self._across) * (self.width * 2 - 1)
        down = (1 - _share(value, self._up)) * (self.height * 4 - 1)
        return round(across), round(down)

    def _set(self, column: int, row: int, owner: int) -> None:
        cell = (column // 2, row // 4)
        dots, _ = self._dots.get(cell, (0, owner))
        self._dots[cell] = (dots | _DOTS[row % 4][column % 2], owner)


def _share(value: float, bounds: tuple[float, float]) -> float:
    low, high = (bound / 2 for bound in bounds)  # whose difference is no infinity
    return min(1.0, max(0.0, (value / 2 - low) / (high - low))) if high > low else 0.5


def _between(one: tuple[int, int], two: tuple[int, int]) -> Iterator[tuple[int, int]]:
    steps = max(abs(two[0] - one[0]), abs(two[1] - one[1]), 1)
    for step in range(steps + 1):
        yield one[0] + round((two[0] - one[0]) * step / steps), one[1] + round((two[1] - one[1]) * step / steps)
