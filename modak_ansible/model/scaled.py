"""How many nodes, processes and threads may be chosen, and what is taken instead of what was asked for."""

from typing import Literal, NamedTuple

from pydantic import Field

from modak_ansible.model.base import Model
from modak_ansible.model.measured.prediction import Interval

Objective = Literal["time", "cost", "efficiency"]


class Scale(Model):
    """What the planner may choose the numbers of nodes and processes for."""

    objective: Objective = Field(
        default="time",
        description="time: the soonest end; cost: the fewest core-hours that end within the walltime; "
        "efficiency: the most nodes; each among those that are efficient enough",
    )
    minimal_efficiency: float = Field(
        default=0.0, ge=0, le=1, description="parallel efficiency that is efficient enough"
    )
    at_most: int | None = Field(default=None, ge=1, description="nodes; None for as many as the partition has")


class ScalePoint(Model):
    """What so many nodes come to."""

    nodes: int
    processes: int = Field(description="of all nodes")
    seconds: Interval
    efficiency: float = Field(description="T(1) / (p T(p)) of p processes")
    core_hours: float | None = None
    measured: int = Field(
        default=0, description="runs with as many processes that are on record; what stands here is predicted"
    )


class PlannedScale(Model):
    """The numbers of nodes that were weighed."""

    asked: Scale
    source: str = Field(description="what the times come from")
    curve: tuple[ScalePoint, ...]


class Shape(NamedTuple):
    """So many processes on each of so many nodes."""

    nodes: int
    processes_per_node: int

    @property
    def processes(self) -> int:
        return self.nodes * self.processes_per_node


class Scaled(NamedTuple):
    """What is taken instead of what was asked for.

    Attributes:
        seconds: of what was asked for by what is taken: over 1 where it becomes faster.
    """

    asked: Shape  # nodes and processes; of a program with threads alone, ``threads`` counts
    taken: Shape
    threads: int
    threads_taken: int
    why_not: str = ""  # why it stays as asked; empty where the law decides
    efficiency: float | None = None  # of what is taken; None where nothing is known
    faster: float | None = None
    source: str = ""  # what the law rests on, in words
    curve: tuple[ScalePoint, ...] = ()  # what was weighed, by nodes

    @property
    def is_changed(self) -> bool:
        return (self.asked, self.threads) != (self.taken, self.threads_taken)

    @property
    def value(self) -> str:
        return shape_word(self.taken, self.threads_taken)

    @property
    def stock(self) -> str:
        return shape_word(self.asked, self.threads)


def shape_word(shape: Shape, threads: int) -> str:
    """A shape in a word: nodes x processes x threads."""
    return f"{shape.nodes}x{shape.processes_per_node}x{threads}"
