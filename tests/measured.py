"""A performance model that knows what a test tells it."""

from __future__ import annotations

from modak_ansible.model.measured.prediction import Gain, Interval, Prediction


class Measured:
    """Every setting multiplies the speed; those that are not named change nothing.

    Args:
        spread: relative half width of the interval of every gain.
        entries: speed by catalogue entry.
        unknown: settings that were never measured, as ``allocator_tcmalloc``.
        speeds: speed by setting and value, as ``allocator_tcmalloc=1.3``; stock is 1.
    """

    def __init__(
        self,
        *,
        spread: float = 0.02,
        entries: dict[str, float] | None = None,
        unknown: tuple[str, ...] = (),
        **speeds: float,
    ) -> None:
        self._unknown = unknown
        self._spread = spread
        self._entries = entries or {}
        self._speeds = speeds

    def _names(self, question) -> set[str]:
        return {question.entry, *(f"{name}_{value}".replace("-", "_") for name, value in question.settings.items())}

    def _speed(self, question) -> float:
        speed = 1.0
        for name in self._names(question):
            speed *= self._speeds.get(name, self._entries.get(name, 1.0))
        return speed

    def gain(self, old, new) -> Gain:
        differing = self._names(old) ^ self._names(new)
        if differing & set(self._unknown):
            wide = Interval(middle=1, low=0.1, high=10)
            return Gain(ratio=wide, records=0, known=False, why="nobody measured it")
        ratio = self._speed(new) / self._speed(old)
        spread = self._spread if ratio != 1 else 0.0
        return Gain(
            ratio=Interval(middle=ratio, low=ratio * (1 - spread), high=ratio * (1 + spread)), records=5, known=True
        )

    def predict(self, question) -> Prediction:
        middle = 100 / self._speed(question)
        interval = Interval(middle=middle, low=middle * 0.9, high=middle * 1.1)
        return Prediction(
            seconds=interval,
            parts={"training": interval},
            core_hours=middle / 3600,
            records=5,
            known=not self._names(question) & set(self._unknown),
        )
