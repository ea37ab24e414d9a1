"""What is trained, with what resources, and how it may be optimised."""

import hashlib
from typing import Literal, Self

from pydantic import Field

from modak_ansible.model.base import Model, left_out
from modak_ansible.model.distributed import Distributed
from modak_ansible.model.measured.work import Work
from modak_ansible.model.measured.workload import Workload
from modak_ansible.model.process_layout import ProcessLayout

# The MPI library of programs that ask for none.
STOCK_MPI: Literal["openmpi"] = "openmpi"


class Build(Model):
    """How a program comes about from its sources, before it runs."""

    source: str = Field(
        default="", description="address of a git repository, an archive or a single file; empty: the user's own files"
    )
    kind: Literal["", "git", "archive", "file"] = Field(default="", description="of the source")
    command: str = Field(description="shell lines, run in the source's folder; the parallelism is filled in already")
    parallelism: int = Field(default=1, ge=1, description="jobs of make, which the command was given")


class HpcApplication(Model):
    """A parallel program; what is None or empty is not asked for."""

    parallelisation: Literal["mpi", "openmp", "openacc", "opencl"]
    library: Literal["", "mpich", "openmpi", "mvapich"] = Field(default="", description="of MPI")
    version: str = Field(default="", description="of the library: a version or a range")
    ranks: int | None = Field(default=None, ge=1, description="processes of the whole job")
    threads: int | None = Field(default=None, ge=1, description="of each process")
    affinity: Literal["", "none", "close", "spread", "primary"] = Field(
        default="", description="OpenMP's words for where the threads of a process stay; empty leaves it to the planner"
    )
    core_subscription: int | None = Field(default=None, ge=1, description="ranks to a core; over 1 they share it")
    scaling_efficiency: float | None = Field(default=None, gt=0, le=1, description="parallel efficiency that was seen")
    accelerators: int | None = Field(default=None, ge=0, description="on each node, for OpenACC and OpenCL")
    launcher: str = Field(default="", description="the command that starts the ranks; empty leaves it to the target")


class SourceFile(Model):
    """One of the user's own files that travel with the job."""

    path: str = Field(description="below the script's folder")
    size: int = Field(description="bytes")
    sha256: str
    executable: bool = False


class Application(Model):
    """A training script and what it needs."""

    name: str
    framework: str = Field(description="empty for a program that uses none")
    version: str = ""
    folder: str = Field(default="", description="the script's folder, below the blueprint's")
    script: str = Field(description="the script's name below its folder; empty where a command runs")
    command: tuple[str, ...] = Field(
        default=(),
        description="the words of a program that runs in place of a Python script, its own folder first on PATH",
    )
    files: tuple[SourceFile, ...] = ()
    requirements: tuple[str, ...] = ()
    arguments: tuple[tuple[str, str | bool], ...] = Field(
        default=(), description="option and value, in the order given"
    )
    words: tuple[str, ...] = Field(default=(), description="what follows the arguments, as it stands")
    environment: tuple[tuple[str, str], ...] = ()
    pre_execution: tuple[str, ...] = Field(default=(), description="the user's own shell lines, before the application")
    post_execution: tuple[str, ...] = Field(default=(), description="shell lines that run after it, however it ended")
    build: Build | None = None
    hpc: HpcApplication | None = Field(default=None, description="for a program that is no training")
    outputs: tuple[str, ...] = ()
    work: Work = Work()
    workload: Workload | None = Field(
        default=None, description="what workload.yaml in the script's folder says of its scripts and their switches"
    )
    distributed_training: bool = left_out(
        False, "whether a script is parallel by itself: it may be started in several processes of one training"
    )
    distributed: Distributed | None = left_out(None, "what is said of its processes, where it has several")
    prepares: bool = Field(
        default=False, description="whether the user's files call modak's prepare, or a trainer that it is called in"
    )

    @property
    def is_training(self) -> bool:
        """Whether a script runs in a framework, and not a program of another kind."""
        return bool(self.framework and self.script)

    @property
    def program(self) -> str:
        """A digest of all that a program is told: the same one with another problem does another work."""
        data = self.model_dump_json(include={"command", "words", "arguments"})
        return hashlib.sha256(data.encode()).hexdigest()[:12]


# What a request for the choice of an image alone would run in it.
NOTHING = ("true",)


def runs_nothing(application: Application) -> bool:
    """Whether an application only stands for an image."""
    return not application.script and application.command == NOTHING


class Resources(Model):
    """What the job asks for."""

    nodes: int = 1
    processes_per_node: int = 1
    cores_per_process: int | None = None
    memory: int | None = Field(default=None, description="bytes on each node")
    accelerators: int = Field(default=0, description="on each node")
    exclusive: bool = False
    partition: str | None = None
    walltime: int = Field(default=3600, description="seconds")

    @property
    def layout(self) -> ProcessLayout:
        """What is asked for of the processes."""
        return ProcessLayout(self.nodes, self.processes_per_node, self.cores_per_process)

    def with_layout(self, layout: ProcessLayout) -> Self:
        """The same with other processes."""
        counts = {"nodes": layout.nodes, "processes_per_node": layout.processes_per_node}
        return self.model_copy(update={**counts, "cores_per_process": layout.cores})


class Checkpoint(Model):
    """When a training saves its state, and how often its job may be queued again to go on from there."""

    every: int = Field(default=600, ge=1, description="seconds between two checkpoints")
    signal_before_wall: int = Field(
        default=120,
        ge=10,
        le=65535,  # sbatch's own limit of --signal
        description="seconds before the wall at which the training is told to save and to end",
    )
    requeue: int = Field(default=3, ge=0, description="times that the job may be queued again")


class Optimisation(Model):
    """What the optimiser may do: any leaves a matter to it, every other value is a preference."""

    # optimisation: what the optimisations declare; make generate
    objective: str = "time"
    numerics: str = "same"
    entry: str = ""
    build: str = "any"
    compiler: str = "any"
    memory_format: str = "any"
    matmul: str = "any"
    operators: str = "any"
    allocator: str = "any"
    precision: str = "any"
    input: str = "any"
    pipeline_tuning: str = "any"
    workers: int | None = Field(default=None, ge=0)
    threads: int | None = Field(default=None, ge=1)
    binding: str = "any"
    wait_policy: str = "any"
    huge_pages: str = "any"
    staging: str = "any"
    batch_size: str = "keep"
    autotuning: bool = False
    tuning_budget: int = Field(default=600, ge=1)
    only_tune: bool = False
    strict: bool = False
    memory: str = "any"
    gradient_compression: str = "any"
    local_sgd: str = "any"
    bucket_size: str = "any"
    compare_with_stock: int = Field(default=0, ge=0)
    large_batch: str = "none"
    optimizer_step: str = "any"
    # /optimisation


class Predecessor(Model):
    """A training that has to complete before another begins."""

    training: str = Field(description="its node in the blueprint")
    deployments: tuple[str, ...] = Field(
        default=(), description="of the training, or of each point of its sweep; none before they are planned"
    )
