"""What a training computes, as far as anybody knows: what the performance model relates to time."""

from math import fsum

from pydantic import Field

from modak_ansible.model.base import Model


class Work(Model):
    """The work of one training; what is None is not known, and nothing is guessed from it."""

    workload: str = Field(default="", description="name of the folder of benchmarks/ that does the same work")
    type: str = Field(default="", description="such as image_classification")
    parameters: int | None = Field(default=None, ge=1, description="trainable ones")
    layers: int | None = Field(default=None, ge=1)
    gflop_per_sample: float | None = Field(
        default=None, gt=0, description="GFLOP of one training step for each sample: forward and backward"
    )
    operators: tuple[tuple[float, float], ...] = Field(
        default=(),
        description="of a step for each sample: GFLOP, and GB read and written, of operators with like FLOP a byte",
    )
    sample_bytes: int | None = Field(default=None, ge=1, description="bytes of one sample as the network gets it")
    samples: int | None = Field(default=None, ge=1, description="training samples of an epoch")
    epochs: int | None = Field(default=None, ge=1)
    batch_size: int | None = Field(default=None, ge=1, description="samples a step, of one process")

    def over_ideal(self, balance: float | None, gain: float = 1.0) -> float | None:
        """A step's time by its operators' rooflines (Williams, 2009) over that of its work at the machine's peak.

        Each operator takes the longer of what its work and what its bytes take. None where they, or the machine, are
        not known.

        Args:
            balance: FLOP in single precision that the machine does in the time in which it moves a byte.
            gain: speed of its products in the number format of the step over that in single precision.
        """
        ideal = fsum(gflop for gflop, _ in self.operators)
        if not ideal or not balance:
            return None
        return fsum(max(gflop / gain, size * balance) for gflop, size in self.operators) / ideal
