"""Steps of a training that a short job made on its target to time them: what no trace has to tell."""

from pydantic import Field

from modak_ansible.model.base import Model

# Frameworks whose steps are counted in an unmodified script; see docs/prepare.md.
COUNTED = ("pytorch", "tensorflow", "keras")


class TimedSteps(Model):
    """Steps of one process, the first apart; seconds of wall-clock."""

    key: str = Field(description="of the script, its files and arguments, and of what it runs in")
    target: str = Field(description="the target's name")
    address: str = Field(description="the target's")
    partition: str | None = Field(default=None, description="that they ran in; None where there are none")
    training: str = Field(description="its name, for people")
    date: str = Field(description="when they were made, UTC, ISO 8601")
    count: int = Field(ge=2)
    seconds: float = Field(gt=0, description="of one on average without the first, with what lies between epochs")
    low: float = Field(gt=0, description="a tenth of the steps took less")
    high: float = Field(gt=0, description="a tenth of the steps took more")
    start: float = Field(ge=0, description="from the start of the process to the end of the first step")
    batch_size: int | None = Field(default=None, ge=1, description="samples of a step; None: nobody knows")
    samples: int | None = Field(default=None, ge=1, description="of an epoch, where the script's loop says so")
    epochs: int | None = Field(default=None, ge=1, description="that the script has by itself where nobody says others")
    parameters: int | None = Field(default=None, ge=1, description="trainable ones")
    memory: int | None = Field(default=None, description="bytes that the process had resident at most")
    foreign_cores: float | None = Field(default=None, description="cores that others kept busy meanwhile")
    entry: str = Field(description="of the catalogue, or the address of an image that the user gives")
    version: str = Field(description="of the framework")
    settings: dict[str, str] = Field(default={}, description="what differed from the stock run, as it was planned")
    container: bool
    threads: int
