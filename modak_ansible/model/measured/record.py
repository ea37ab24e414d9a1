"""What one run measured, with everything that identifies the run: one line of JSON each."""

from typing import Literal

from pydantic import ConfigDict, Field

from modak_ansible.model.base import Model
from modak_ansible.model.measured.work import Work
from modak_ansible.model.process_layout import ProcessLayout

SCHEMA: Literal["modak.record/1"] = "modak.record/1"


class RecordedImage(Model):
    """What the run ran in; a virtual environment of the node's own Python counts as an image without a container."""

    digest: str = Field(description="SHA-256 that names the image, of its definition and the layers below it")
    definition_digest: str = Field(description="SHA-256 of the text of the topmost definition alone")
    base: str = Field(description="the catalogue's base, or the source of an image that was pulled")
    container: bool = Field(description="false: a virtual environment, run natively")


class RecordedTarget(Model):
    """Where the run ran."""

    name: str = Field(description="as the suite calls it")
    scheduler: str
    hostname: str
    processor: str = Field(description="model name, as the kernel gives it")
    architecture: str = Field(description="archspec name")
    cores: int | None = Field(default=None, description="of the machine, whatever the job was given")
    memory: int | None = Field(default=None, description="bytes of the machine")
    accelerator: str = ""


class Allocation(Model):
    """What the scheduler gave the run."""

    job_id: str = ""
    partition: str | None = None
    nodes: int = 1
    processes_per_node: int = 1
    cores_per_process: int | None = None
    threads: int | None = None
    accelerators: int = 0
    exclusive: bool = True

    @property
    def layout(self) -> ProcessLayout:
        return ProcessLayout(self.nodes, self.processes_per_node, self.cores_per_process, self.threads)


class Load(Model):
    """How busy others kept the machine."""

    foreign_cores: float | None = Field(
        default=None, description="cores kept busy by other processes while the run was measured, mean"
    )
    load_average: float | None = Field(default=None, description="of the last minute, when the run began")


class _Diverging(Model):
    """What may have a loss that is no number, and is to be read again with it."""

    model_config = ConfigDict(ser_json_inf_nan="constants")


class Epoch(_Diverging):
    """One pass over the training images; ``seconds`` is the training part alone."""

    epoch: int
    seconds: float
    images_per_second: float
    evaluation_seconds: float
    training_loss: float
    test_loss: float
    test_accuracy: float
    foreign_cores: float | None = Field(default=None, description="cores that others kept busy meanwhile")


class Seconds(Model):
    """Wall-clock from the start of the process, and parts of it; see benchmarks/README.md."""

    model_config = ConfigDict(allow_inf_nan=False)

    imports: float = Field(alias="import")
    load_data: float
    to_first_step: float
    first_step: float
    compile: float
    total: float


class TrainedNetwork(Model):
    """What was trained, of a workload that has several networks, or of a user's script."""

    name: str
    gflop_per_image: float | None = Field(default=None, gt=0, description="of a training step: forward and backward")
    bytes_per_image: int | None = Field(default=None, ge=1, description="of a sample as the network gets it")
    layers: int | None = Field(default=None, ge=1)


class TrainingResult(_Diverging):
    """What a training measured: its metrics.json, without what identifies the run."""

    parameters: int
    dataset: str
    training_images: int
    test_images: int
    batch_size: int
    seed: int
    learning_rate: float
    dropout: float
    epochs: tuple[Epoch, ...]
    first_losses: tuple[float, ...]
    gradient_error: float | None = Field(
        default=None, description="largest relative error of a gradient tensor of the first step against float64"
    )
    seconds: Seconds
    peak_memory_bytes: int
    network: TrainedNetwork | None = Field(
        default=None, description="where the workload alone does not say what was trained"
    )

    @property
    def steady(self) -> tuple[Epoch, ...]:
        """The epochs that nothing of the start is in: all but the first."""
        return self.epochs[1:]


class Steps(Model):
    """The steps of a training as the clock in its process saw them, whatever its script; seconds of wall-clock.

    What is None was not seen.
    """

    count: int = Field(ge=0)
    first_seconds: float | None = Field(default=None, description="from the begin of the loop to the end of one step")
    to_first_step_seconds: float | None = Field(default=None, description="from the start of the process to that end")
    median_seconds: float | None = Field(default=None, description="from the end of a step to the end of the next")
    p10_seconds: float | None = None
    p90_seconds: float | None = None
    all_seconds: float | None = Field(default=None, description="from the end of the first step to that of the last")
    total_seconds: float | None = Field(default=None, description="from the start of the process")
    import_seconds: float | None = Field(default=None, description="of the framework")
    batch_size: int | None = None
    samples: int | None = Field(default=None, description="of an epoch, where the script's loop says so")
    parameters: int | None = Field(default=None, description="trainable ones, of the first optimizer that stepped")
    peak_memory_bytes: int | None = None


class Measure(Model):
    """A quantity of the infrastructure, measured several times in one run."""

    name: str = Field(description="such as sgemm, triad, write, small_files, latency")
    unit: str = Field(description="such as GFLOP/s, GB/s, files/s, s")
    samples: tuple[float, ...] = Field(min_length=1)
    about: dict[str, str | int | float] = Field(
        default={}, description="what was measured: sizes, storage class, library, message length"
    )


class Record(Model):
    """One run."""

    schema_version: Literal["modak.record/1"] = SCHEMA
    date: str = Field(description="when the run began, UTC, ISO 8601")
    suite: str
    suite_digest: str = Field(description="SHA-256 of the suite's text")
    group: str = Field(description="the group of the suite within which runs are compared")
    variant: str = Field(description="the run's name in its group")
    round: int = Field(ge=1)
    position: int = Field(ge=1, description="place in the order of its round")
    attempt: int = Field(
        default=1, ge=1, description="2 and more: the machine was busy before, or the round was cut short"
    )
    outcome: Literal["measured", "disturbed", "failed", "refused"] = Field(
        description="disturbed: the machine was busy; refused: the image's probe or the plan ruled it out"
    )
    reason: str = Field(default="", description="why it is not simply measured")
    workload: str
    entry: str
    framework: str
    version: str
    origin: str
    settings: dict[str, str] = Field(default={}, description="the switches that the suite set, by name")
    plan: str = Field(default="", description="digest of the plan")
    image: RecordedImage | None = None
    target: RecordedTarget
    allocation: Allocation = Allocation()
    load: Load = Load()
    versions: dict[str, str] = Field(default={}, description="of Python and of the packages that compute")
    training: TrainingResult | None = None
    quantised_s: float | None = Field(
        default=None,
        gt=0,
        description="seconds until which steady epochs waited for something else than their steps, such as a sleep of "
        "tf.data's tuning; two such times tell nothing of what is computed",
    )
    measures: tuple[Measure, ...] = ()
    steps: Steps | None = Field(default=None, description="of a script that writes no metrics.json of our form")
    work: Work = Field(default=Work(), description="what it computes, as far as its user says")
    joules: float | None = Field(default=None, ge=0, description="what its nodes used, where something counts that")
    energy_seconds: float | None = Field(default=None, gt=0, description="in which they did")
    energy_source: str = Field(default="", description="what counted, and what of others may be in it, in words")
