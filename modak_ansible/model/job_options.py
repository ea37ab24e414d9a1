"""What a job asks of its scheduler, in the words that are the same for all of them."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from modak_ansible.model.base import Model


class JobOptions(Model):
    """Every option of a job; what is None, empty or False is not asked for, and has no directive.

    The numbers of nodes, processes, cores and accelerators, the memory, the partition and the wall time are the same as
    in the request's ``Resources``, which a planner may change; a plan's job has the final ones of both.
    """

    job_name: str | None = None
    account: str | None = None
    queue: str | None = Field(default=None, description="Torque's queue; under Slurm another word for partition")
    partition: str | None = Field(
        default=None, description="Slurm's; under Torque that of an outer scheduler (-l partition)"
    )
    qos: str | None = Field(
        default=None,
        description="quality of service; under Torque that of Maui or Moab",
        exclude_if=lambda value: value is None,  # plans without it keep the digest that they had before there was any
    )
    wall_time_limit: int | None = Field(default=None, ge=1, description="seconds")
    node_count: int | None = Field(default=None, ge=1)
    process_count_per_node: int | None = Field(default=None, ge=1)
    core_count: int | None = Field(default=None, ge=1, description="processes of the whole job, one to a core")
    core_count_per_process: int | None = Field(default=None, ge=1)
    memory_limit: int | None = Field(default=None, ge=1, description="bytes of each node (Slurm), of the job (Torque)")
    minimum_memory_per_processor: int | None = Field(default=None, ge=1, description="bytes")
    request_gpus: int | None = Field(default=None, ge=0, description="accelerators of each node")
    request_specific_nodes: tuple[str, ...] = Field(default=(), description="names of nodes, or one property of nodes")
    architecture_constraint: str | None = Field(
        default=None, description="a feature (Slurm) or property (Torque) of nodes"
    )
    job_array: str | None = Field(default=None, description="indices, such as 0-9 or 1,3,5-7%2")
    standard_output_file: str | None = None
    standard_error_file: str | None = None
    combine_stdout_stderr: bool = False
    copy_environment: bool = Field(
        default=False, description="whether the job gets the submitting shell's whole environment"
    )
    copy_environment_variable: tuple[str, ...] = Field(default=(), description="each NAME, or NAME=value")
    job_dependency: tuple[JobDependency, ...] = ()
    request_event_notification: tuple[Literal["abort", "begin", "end"], ...] = Field(
        default=(), description="when mail is sent, each once, in this order"
    )
    email_address: tuple[str, ...] = ()
    defer_job: datetime | None = Field(default=None, description="not to be started before; the target's own clock")
    node_exclusive: bool = False


class JobDependency(Model):
    """Other jobs that are waited for."""

    kind: Literal["after", "afterany", "afterok", "afternotok", "singleton"]
    jobs: tuple[str, ...] = Field(default=(), description="ids; none for singleton, which Torque has not")


JobOptions.model_rebuild()


def cores_by_count(count: int, nodes: int, each: int) -> int | None:
    """Cores of a process, where core_count is said besides nodes and processes on each; None where they contradict.

    It is of the whole job where that comes out even. Else it is of a node: jobs that the first MODAK took ask for two
    nodes with 40 processes each and core_count 40, which is what a node of theirs has.
    """
    for shared in (nodes * each, each):
        if count % shared == 0:
            return count // shared
    return None
