"""What a training computes, as far as anybody knows: what the performance model relates to time."""

from collections.abc import Mapping
from math import fsum
from typing import NamedTuple, Self

from pydantic import Field

from modak_ansible.model.base import Model

# GFLOP, GB read and written, and the GFLOP of convolutions among the first where they are told apart
Operators = tuple[tuple[float, float] | tuple[float, float, float], ...]

# Seconds that a call of an operator takes whatever it computes: dispatch, autograd, Python's part of an optimiser. On a
# Zen 4 a call takes 2.2 to 2.7 us in an optimiser's step, and 5 to 14 in whole steps of networks of four to eight
# channels; of 1, 2, 3, 5 and 8 us the benchmarks' records find 2 and 3 the most probable.
_CALL = 3e-6


class Rates(NamedTuple):
    """How fast a machine computes in a number format over its peak, the fastest product in float32."""

    products: float
    convolutions: float

    @classmethod
    def usual(cls, products: float = 1.0) -> Self:
        """Where nobody measured convolutions: the middle of four machines, between 0.64 and 0.93."""
        return cls(products, 0.85 * products)


class Work(Model):
    """The work of one training; what is None is not known, and nothing is guessed from it."""

    workload: str = Field(default="", description="name of the folder of benchmarks/ that does the same work")
    type: str = Field(default="", description="such as image_classification")
    parameters: int | None = Field(default=None, ge=1, description="trainable ones")
    layers: int | None = Field(default=None, ge=1)
    gflop_per_sample: float | None = Field(
        default=None, gt=0, description="GFLOP of one training step for each sample: forward and backward"
    )
    operators: Operators = Field(
        default=(),
        description="of a step for each sample: GFLOP, GB read and written, and the GFLOP of convolutions among them, "
        "of operators with like FLOP a byte",
    )
    calls: int | None = Field(default=None, ge=0, description="of operators in a step, whatever its samples")
    kernel_seconds: float = Field(
        default=0.0, ge=0, description="of a step for each sample: what kernels take on a core beyond their rooflines"
    )
    bf16_seconds: float = Field(
        default=0.0, ge=0, description="of a step for each sample: what kernels take on a core besides if it is in bf16"
    )
    onednn_seconds: float = Field(default=0.0, ge=0, description="the same if oneDNN multiplies in single precision")
    pooling_seconds: float = Field(default=0.0, ge=0, description="the same unless channels lie last")
    norm_seconds: float = Field(default=0.0, ge=0, description="the same unless channels lie last, or it is in bf16")
    sample_bytes: int | None = Field(default=None, ge=1, description="bytes of one sample as the network gets it")
    samples: int | None = Field(default=None, ge=1, description="training samples of an epoch")
    epochs: int | None = Field(default=None, ge=1)
    evaluated: int | None = Field(
        default=None, ge=1, description="samples that go through the network beside each epoch, and train nothing"
    )
    batch_size: int | None = Field(default=None, ge=1, description="samples a step, of one process")

    @property
    def name(self) -> str:
        """The workload's; of a script that has none, one by what a sample takes; empty where nobody knows that."""
        if self.workload or not self.gflop_per_sample:
            return self.workload
        return f"a work of {self.gflop_per_sample!r} GFLOP a sample"

    def over_ideal(self, balance: float | None, rates: Rates) -> float | None:
        """A step's time by its operators' rooflines (Williams, 2009) over that of its work at the machine's peak.

        Each operator takes the longer of what its work and what its bytes take. None where they, or the machine, are
        not known.

        Args:
            balance: FLOP that the machine does at its peak in the time in which it moves a byte.
            rates: of what it computes in the number format of the step; that of products counts for all where
                convolutions are not told apart.
        """
        ideal = fsum(operator[0] for operator in self.operators)
        if not ideal or not balance:
            return None
        return fsum(max(_arithmetic(operator, rates), operator[1] * balance) for operator in self.operators) / ideal

    def seconds_beside(self, batch: int, threads: int, switches: Mapping[str, str]) -> float:
        """What a step of so many samples takes on a processor beside its operators' rooflines, as far as it is known.

        The calls follow each other, however many threads compute.

        Args:
            switches: of the kernels that were measured. In bf16 nothing is left to multiply in single precision.
        """
        kernels, is_bf16 = self.kernel_seconds, switches.get("precision") == "bf16"
        if is_bf16:
            kernels += self.bf16_seconds
        elif switches.get("matmul") == "onednn":
            kernels += self.onednn_seconds
        if switches.get("memory_format") != "channels_last":
            kernels += self.pooling_seconds + (0.0 if is_bf16 else self.norm_seconds)
        return (self.calls or 0) * _CALL + kernels * batch / threads


def _arithmetic(operator: tuple[float, ...], rates: Rates) -> float:
    """What an operator's arithmetic takes, in units of the peak's for a GFLOP."""
    gflop, _, *extra = operator
    convolutions = extra[0] if extra else 0.0
    return (gflop - convolutions) / rates.products + convolutions / rates.convolutions
