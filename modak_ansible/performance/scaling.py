"""How a program's time depends on the number of its processes, and how many of them are worth it.

Amdahl's law with the time of communication: T(p) = a + b / p + c g(p), where a is what every process does again, b what
they share out, and g(p) = log2(p), of collective operations on trees, or p - 1, of messages from each to each. All
three are nought or more. They are fitted to measured runs, exactly and without numpy: of three coefficients, each may
be nought, which makes seven small systems of equations, and the best that has no negative one is the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from math import inf, isfinite, log2
from typing import Literal, NamedTuple, Protocol

from modak_ansible.model.scaled import Scale, Shape

Form = Literal["log2", "linear"]

REACH = 2  # how far beyond the largest number of processes that was measured the law is trusted
_SLACK = 1e-9
_FORMS: dict[Form, Callable[[int], float]] = {"log2": log2, "linear": lambda p: p - 1.0}


class ScalingRun(NamedTuple):
    """A measured run: seconds of the same whole work, by so many processes."""

    processes: int
    seconds: float


class Scaling(NamedTuple):
    """The law of one program on one machine."""

    serial: float  # a, in seconds; ``parallel`` and ``communication`` are b and c
    parallel: float
    communication: float
    form: Form
    measured: int  # the largest number of processes that was measured
    is_known: bool  # false where all runs had the same number of processes, which tells nothing of another number
    records: int  # how many runs it rests on
    off: float  # the largest relative difference of a measured run from the law

    @property
    def most(self) -> int:
        """The largest number of processes for which it is trusted: twice what was measured."""
        return self.measured * REACH

    def seconds(self, processes: int) -> float:
        """T(p)."""
        return self.serial + self.parallel / processes + self.communication * _FORMS[self.form](processes)

    def efficiency(self, processes: int) -> float:
        """T(1) / (p T(p)): 1 where twice the processes take half the time."""
        if processes == 1:
            return 1.0
        serial_time, parallel_time = self.seconds(1), self.seconds(processes)
        return serial_time / (processes * parallel_time) if parallel_time > 0 and serial_time > 0 else 0.0


def fit_scaling(runs: Iterable[ScalingRun]) -> Scaling:
    """The law that fits some runs best, relative to each run's own time.

    With one number of processes nothing is known of another; with two there is no telling communication from what is
    serial, and all of it counts as serial.

    Raises:
        ValueError: there are no runs, or one of them has no processes or no time.
    """
    measured_runs = list(runs)
    if not measured_runs:
        raise ValueError("nothing was measured")
    for run in measured_runs:
        if run.processes < 1 or not (isfinite(run.seconds) and run.seconds > 0):
            raise ValueError(f"{run.processes} processes and {run.seconds} s are not a run")
    numbers = {run.processes for run in measured_runs}
    forms: tuple[Form, ...] = ("log2", "linear") if len(numbers) > 2 else ("log2",)
    coefficient_count = 3 if len(numbers) > 2 else len(numbers)
    laws = [(_least_squares(measured_runs, form, coefficient_count), form) for form in forms]
    (_, (serial, parallel, communication)), form = min(laws, key=lambda law: law[0][0])
    law = Scaling(serial, parallel, communication, form, max(numbers), len(numbers) > 1, len(measured_runs), 0.0)
    off = max(abs(law.seconds(run.processes) / run.seconds - 1) for run in measured_runs)
    return law._replace(off=off)


def seen_efficiency(processes: int, efficiency: float) -> Scaling:
    """Amdahl's law from one observation: so many processes had this parallel efficiency.

    Raises:
        ValueError: there is no such observation: the efficiency is not over 0 and at most 1.
    """
    if processes < 1 or not 0 < efficiency <= 1:
        raise ValueError(f"an efficiency of {efficiency} with {processes} processes cannot have been seen")
    if processes == 1:
        return Scaling(0.0, 1.0, 0.0, "log2", 1, False, 1, 0.0)
    serial = min(1.0, (1 / efficiency - 1) / (processes - 1))
    return Scaling(serial, 1 - serial, 0.0, "log2", processes, True, 1, 0.0)


class Limits(NamedTuple):
    nodes: int  # at most
    cores: int  # of a node
    threads: int = 1  # of each process
    shared: int = 1  # processes to a core, where they share it

    @property
    def processes_per_node(self) -> int:
        """At most."""
        return max(1, self.cores // self.threads * self.shared)


class Law(Protocol):
    """How long whole work takes so many processes.

    Attributes:
        most: the largest number of processes for which it holds.
    """

    @property
    def most(self) -> int: ...

    def seconds(self, processes: int) -> float:
        """T(p)."""

    def efficiency(self, processes: int) -> float:
        """T(1) / (p T(p))."""


def choose(law: Law, scale: Scale, limits: Limits, walltime: float = inf, *, fills_nodes: bool = False) -> Shape:
    """The best shape within the limits whose efficiency is not below the minimal one; no node more than it needs.

    One process always is efficient enough. Where nothing ends within the wall time, the fastest is the cheapest.

    Args:
        scale: what best means.
        walltime: seconds that it may take, where its cost counts.
        fills_nodes: whether every node has all the processes that it can have.
    """
    minimum = scale.minimal_efficiency - _SLACK
    candidates = [
        (shape, law.seconds(shape.processes))
        for shape in shapes(limits, law.most, fills_nodes=fills_nodes)
        if law.efficiency(shape.processes) >= minimum
    ]
    in_time = [candidate for candidate in candidates if candidate[1] <= walltime]
    if scale.objective == "cost" and in_time:
        candidates = [(shape, shape.processes * seconds) for shape, seconds in in_time]
    elif scale.objective == "efficiency":
        candidates = [(shape, -shape.processes) for shape, _ in candidates]
    best: tuple[Shape, float] | None = None
    for shape, value in candidates:
        if best is None or value < best[1] - _SLACK * abs(best[1]):
            best = shape, value
    return best[0] if best else Shape(1, limits.processes_per_node if fills_nodes else 1)


def shapes(limits: Limits, most_processes: int, *, fills_nodes: bool = False) -> list[Shape]:
    """Every shape of so many processes at most that would not do with a node less; those with fewer processes first."""
    candidates, full = [], limits.processes_per_node
    if fills_nodes:
        return [Shape(nodes, full) for nodes in range(1, max(1, min(limits.nodes, most_processes // full)) + 1)]
    for nodes in range(1, max(1, limits.nodes) + 1):
        fewest = (nodes - 1) * full // nodes + 1
        if nodes * fewest > most_processes:
            break
        candidates += [Shape(nodes, number) for number in range(fewest, min(full, most_processes // nodes) + 1)]
    return sorted(candidates, key=lambda shape: shape.processes)


# --- non-negative least squares of at most three coefficients


def _least_squares(
    runs: Sequence[ScalingRun], form: Form, coefficient_count: int
) -> tuple[float, tuple[float, float, float]]:
    """The smallest sum of squared relative differences, and the coefficients that have it."""
    share = _FORMS[form]
    columns = [[1.0, 1.0 / run.processes, share(run.processes)][:coefficient_count] for run in runs]
    if coefficient_count == 1:  # one number of processes: all of it counts as shared out, of which nobody asks
        columns = [[0.0, 1.0 / run.processes] for run in runs]
    rows = [[value / run.seconds for value in row] for row, run in zip(columns, runs, strict=True)]
    best, coefficients = inf, (0.0, 0.0, 0.0)
    for size in range(1, len(rows[0]) + 1):
        for places in combinations(range(len(rows[0])), size):
            solution = _solve([[row[place] for place in places] for row in rows])
            if solution is None or min(solution) < 0:
                continue
            values = [0.0, 0.0, 0.0]
            for place, value in zip(places, solution, strict=True):
                values[place] = value
            residual = sum((sum(a * b for a, b in zip(row, values, strict=False)) - 1.0) ** 2 for row in rows)
            if residual < best - 1e-15:
                best, coefficients = residual, (values[0], values[1], values[2])
    if not any(coefficients):  # times so far apart that squares of their ratios tell nothing
        from statistics import median  # noqa: PLC0415 - slow to import

        coefficients = (median(run.seconds for run in runs), 0.0, 0.0)
    return best, coefficients


def _solve(rows: Sequence[Sequence[float]]) -> list[float] | None:
    """Least squares of rows x = 1 by the normal equations; None where they have no single answer."""
    size = len(rows[0])
    scale = [max(abs(row[place]) for row in rows) for place in range(size)]
    if not all(scale):
        return None
    scaled_rows = [[value / divisor for value, divisor in zip(row, scale, strict=True)] for row in rows]
    matrix = [
        [sum(row[i] * row[j] for row in scaled_rows) for j in range(size)] + [sum(row[i] for row in scaled_rows)]
        for i in range(size)
    ]
    for i in range(size):
        pivot = max(range(i, size), key=lambda place: abs(matrix[place][i]))
        matrix[i], matrix[pivot] = matrix[pivot], matrix[i]
        if abs(matrix[i][i]) < 1e-12 * len(rows):
            return None
        for j in range(size):
            if j != i:
                factor = matrix[j][i] / matrix[i][i]
                matrix[j] = [a - factor * b for a, b in zip(matrix[j], matrix[i], strict=True)]
    return [matrix[i][size] / matrix[i][i] / scale[i] for i in range(size)]
