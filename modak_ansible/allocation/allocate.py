"""What a job gets of its target: decided once, before anything is planned, and handed on."""

from __future__ import annotations

from typing import NamedTuple

from modak_ansible.allocation.options import settled
from modak_ansible.allocation.site_rules import enforced
from modak_ansible.errors import CannotPlan, nearest
from modak_ansible.model.process_layout import ProcessLayout
from modak_ansible.model.request import Request
from modak_ansible.model.target import Partition, Scheduler


class JobAllocation(NamedTuple):
    """What a job asks for, in agreement with itself and with its site."""

    asked: Request  # the request as it came
    request: Request  # with its resources, job options and ranks in agreement, and what the site's rules give it
    partition: Partition | None  # where the job will run; None when the target describes no partitions
    # its processes; the cores of each are those that are asked for, else its share of the node, else one under a
    # scheduler, and None when nobody knows
    layout: ProcessLayout

    @property
    def node_cores(self) -> int | None:
        """Cores of a node, by the partition or else by the target."""
        return _node_cores(self.request, self.partition)


def allocate(request: Request) -> JobAllocation:
    """What the job of a request gets, whether or not the target has so much: that is asked of ``limits``.

    Raises:
        CannotPlan: what it asks for contradicts itself, two of the site's rules do, or its partition is not there.
    """
    agreed = enforced(settled(request))
    partition = _partition(agreed)
    return JobAllocation(request, agreed, partition, _layout(agreed, partition))


def _partition(request: Request) -> Partition | None:
    target, wanted = request.target, request.resources.partition
    if wanted and target.scheduler is Scheduler.NONE:
        raise CannotPlan("resources.partition", f"{target.name} has no scheduler and no partitions", "leave it out")
    found = target.partition(wanted)
    name = wanted or target.site.partition
    if name and found is None and target.partitions:
        about = "resources.partition" if wanted else "host"
        hint = nearest(name, [partition.name for partition in target.partitions])
        raise CannotPlan(about, f"{target.name} has no partition {name}", hint)
    return found


def _layout(request: Request, partition: Partition | None) -> ProcessLayout:
    hpc = request.application.hpc
    layout = request.resources.layout._replace(sharing=(hpc.core_subscription if hpc else None) or 1)
    cores = _node_cores(request, partition)
    if layout.cores or (not cores and request.target.scheduler is Scheduler.NONE):
        return layout
    return layout._replace(cores=max(1, cores // layout.slots) if cores else 1)


def _node_cores(request: Request, partition: Partition | None) -> int | None:
    return partition.cores if partition and partition.cores else request.target.processor.cores
