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
    each = f", for {share} processes" if share > 1 else ""
    asked, target = request.resources.memory, request.target
    accelerators, memory = request.resources.accelerators, target.accelerator.memory
    if accelerators and memory and (request.need is None or request.need.place == "accelerator"):
        bytes_ = memory * accelerators // max(share, accelerators)
        return Limit(bytes_, f"an accelerator of {target.name}{each if share > accelerators else ''}")
    if asked:
        return Limit(asked // share, f"what is asked for a node{each}")
    if partition and partition.memory:
        return Limit(partition.memory // share, f"a node of the partition {partition.name}{each}")
    there = target.processor.memory
    return Limit(there // share, f"a node of {target.name}{each}") if there else None
