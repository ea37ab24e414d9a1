"""What a training computes, as far as anybody knows: what the performance model relates to time."""

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
    sample_bytes: int | None = Field(default=None, ge=1, description="bytes of one sample as the network gets it")
    samples: int | None = Field(default=None, ge=1, description="training samples of an epoch")
    epochs: int | None = Field(default=None, ge=1)
    batch_size: int | None = Field(default=None, ge=1, description="samples a step, of one process")
