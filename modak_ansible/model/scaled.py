"""Nodes, processes and threads that are taken instead of those that were asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Shape(NamedTuple):
    """So many processes on each of so many nodes."""

    nodes: int
    processes_per_node: int

    @property
    def processes(self) -> int:
        return self.nodes * self.processes_per_node


@dataclass(frozen=True)
class Scaled:
    """What is taken instead of what was asked for.

    Attributes:
        asked: nodes and processes; of a program with threads alone, ``threads`` counts.
        why_not: why it stays as asked; empty where the law decides.
        efficiency: of what is taken; None where nothing is known.
        seconds: of what was asked for by what is taken: over 1 where it becomes faster.
        records: measured runs that the law rests on; 0 where the request names an efficiency that was seen.
    """

    asked: Shape
    taken: Shape
    threads: int
    threads_taken: int
    why_not: str = ""
    efficiency: float | None = None
    faster: float | None = None
    records: int = 0

    @property
    def is_changed(self) -> bool:
        return (self.asked, self.threads) != (self.taken, self.threads_taken)

    @property
    def value(self) -> str:
        return named(self.taken, self.threads_taken)

    @property
    def stock(self) -> str:
        return named(self.asked, self.threads)


def named(shape: Shape, threads: int) -> str:
    """A shape in a word: nodes x processes x threads."""
    return f"{shape.nodes}x{shape.processes_per_node}x{threads}"
