"""What a training needs of memory, as a trace of its script told: it was run with tensors that have sizes alone."""

from __future__ import annotations

from pydantic import Field

from modak_ansible.model.base import Model


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
