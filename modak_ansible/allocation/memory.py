"""How much memory of its node, or of its accelerator, each process of a training has. Pure."""

from __future__ import annotations

from typing import NamedTuple

from modak_ansible.model.process_layout import ProcessLayout
from modak_ansible.model.request import Request
from modak_ansible.model.target import Partition


class Limit(NamedTuple):
    """Bytes that each process has, and who says so."""

    bytes: int
    reason: str


def limit_of(request: Request, partition: Partition | None, layout: ProcessLayout) -> Limit | None:
    """What each process of a job may take; None where nobody knows."""
    share = layout.processes_per_node
    suffix = f", for {share} processes" if share > 1 else ""
    target = request.target
    accelerators, memory = request.resources.accelerators, target.accelerator.memory
    if accelerators and memory and (request.need is None or request.need.place == "accelerator"):
        bytes_ = memory * accelerators // max(share, accelerators)
        return Limit(bytes_, f"an accelerator of {target.name}{suffix if share > accelerators else ''}")
    limit = memory_of_job(request, partition, layout)
    return Limit(limit.bytes // share, f"{limit.reason}{suffix}") if limit else None


def memory_of_job(request: Request, partition: Partition | None, layout: ProcessLayout) -> Limit | None:
    """What a job has of a node: what it asks for, else what its scheduler gives such a job, else all of the node's."""
    resources, target = request.resources, request.target
    cores = (target.cores_in(partition) if resources.exclusive else None) or layout.cores_per_node
    requested = resources.memory or (request.job_options.minimum_memory_per_processor or 0) * cores
    if requested:
        return Limit(requested, "what is asked for a node")
    installed = target.memory_in(partition)
    default = (partition.usual_memory or (partition.memory_per_core or 0) * cores) if partition else 0
    if partition and default and default < (installed or default + 1):
        return Limit(default, f"what a job of the partition {partition.name} has that asks for no memory")
    if partition and partition.memory:
        return Limit(partition.memory, f"a node of the partition {partition.name}")
    return Limit(installed, f"a node of {target.name}") if installed else None
