"""Compares configurations by what was measured."""

from __future__ import annotations

from typing import Protocol

from modak_ansible.model.measured.prediction import Gain, Interval, Prediction, Question
from modak_ansible.planning.configurations import Configuration

ALIKE = Gain(ratio=Interval(middle=1, low=1, high=1), records=0, known=False, why="the records do not tell them apart")
UNKNOWN = Gain(
    ratio=Interval(middle=1, low=0, high=float("inf")), records=0, known=False, why="nothing similar was measured"
)


class PerformanceModel(Protocol):
    """What knows how long things take."""

    def predict(self, question: Question) -> Prediction:
        """How long a whole run takes."""

    def gain(self, old: Question, new: Question) -> Gain:
        """How much faster the new configuration is than the old one."""


class Weighing:
    """Compares configurations by the performance model; no two of them twice."""

    def __init__(self, model: PerformanceModel | None) -> None:
        self.model = model
        self._gains: dict[object, Gain] = {}

    def gain(self, old: Configuration, new: Configuration) -> Gain:
        if self.model is None:
            return UNKNOWN
        if old.draft.is_alike(new.draft):
            return ALIKE
        key = (old.key, new.key)
        if key not in self._gains:
            self._gains[key] = self.model.gain(old.question, new.question)
        return self._gains[key]

    def best(self, first: Configuration, candidates: list[Configuration]) -> Configuration:
        """The one that surely gains most over the first, of those whose gain is more than noise."""
        best, ratio = first, 1.0
        for candidate in candidates:
            gain = self.gain(first, candidate)
            if gain.is_faster() and gain.surely() > ratio:
                best, ratio = candidate, gain.surely()
        return best
