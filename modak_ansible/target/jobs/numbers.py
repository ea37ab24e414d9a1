"""The numbers that a script has written into its metrics.json, by name, in whatever form it wrote them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

_OF_EVERY_EPOCH = ("seconds", "test_accuracy", "images_per_second")
_MOST, _DEEPEST = 24, 3
_LONGEST = 60
# Parts of names that say how a script ran, not how well: they are told behind the others.
_ASIDE = (
    "second", "time", "runtime", "flos", "step", "epoch", "seed", "version", "sample", "batch", "param", "lr",
    "learning_rate", "grad_norm", "thread", "core",
)  # fmt: skip


def number(value: Any) -> float | None:
    """The value, where it is a finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return value if math.isfinite(value) else None
    except OverflowError:  # an integer that no float holds
        return None


def numbers_of_epoch(epoch: dict[str, Any]) -> dict[str, float]:
    """Those of one of the epochs that a script lists, but for what is told of every epoch anyway."""
    return numbers_of({name: value for name, value in epoch.items() if name not in _OF_EVERY_EPOCH})


def numbers_of(metrics: Any) -> dict[str, float]:
    """All numbers, those first that say how well a training has gone.

    A name within a name is joined by a dot; of a list it is the last element's, which is the newest.
    """
    numbers: list[tuple[str, float]] = []
    for name, value in _walk("", metrics, 0):
        numbers.append((name, value))
        if len(numbers) >= 10 * _MOST:
            break
    return dict(_sorted(numbers)[:_MOST])


def shown_numbers(numbers: dict[str, float], count: int) -> list[str]:
    """The first of named numbers, for people: ``accuracy 97.22%``, ``test.r2 0.8312``."""
    return [f"{name} {_shown(name, value)}" for name, value in _sorted(list(numbers.items()))[:count]]


def _shown(name: str, value: float) -> str:
    if "accuracy" in name and 0 <= value <= 1:
        return f"{value:.2%}"
    return str(value) if isinstance(value, int) and abs(value) < 10**9 else f"{value:.4g}"


def _sorted(numbers: list[tuple[str, float]]) -> list[tuple[str, float]]:
    return sorted(numbers, key=lambda item: (any(word in item[0].lower() for word in _ASIDE), item[0].count(".")))


def _walk(name: str, value: Any, depth: int) -> Iterator[tuple[str, float]]:
    if isinstance(value, list):
        value = value[-1] if value else None
    plain = number(value)
    if plain is not None and name:
        yield name, plain
    elif isinstance(value, dict) and depth < _DEEPEST:
        for key, inner in value.items():
            joined = f"{name}.{key}" if name else str(key)
            if joined.isprintable() and len(joined) <= _LONGEST:
                yield from _walk(joined, inner, depth + 1)
