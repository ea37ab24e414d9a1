"""What a process of a training needs of memory, by a trace of its script, and how much of its node it has.

Resident are the process itself (what it imports, what libraries take when they compute) and its tensors, as the
allocator lays them out. What grows with the batch is known for a whole one, a half and an eighth, with lines between
them. Pure.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from modak_ansible.model.measured.need import Need, TracedLoop
from modak_ansible.model.measured.prediction import Interval
from modak_ansible.model.process_layout import ProcessLayout
from modak_ansible.model.quantities import format_size
from modak_ansible.model.request import Request
from modak_ansible.model.target import Partition

Kept = Literal["fits", "recomputed", "out-of-core"]
# How far measured peaks were below and above predicted ones at most, over benchmarks/memory/records.jsonl: of one
# process, and of several, where batch norm over ranks takes what no trace of one process shows.
_LOW, _HIGH, _HIGH_OF_SEVERAL = 0.89, 1.3, 1.55
# Of a model whose parameters are shared out: the units that are whole at one time, with their gradients on the way.
_WHOLE_UNITS = 4


class Limit(NamedTuple):
    """Bytes that each process has, and who says so."""

    bytes: int
    reason: str


def limit_of(request: Request, partition: Partition | None, layout: ProcessLayout) -> Limit | None:
    """What each process of a job may take; None where nobody knows."""
    share = layout.processes_per_node
    each = f", for {share} processes" if share > 1 else ""
    asked, target = request.resources.memory, request.target
    if asked:
        return Limit(asked // share, f"what is asked for a node{each}")
    if partition and partition.memory:
        return Limit(partition.memory // share, f"a node of the partition {partition.name}{each}")
    return (
        Limit(target.processor.memory // share, f"a node of {target.name}{each}") if target.processor.memory else None
    )


def peak_of(
    need: Need, ranks: int = 1, strategy: str = "none", kept: str = "fits", batch: int | None = None
) -> Interval:
    """Bytes that a process takes at most.

    Args:
        need: the trace of one process with the whole batch.
        ranks: processes that train together.
        strategy: ``ddp`` and ``fsdp`` share out the batch, and ``fsdp`` the parameters and what belongs to them, too.
        kept: where what the backward pass needs is: in memory, computed again, or in files.
        batch: of all ranks together, where it is not that of the trace.
    """
    share = 1.0 / ranks if strategy in ("ddp", "fsdp") else 1.0
    rows = max((loop.rows for loop in need.loops if loop.steps), default=0)
    if batch and rows:
        share *= batch / rows
    trains = max((_at(loop, share) for loop in need.loops if loop.steps), default=0.0)
    evaluates = max((_at(loop, 1.0) for loop in need.loops if not loop.steps), default=0.0)
    if kept == "recomputed":
        spared = sum(max(0, each.saved - each.outputs - each.largest) for each in need.blocks)
        trains -= share * spared
    tensors = max(trains, evaluates)
    if kept == "out-of-core":
        tensors = 0.0  # in files, of which the kernel keeps what there is room for
    elif strategy == "ddp" and ranks > 1:
        tensors += need.parameters  # their gradients as they travel; of what does not learn yet, too
    elif strategy == "fsdp" and ranks > 1:
        tensors -= (1 - 1 / ranks) * (need.parameters + need.gradients + need.state)
        tensors += _WHOLE_UNITS * max(need.units, default=need.parameters)
        tensors = max(tensors, need.setup)
    middle = need.base + tensors
    return Interval(middle=middle, low=_LOW * middle, high=(_HIGH if ranks == 1 else _HIGH_OF_SEVERAL) * middle)


def told(peak: Interval) -> str:
    """A peak for people: ``1.2 GB (1.1 GB to 1.5 GB)``."""
    middle, low, high = (format_size(round(each)) for each in (peak.middle, peak.low, peak.high))
    return f"{middle} ({low} to {high})"


def _at(loop: TracedLoop, share: float) -> float:
    """The most that a loop takes with a share of its batch."""
    known = sorted((1.0 / divisor, peak) for divisor, peak in loop.peaks.items())
    if len(known) == 1:
        return known[0][1] * max(1.0, share)
    below = next((place for place, (where, _) in enumerate(known[1:-1]) if share < where), len(known) - 2)
    (x, y), (u, v) = known[below], known[below + 1]
    return max(0.0, y + (v - y) * (share - x) / (u - x))
