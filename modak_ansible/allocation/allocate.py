"""What a job gets of its target: decided once, before anything is planned, and handed on."""

from __future__ import annotations

from typing import NamedTuple

from modak_ansible.allocation.options import settled
from modak_ansible.allocation.site_rules import enforced
from modak_ansible.errors import CannotPlan, nearest
from modak_ansible.model.application import Resources
from modak_ansible.model.job_options import JobComponent
from modak_ansible.model.process_layout import ProcessLayout
from modak_ansible.model.request import Request
from modak_ansible.model.target import Partition, Scheduler, destinations


class JobAllocation(NamedTuple):
    """What a job asks for, in agreement with itself and with its site."""

    original: Request  # the request as it came
    request: Request  # with its resources, job options and ranks in agreement, and what the site's rules give it
    partition: Partition | None  # where the job will run; None when the target describes no partitions
    # its processes; the cores of each are those that are asked for, else its share of the node, else one under a
    # scheduler, and None when nobody knows
    layout: ProcessLayout

    @property
    def components(self) -> tuple[JobAllocation, ...]:
        """What each component of a heterogeneous job would get as a job by itself; none of any other job."""
        request = self.request
        return tuple(
            self._replace(
                request=request.model_copy(update={"resources": _resources_of(component, request.resources)}),
                partition=request.target.partition(component.partition),
                layout=self.layout._replace(nodes=component.node_count),
            )
            for component in request.job_options.components
        )


def allocate(request: Request) -> JobAllocation:
    """What the job of a request gets, whether or not the target has so much: that is asked of ``limits``.

    Raises:
        CannotPlan: what it asks for contradicts itself, two of the site's rules do, or its partition is not there.
    """
    agreed = enforced(settled(request))
    partition = _partition(agreed, agreed.resources.partition)
    if agreed.job_options.components:
        agreed, partition = _of_components(agreed, partition)
    return JobAllocation(request, agreed, partition, _layout(agreed, partition))


def _of_components(request: Request, default: Partition | None) -> tuple[Request, Partition | None]:
    """The request with all that its components take from the job's options, and a partition that has the least of each.

    The ranks of one training are alike, and so the plan is for the least of the nodes.
    """
    resources, site = request.resources, request.target.site
    inherited = default.name if default else resources.partition or site.partition
    components, partitions = [], []
    for component in request.job_options.components:
        about = f"job_options.components.{component.name}"
        partition = _partition(request, component.partition, about) if component.partition else default
        name, memory = component.partition or inherited, component.memory_limit or resources.memory
        components.append(component.model_copy(update={"partition": name, "memory_limit": memory}))
        partitions.append(partition)
    memory_limits = [component.memory_limit for component in components if component.memory_limit]
    resources = resources.model_copy(update={"memory": min(memory_limits, default=None)})
    options = request.job_options.model_copy(update={"components": tuple(components)})
    request = request.model_copy(update={"resources": resources, "job_options": options})
    known_partitions = [partition for partition in partitions if partition]
    if len(known_partitions) < len(partitions):
        return request, None
    return request, request.target.least_of(known_partitions).model_copy(update={"nodes": None})


def _resources_of(component: JobComponent, resources: Resources) -> Resources:
    """What a component asks for, as the resources of a job of its own."""
    return resources.model_copy(
        update={
            "nodes": component.node_count,
            "partition": component.partition,
            "memory": component.memory_limit,
        }
    )


def _partition(request: Request, requested: str | None, about: str = "resources.partition") -> Partition | None:
    target = request.target
    if requested and target.scheduler is Scheduler.NONE:
        raise CannotPlan(about, f"{target.name} has no scheduler and no partitions", "leave it out")
    partition = target.partition(requested)
    name = requested or target.site.partition
    if name and partition is None and target.partitions:
        about = about if requested else "host"
        names = [partition.name for partition in target.partitions]
        missing_name = next(destination for destination in destinations(name) if destination not in names)
        raise CannotPlan(about, f"{target.name} has no partition {missing_name}", nearest(missing_name, names))
    return partition


def _layout(request: Request, partition: Partition | None) -> ProcessLayout:
    hpc = request.application.hpc
    layout = request.resources.layout._replace(sharing=(hpc.core_subscription if hpc else None) or 1)
    cores = request.target.cores_in(partition)
    if layout.cores or (not cores and request.target.scheduler is Scheduler.NONE):
        return layout
    return layout._replace(cores=max(1, cores // layout.slots) if cores else 1)
