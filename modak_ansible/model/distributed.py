"""How one training runs in several processes."""

from collections.abc import Iterator
from typing import Literal, NamedTuple, get_args

from pydantic import Field

from modak_ansible.model.base import Model

Prepared = Literal["ddp", "fsdp", "tensor", "pipeline"]
Strategy = Literal["auto", "ddp", "fsdp", "tensor", "pipeline", "mpi", "none"]

PREPARED: tuple[Prepared, ...] = get_args(Prepared)  # by which modak_runtime.prepare makes one training of processes
SHARED_OUT: tuple[Prepared, ...] = ("fsdp", "tensor", "pipeline")  # in which a rank has only parts of the parameters
ALIKE: tuple[Prepared, ...] = ("tensor", "pipeline")  # in which ranks with parts of a model are given the same batches
PIECES = 4  # of a batch that goes through the stages of a pipeline, for each rank, where it has as many samples


class Mesh(NamedTuple):
    """The ranks of a training that prepare makes parallel: copies of its model, each in parts that ranks share out.

    Neighbours have the parts of one copy. With ``ddp`` each rank has a copy of its own, and with another strategy that
    is asked for by itself all of them have one.
    """

    strategy: Prepared
    ranks: int
    degree: int  # ranks with the parts of one copy: the degree of tensor, pipeline or sharding

    @property
    def name(self) -> str:
        """As plans, traces and ranks know it: ``tensor``, or ``tensor_2`` where pairs have a copy each."""
        return self.strategy if self.degree in (1, self.ranks) else f"{self.strategy}_{self.degree}"

    @property
    def copies(self) -> int:
        """Of the model, which are data parallel."""
        return self.ranks // self.degree

    @property
    def readers(self) -> int:
        """How many parts a batch is shared out in."""
        return self.copies if self.strategy in ALIKE else self.ranks

    @property
    def shares_out(self) -> bool:
        """Whether a rank has only parts of the model's parameters."""
        return self.degree > 1

    @property
    def is_alike(self) -> bool:
        """Whether ranks with parts of one copy are given the same samples."""
        return self.strategy in ALIKE


def mesh_of(name: str, ranks: int) -> Mesh | None:
    """The mesh of so many ranks that has a name; None where it is none of prepare's."""
    word, _, degree = name.partition("_")
    strategy = next((candidate for candidate in PREPARED if candidate == word), None)
    if strategy is None:
        return None
    return Mesh(strategy, ranks, int(degree or (1 if strategy == "ddp" else ranks)))


def meshes(ranks: int) -> Iterator[Mesh]:
    """Those that are weighed, simple ones first: one strategy of all ranks, then copies in parts.

    Copies in shards (hybrid sharding) are not among them: they need more memory than one copy in all ranks' shards.
    """
    yield from (Mesh(strategy, ranks, 1 if strategy == "ddp" else ranks) for strategy in PREPARED)
    for strategy in ALIKE:
        yield from (Mesh(strategy, ranks, degree) for degree in range(2, ranks) if ranks % degree == 0)


class Distributed(Model):
    """What a user says of a training's processes, each of which is a rank."""

    strategy: Strategy = Field(
        default="auto",
        description="ddp: modak_runtime.prepare makes the script data parallel; fsdp: it does, and shares out "
        "parameters, gradients and optimiser, too; tensor: each rank computes parts of layers for the whole batch; "
        "pipeline: each rank has layers of its own, through which batches go in pieces; "
        "mpi: it is parallel by MPI; none: unrelated processes, each with "
        "all of the training; auto: as its source says; by prepare ddp, or "
        "where by a trace that does not fit fsdp, tensor or pipeline, or one of the last two in copies",
    )
    degree: int | None = Field(
        default=None,
        ge=2,
        description="of tensor, pipeline or fsdp: how many ranks, which are neighbours, have one copy of the model "
        "between them (tensor_parallel_degree, pipeline_parallel_degree, data_parallel_shard_degree); the others have "
        "further copies, which are data parallel; without it all ranks have one",
    )
    interface: str = Field(default="", description="of the nodes, by which ranks meet; empty: that of the route there")
    timeout: int = Field(default=300, ge=1, description="seconds that a rank waits for the others")

    def mesh(self, ranks: int) -> Mesh | None:
        """The mesh of so many ranks that is asked for; None where it is left open, or there is none of so many."""
        mesh = mesh_of(self.strategy, ranks)
        if mesh is None or self.degree is None:
            return mesh
        return mesh._replace(degree=self.degree) if ranks % self.degree == 0 else None


class Parallelism(Model):
    """What a script's source says of many processes."""

    # ``mpi``, ``ranks`` where its processes find each other by the variables of torchrun or of the scheduler,
    # ``tf_config`` where they do by a variable that jobs do not set, or ``spawn`` where it starts them itself
    by: Literal["ranks", "mpi", "tf_config", "spawn"]
    name: str  # what it uses, such as ``torch.distributed.init_process_group``
    place: str  # the file below the script's folder, and the line
    nodes: int | None = None  # that it says there itself; None where it leaves them to the job
    processes_per_node: int | None = None  # likewise
    # what it shares files of its data out by between its processes, such as ``webdataset.split_by_node``, and its
    # place; empty where nothing does
    shares: str = ""
    # by which alone each process learns its number, and its place, such as ``--local_rank (train.py:9)``; with
    # TF_CONFIG the place where the script itself sets that, in all processes alike
    option: str = ""
    is_first: bool = False  # whether a process takes itself for the first of its node without that option
    needs_words: bool = False  # whether one process, too, ends without being told that it is alone
    asks_slurm: bool = False  # whether it does so only where Slurm's variables make it believe that there are others
    asks_port: bool = False  # whether it, or processes that it starts, ask for the port at which they meet
    meets_at: str = ""  # where its processes meet, and its place, if that is another one on each node
