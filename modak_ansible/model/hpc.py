"""A program that is no training: how it is parallel, and how it is built."""

from typing import Literal

from pydantic import Field

from modak_ansible.model.base import Model

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
