"""What the performance model is asked, and what it answers."""

from math import inf

from pydantic import Field

from modak_ansible.model.base import Model
from modak_ansible.model.measured.timed_steps import TimedSteps
from modak_ansible.model.measured.work import Work

LEVEL = 0.9  # of intervals: how often what is measured lies inside
SIGMAS = 1.6449  # standard deviations of a normal distribution from the middle of its 90 % interval to either end


class Interval(Model):
    """A quantity and the 90 % interval around it."""

    middle: float
    low: float
    high: float


class Split(Model):
    """What processes do that share out layers; without a trace nobody knows.

    Attributes:
        left: of what one process computes, that a step waits for.
        messages: that a step waits for; ``size``: bytes of all of them.
        are_sums: whether messages are sums of all with parts of one copy, else go from one to the next.
        gradients: bytes of those that copies of the model sum, each process with its own part.
        followed: operators that each process follows, be they its own or not, in all turns of a step.
    """

    left: float = 1.0
    messages: int = 0
    size: int = 0
    are_sums: bool = True
    gradients: int = 0
    followed: int = 0


class Question(Model):
    """One training in one configuration on one target.

    Settings hold what differs from the stock run, under the names that suites and records use: memory_format, compiler,
    precision, matmul, allocator, input, step_loop, wait_policy, staging, huge_pages, batch_size ...
    """

    work: Work = Work()
    is_traced: bool = Field(default=False, description="whether the script was traced, and told what it could")
    timed: TimedSteps | None = Field(default=None, description="steps of it that were made on the target")
    framework: str
    version: str = ""
    entry: str = Field(default="", description="the catalogue entry; empty for an image that the user gives")
    origin: str = ""
    container: bool = True
    settings: dict[str, str] = {}
    architecture: str = Field(default="", description="archspec name of the processor")
    processor: str = Field(default="", description="model name, as the kernel gives it, where that is known")
    peak_gflops: float | None = Field(default=None, gt=0, description="GFLOP/s in single precision of one node")
    peak_gflops_bf16: float | None = Field(default=None, gt=0, description="the same in bf16")
    memory_bandwidth: float | None = Field(default=None, gt=0, description="GB/s of one node")
    node_cores: int | None = Field(default=None, ge=1)
    cores: int | None = Field(default=None, ge=1, description="of one process")
    threads: int | None = Field(default=None, ge=1)
    nodes: int = Field(default=1, ge=1)
    processes_per_node: int = Field(default=1, ge=1)
    latency: float | None = Field(default=None, gt=0, description="microseconds of an empty message between two nodes")
    bandwidth: float | None = Field(default=None, gt=0, description="GB/s of a large message between two nodes")
    shares_batch: bool = Field(
        default=False, description="whether the processes share out the batch; else each has all of it"
    )
    gathers: bool = Field(
        default=False,
        description="whether each process keeps a part of the parameters, and all gather layers to compute",
    )
    copies: int = Field(default=1, ge=1, description="of a model whose parts processes have, which are data parallel")
    split: Split | None = Field(default=None, description="how they share out layers, where they do")
    accelerator: str = ""
    dataset_bytes: int | None = Field(default=None, ge=0)


_PROBABLE = 0.8416  # the same from the middle to the bound that 80 % lie above
_WORTH = 1.01  # a smaller gain could be told from none by no series of runs


class Gain(Model):
    """How much faster one configuration is than another: ratio of whole times, over 1 where the other is faster."""

    ratio: Interval
    records: int = Field(description="measured runs of the very matters in which the two differ")
    known: bool = Field(description="false where nothing similar was measured: the ratio is then not to be relied on")
    why: str = Field(default="", description="what is not known, or where the number comes from")
    apart: str = Field(
        default="",
        description="which of the new one's switches gain nothing here, as no record has them beside the rest",
    )

    def surely(self) -> float:
        """The gain that there is with a probability of 80 %: what options are chosen by.

        By the middle alone, an option that may as well lose much goes before a surer one: so a network without records
        came to 1.38 of stock's time (benchmarks/findings.md).
        """
        ratio = self.ratio
        if not 0 < ratio.middle <= ratio.high < inf:
            return 0.0
        return float(ratio.middle * (ratio.middle / ratio.high) ** (_PROBABLE / SIGMAS))

    def is_faster(self) -> bool:
        """Whether it is more than noise: worth a hundredth, and over 1 with a probability of 80 %."""
        return self.known and self.ratio.middle >= _WORTH and self.surely() > 1


class Prediction(Model):
    """How long a whole run takes, in parts."""

    seconds: Interval
    parts: dict[str, Interval] = Field(
        default={},
        description="seconds of start, first_step, waiting (for each other), training, staging ... of the whole run",
    )
    core_hours: float | None = None
    records: int = Field(default=0, description="measured runs that it rests on")
    known: bool = Field(default=True, description="false outside of what was measured; see doubts")
    doubts: tuple[str, ...] = ()
