"""How one training runs in several processes."""

from typing import Literal, get_args

from pydantic import Field

from modak_ansible.model.base import Model

Prepared = Literal["ddp", "fsdp", "tensor", "pipeline"]
Strategy = Literal["auto", "ddp", "fsdp", "tensor", "pipeline", "mpi", "none"]

PREPARED: tuple[Prepared, ...] = get_args(Prepared)  # by which modak_runtime.prepare makes one training of processes
SHARED_OUT: tuple[Prepared, ...] = ("fsdp", "tensor", "pipeline")  # in which a rank has parts of the parameters only
ALIKE: tuple[Prepared, ...] = ("tensor", "pipeline")  # in which all ranks are given the same batches
PIECES = 4  # of a batch that goes through the stages of a pipeline, for each rank, where it has as many samples


class Distributed(Model):
    """What a user says of a training's processes, each of which is a rank."""

    strategy: Strategy = Field(
        default="auto",
        description="ddp: modak_runtime.prepare makes the script data parallel; fsdp: it does, and shares out "
        "parameters, gradients and optimiser, too; tensor: each rank computes parts of layers for the whole batch; "
        "pipeline: each rank has layers of its own, through which batches go in pieces; "
        "mpi: it is parallel by MPI; none: unrelated processes, each with "
        "all of the training; auto: as its source says; by prepare ddp, or "
        "where by a trace that does not fit fsdp, tensor or pipeline",
    )
    interface: str = Field(default="", description="of the nodes, by which ranks meet; empty: that of the route there")
    timeout: int = Field(default=300, ge=1, description="seconds that a rank waits for the others")


class Parallelism(Model):
    """What a script's source says of many processes."""

    # ``mpi``, ``ranks`` where its processes find each other by the variables of torchrun or of the scheduler, or
    # ``tf_config`` where they do by a variable that jobs do not set
    by: Literal["ranks", "mpi", "tf_config"]
    name: str  # what it uses, such as ``torch.distributed.init_process_group``
    place: str  # the file below the script's folder, and the line
    nodes: int | None = None  # that it says there itself; None where it leaves them to the job
    processes_per_node: int | None = None  # likewise
    # what it shares files of its data out by between its processes, such as ``webdataset.split_by_node``, and its
    # place; empty where nothing does
    shares: str = ""
