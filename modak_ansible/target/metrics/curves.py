"""The numbers of a training as curves: every file of metrics that it has left, in bounded memory."""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Dict, Iterable, List, NamedTuple, Tuple

from . import events, texts
from .files import EVENTS, LARGEST, in_order, kind_of, label_of
from .points import Point, Remarks

# Points of a curve that are kept, and curves of a training.
_KEPT, _CURVES = 10_000, 500
_ALIKE = 1e-5
_RISING = (
    "acc", "f1", "auc", "bleu", "rouge", "r2", "precision", "recall", "iou", "dice", "score", "reward", "return",
    "per_second", "throughput", "correct", "win",
)  # fmt: skip
_FALLING = ("loss", "error", "incorrect", "inaccura")
_WORD = re.compile(r"[A-Z]*[a-z]+|[A-Z]+")  # of a name such as valErr_top1


@dataclass
class Curve:
    """One number over a training."""

    by: str = "step"  # what the places of its points are: step, epoch, or point where the script says neither
    # place and value, by place; the last value that was written for a place
    points: Dict[float, float] = field(default_factory=dict)
    # seconds since the epoch, by place, where the script tells them
    times: Dict[float, float] = field(default_factory=dict)
    again: int = 0  # how often a value was written for a place that had one

    @property
    def last(self) -> float:
        return self.points[max(self.points)]

    def best(self, *, rising: bool) -> Tuple[float, float] | None:
        """Place and value of the best point; None where none is finite."""
        finite = [(place, value) for place, value in self.points.items() if math.isfinite(value)]
        return (max if rising else min)(finite, key=lambda point: point[1], default=None)

    @property
    def lost_at(self) -> float | None:
        """From which place on no value is a finite number; None where the last one is."""
        place = None
        for point in sorted(self.points, reverse=True):
            if math.isfinite(self.points[point]):
                break
            place = point
        return place


@dataclass
class Curves:
    """All numbers of a training."""

    by_name: Dict[str, Curve] = field(default_factory=dict)  # each as a curve
    remarks: List[str] = field(default_factory=list)  # what is wrong with its files, in words
    epoch: float | None = None  # the highest that is told; None where none is

    @property
    def step(self) -> float | None:
        """The highest that is told; None where none is."""
        return max((max(curve.points) for curve in self.by_name.values() if curve.by == "step"), default=None)

    @property
    def last(self) -> Dict[str, float]:
        """The last value of each that is a finite number."""
        return {name: curve.last for name, curve in self.by_name.items() if math.isfinite(curve.last)}

    @property
    def lost(self) -> List[str]:
        """Which ones are no finite numbers any more, in words."""
        lost_places = ((name, curve, curve.lost_at) for name, curve in self.by_name.items())
        return [
            f"{name} has been {curve.last} since {curve.by} {place:g}"
            for name, curve, place in lost_places
            if place is not None
        ]


def is_rising(name: str) -> bool:
    """Whether more of it is better, by its name; not of a loss or an error, whatever else is in the name."""
    lowercase = name.lower()
    words = (word.lower() for word in _WORD.findall(name))
    falls = any(word in lowercase for word in _FALLING) or any(word.endswith(("err", "errs")) for word in words)
    return any(word in lowercase for word in _RISING) and not falls


def read_curves(folder: Path, paths: Iterable[str], most: int = 0) -> Curves:
    """Reads files of metrics.

    Args:
        paths: of whatever files; those that hold no metrics are passed over.
        most: bytes at the end of each that are read; 0 for as many as are read at all.
    """
    result = Curves()
    by_key: Dict[str, Dict[str, _Curve]] = {}
    for key, key_paths in in_order(paths).items():
        curves = by_key.setdefault(key, {})
        for path in key_paths:
            _read(folder, path, most, curves, result)
    result.by_name = _name_curves(by_key, result.remarks)
    return result


def _read(folder: Path, path: str, most: int, curves: Dict[str, "_Curve"], result: Curves) -> None:
    remarks, names = Remarks(path), set()
    reader = texts.READERS.get(kind_of(path), events.points)
    try:
        with (folder / path).open("rb") as file:
            if reader is not events.points and texts.is_binary(file, remarks):
                result.remarks += remarks.lines
                return
            size = os.fstat(file.fileno()).st_size
            if not most and size > LARGEST and reader is not texts.json_document:  # which reads no such file
                remarks.add(f"has {size >> 20:,} MiB, of which the last {LARGEST >> 20} are read")
            for point in reader(file, most or LARGEST, remarks):
                if point.epoch is not None:
                    result.epoch = max(point.epoch, result.epoch or point.epoch)
                for name, value in point.values.items():
                    if name not in curves and len(curves) >= _CURVES:
                        remarks.add(f"has more than {_CURVES} names; the others are left out")
                        continue
                    curve = curves.setdefault(name, _Curve())
                    if name not in names:
                        names.add(name)
                        curve.resume_at(point)
                    curve.add(point, value)
    except OSError as error:
        remarks.add(f"cannot be read: {error.strerror}")
    result.remarks += remarks.lines


