"""One moment of a training, with its numbers; and what a reader has to say of the file that it reads."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, List, Mapping, Tuple

_STEPS = ("step", "global_step", "_step", "iteration", "iter", "trainer/global_step", "train/global_step")
_EPOCHS = ("epoch", "train/epoch")
_TIMES = ("time", "timestamp", "_timestamp", "wall_time")
_DEEPEST, _LONGEST, _MOST = 3, 80, 1000
_WORDS = {"nan": math.nan, "inf": math.inf, "infinity": math.inf, "-inf": -math.inf, "-infinity": -math.inf}


@dataclass
class Point:
    """What was written at one moment."""

    values: Dict[str, float]  # by name; they may be infinite, or no number
    # step, epoch: None where they are not said
    step: float | None = None
    epoch: float | None = None
    time: float | None = None  # seconds since the epoch; None where it is not said


@dataclass
class Remarks:
    """What is wrong with a file, each kind once, with the first place and how often."""

    name: str
    _places: Dict[str, Tuple[str, int]] = field(default_factory=dict)

    def add(self, words: str, place: str = "") -> None:
        first_place, count = self._places.get(words, (place, 0))
        self._places[words] = (first_place, count + 1)

    @property
    def lines(self) -> List[str]:
        lines = []
        for words, (place, count) in self._places.items():
            often = f", {count} times" if count > 1 else ""
            lines.append(f"{self.name}{':' + place if place else ''}: {words}{often}")
        return lines


def value_of(value: Any) -> float | None:
    """A number, also one that is infinite or none; None for what stands for no number."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        try:
            return float(value)
        except OverflowError:  # an integer that no float holds
            return math.inf if value > 0 else -math.inf
    return _WORDS.get(value.strip().lower()) if isinstance(value, str) and len(value) < 12 else None


def point_of(mapping: Mapping[Any, Any]) -> Point | None:
    """The point of a mapping with any names; None where it has no number but its place."""
    values = dict(_numbers("", mapping, 0))
    step, epoch, time = (_take(values, names) for names in (_STEPS, _EPOCHS, _TIMES))
    return Point(values, step, epoch, time) if values else None


def _numbers(name: str, value: Any, depth: int) -> Iterator[Tuple[str, float]]:
    for key, inner in list(value.items())[:_MOST]:
        joined = f"{name}.{key}" if name else str(key)
        if not joined.strip() or not joined.isprintable() or len(joined) > _LONGEST:
            continue
        number = value_of(inner)
        if number is not None:
            yield joined, number
        elif isinstance(inner, dict) and depth < _DEEPEST:
            yield from _numbers(joined, inner, depth + 1)


def _take(values: Dict[str, float], names: Tuple[str, ...]) -> float | None:
    """The first finite one of some names, which are all taken out."""
    candidates = [values.pop(name) for name in list(values) if name.lower() in names]
    return next((value for value in candidates if math.isfinite(value)), None)
