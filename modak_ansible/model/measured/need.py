"""What a training needs of memory, as a trace of its script told: it was run with tensors that have sizes alone.

Resident are the process itself (what it imports, what libraries take when they compute) and its tensors, as the
allocator lays them out. What grows with the batch is known for a whole one, a half and an eighth, with lines between
them.
"""

from __future__ import annotations

from pydantic import Field

from modak_ansible.model.base import Model
from modak_ansible.model.measured.prediction import Interval
from modak_ansible.model.quantities import format_size

# How far measured peaks were below and above predicted ones at most, over benchmarks/memory/records.jsonl: of one
# process, and of several, where batch norm over ranks takes what no trace of one process shows.
_LOW, _HIGH, _HIGH_OF_SEVERAL = 0.89, 1.3, 1.55
# Of a model whose parameters are shared out: the units that are whole at one time, with their gradients on the way.
_WHOLE_UNITS = 4


class TracedLoop(Model):
    """A loop of the script over batches.

    Attributes:
        rows: samples of a batch; 0 in a loop over something that is no loader.
        steps: of optimisers; none in a loop that evaluates.
        tensors: most bytes that are in use at a time, by what the batch was divided by.
        peaks: the same with what the allocator keeps besides.
    """

    rows: int
    steps: int
    tensors: dict[int, int]
    peaks: dict[int, int]


class TracedBlocks(Model):
    """Modules of one kind that follow each other in a network; bytes for one whole batch.

    Attributes:
        saved: what they all keep for the backward pass.
        largest: the same of the one that keeps most.
        outputs: of what they give to each other.
    """

    kind: str
    count: int
    saved: int
    largest: int
    outputs: int


class Need(Model):
    """What the one process of a training takes; all sizes in bytes."""

    key: str = Field(description="of the script, its files and arguments, and of what it runs in")
    training: str = Field(description="its name, for people")
    parameters: int
    gradients: int = Field(description="of the parameters that learn")
    buffers: int
    state: int = Field(description="of optimisers")
    setup: int = Field(description="before the first batch")
    loops: tuple[TracedLoop, ...]
    blocks: tuple[TracedBlocks, ...] = ()
    units: tuple[int, ...] = Field(default=(), description="what is whole at one time where parameters are shared out")
    framework: int = Field(description="resident when the framework is imported")
    script: int = Field(description="resident besides, by what the script imports and reads before it trains")
    computing: int = Field(description="resident besides, when libraries have computed for the first time")

    @property
    def base(self) -> int:
        """Bytes without any tensor."""
        return self.framework + self.script + self.computing


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


def format_peak(peak: Interval) -> str:
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