class _Moment(NamedTuple):
    """A value with its places: the number counts what was written."""

    step: float | None
    epoch: float | None
    number: float
    time: float | None
    value: float


class _Curve:
    """A curve while it is read: with all places of its points, until it is known which are told of all."""

    def __init__(self) -> None:
        self._points: List[_Moment] = []
        self._stride, self._count = 1, 0
        self._lowest: _Moment | None = None
        self._highest: _Moment | None = None

    def resume_at(self, first: Point) -> None:
        """Takes that a later run begins, which trains anew what lies behind its first point."""
        if first.step is not None:
            self._points = [point for point in self._points if point.step is None or point.step < first.step]
        elif first.epoch is not None:
            self._points = [point for point in self._points if point.epoch is None or point.epoch < first.epoch]
        points, self._points, self._lowest, self._highest = self._points, [], None, None
        for point in points:
            self._take(point)

    def add(self, point: Point, value: float) -> None:
        self._count += 1
        self._take(_Moment(point.step, point.epoch, float(self._count), point.time, value))

    def _take(self, new: _Moment) -> None:
        if math.isfinite(new.value):
            self._lowest = new if self._lowest is None or new.value < self._lowest.value else self._lowest
            self._highest = new if self._highest is None or new.value > self._highest.value else self._highest
        if self._points and self._points[-1].number % self._stride:
            self._points.pop()  # it was the last one until now
        self._points.append(new)
        if len(self._points) > 2 * _KEPT:
            self._stride *= 2
            self._points = [point for point in self._points if not point.number % self._stride or point is new]

    def finish(self) -> Curve:
        unit, index = self._placement()
        curve = Curve(unit)
        extremes = [moment for moment in (self._lowest, self._highest) if moment and self._stride > 1]
        for moment in sorted({*self._points, *extremes}, key=lambda moment: moment.number):
            place = moment[index]
            assert place is not None  # noqa: S101 - for mypy: it is told of all
            curve.again += place in curve.points
            curve.points[place] = moment.value
            if moment.time is not None:
                curve.times[place] = moment.time
        curve.points = dict(sorted(curve.points.items()))
        return curve

    def _placement(self) -> Tuple[str, int]:
        """By what points are placed: steps that begin anew in each epoch are no places, nor is one epoch for all."""
        pairs = list(zip(self._points, self._points[1:]))
        if all(point.step is not None for point in self._points):
            if not any(_begins_anew(*pair) for pair in pairs):
                return "step", 0
        elif all(point.epoch is not None for point in self._points) and not any(a.epoch == b.epoch for a, b in pairs):
            return "epoch", 1
        return "point", 2


def _begins_anew(point: _Moment, next_point: _Moment) -> bool:
    if point.step is None or next_point.step is None or point.epoch is None or next_point.epoch is None:
        return False
    return next_point.epoch > point.epoch and next_point.step <= point.step


def _name_curves(by_key: Dict[str, Dict[str, _Curve]], remarks: List[str]) -> Dict[str, Curve]:
    """The curves by their names; of files of several folders with the folder before those that they share."""
    by_name: Dict[str, Curve] = {}
    kinds: Dict[str, str] = {}
    for key, curves in by_key.items():
        for name, raw in curves.items():
            rivals = [
                other_key
                for other_key in by_key
                if other_key != key and _kind(other_key) == _kind(key) and name in by_key[other_key]
            ]
            labels = {label_of(other_key) for other_key in rivals}
            label = label_of(key)
            full_name = f"{label}/{name}" if rivals and label and label not in labels else name
            curve = raw.finish()
            if not curve.points:
                continue
            if full_name not in by_name or len(curve.points) > len(by_name[full_name].points):
                by_name[full_name], kinds[full_name] = curve, _kind(key)
    for name in [
        name for name in by_name if "/" in name and kinds[name] == EVENTS and _is_duplicate(name, by_name, kinds)
    ]:
        del by_name[name]
    for name, curve in by_name.items():
        if curve.again:
            places = "1 place" if curve.again == 1 else f"{curve.again} places"
            remarks.append(f"{name} was written again for {places}; the last values count")
    return by_name


def _kind(key: str) -> str:
    return key.rpartition("|")[2]


def _is_duplicate(name: str, by_name: Dict[str, Curve], kinds: Dict[str, str]) -> bool:
    """Whether a trainer's own log has the same under the name that it has there: ``eval/loss`` for ``eval_loss``."""
    for alias in (name.replace("/", "_"), name.partition("/")[2]):
        if alias in by_name and kinds[alias] != EVENTS:
            return math.isclose(by_name[alias].last, by_name[name].last, rel_tol=_ALIKE)
    return False
