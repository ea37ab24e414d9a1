"""What a node has: as its partition says it, or else as its target does. Pure."""

from __future__ import annotations

from modak_ansible.model.target import Partition, Target


def node_cores(target: Target, partition: Partition | None) -> int | None:
    return (partition.cores if partition else None) or target.processor.cores


def node_memory(target: Target, partition: Partition | None) -> int | None:
    """Bytes."""
    return (partition.memory if partition else None) or target.processor.memory
