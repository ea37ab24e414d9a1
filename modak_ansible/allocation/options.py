"""Decides what a job asks for: its resources, its job options and its ranks agree, or it is refused.

Resources that are left at their defaults give way to a job option, and both to the ranks of a program. Refused, too, is
an option that a target without a scheduler has no use for, and an array, as a deployment watches one job.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from modak_ansible.allocation.process_layout import fewest_nodes, with_ranks
from modak_ansible.errors import CannotPlan
from modak_ansible.model.application import Optimisation, Resources
from modak_ansible.model.job_options import OPTIONS, JobOptions, cores_by_count
from modak_ansible.model.quantities import format_size, format_walltime
from modak_ansible.model.request import Request
from modak_ansible.model.target import Scheduler

_STOCK = Resources()


def settled(request: Request) -> Request:
    """The request with its resources, job options and ranks in agreement.

    Resources that are left as they are by default give way to a job option.

    Raises:
        CannotPlan: two of them contradict each other, or the target's scheduler has nothing like an option.
    """
    options, scheduler = request.job_options, request.target.scheduler
    _check_components(request)
    _check_possible(options, scheduler, request.target.name)
    requested = _requested(options, scheduler)
    resources = _merged(request.resources, requested)
    resources = _with_cores(request, resources)
    resources = with_ranks(request, resources, fixed=_fixed(options, request.resources))
    if options.core_count and not resources.layout.cores:
        resources = resources.with_layout(resources.layout._replace(cores=1))  # so many cores, and no more
    if options.memory_limit and scheduler is Scheduler.TORQUE:
        resources = _with_memory(resources, options.memory_limit)
    agreed = options.model_copy(update=_agreed(options, resources))
    return request.model_copy(
        update={"resources": resources, "job_options": agreed, "optimisation": _with_binding(request)}
    )


def _with_binding(request: Request) -> Optimisation:
    """The preference for binding that an affinity of OpenMP's threads is; ranks of MPI are bound by their launcher."""
    hpc, optimisation = request.application.hpc, request.optimisation
    if hpc is None or hpc.parallelisation == "mpi" or not hpc.affinity or optimisation.binding != "any":
        return optimisation
    return optimisation.model_copy(update={"binding": "none" if hpc.affinity == "none" else "cores"})


def account_of(request: Request) -> str | None:
    """Who is charged: the user's word before the site's."""
    return request.job_options.account or request.target.site.account


def _check_possible(options: JobOptions, scheduler: Scheduler, target: str) -> None:
    if options.job_array:
        message = "a deployment follows one job and fetches its results, and an array is many jobs"
        raise CannotPlan("job_options.job_array", message, "deploy once for each set of arguments")
    if options.project and scheduler in (Scheduler.SLURM, Scheduler.TORQUE, Scheduler.LSF):
        message = f"only PBS Professional has projects in addition to accounts, and {target} does not use it"
        raise CannotPlan("job_options.project", message, f"account: {options.project}")
    if scheduler is not Scheduler.NONE:
        return
    for name, option in OPTIONS.items():
        if option.without_scheduler and getattr(options, name):
            message = f"{target} has no scheduler: {option.without_scheduler}"
            is_optional = name != "job_dependency"  # what it waits for may make what it reads
            raise CannotPlan(f"job_options.{name}", message, "leave it out", optional=is_optional)


def _check_components(request: Request) -> None:
    options, target = request.job_options, request.target
    if not options.components:
        return
    about, nodes = "job_options.components", sum(component.node_count for component in options.components)
    if target.scheduler is not Scheduler.SLURM:
        message = f"only Slurm has heterogeneous jobs, and {target.name} does not use it"
        raise CannotPlan(about, message, "leave them out: the same is then requested for all nodes")
    if options.node_count != nodes:
        message = f"the components have {nodes} nodes together, and node_count: {options.node_count}"
        raise CannotPlan(about, message, "leave node_count out, or make them agree")
    if request.scale:
        message = "the components fix the number of nodes, and the plan is asked to choose it"
        raise CannotPlan(about, message, "leave one of the two out")


def _requested(options: JobOptions, scheduler: Scheduler) -> dict[str, tuple[str, Any]]:
    queue, partition = options.queue, options.partition
    if scheduler is not Scheduler.TORQUE and queue and partition and queue != partition:
        message = f"a job has one partition, and both {queue} and {partition} are asked for"
        raise CannotPlan("job_options.queue", message, "leave one of the two out")
    requested: dict[str, tuple[str, Any]] = {}
    for name, value in _stated(options):
        option = OPTIONS[name]
        if option.resource and not (option.is_other_under_torque and scheduler is Scheduler.TORQUE):
            requested.setdefault(option.resource, (name, value))
    return {name: requested[name] for name in Resources.model_fields if name in requested}


def _stated(options: JobOptions) -> Iterator[tuple[str, Any]]:
    return ((name, value) for name, value in options if value is not None and value is not False)


def _merged(resources: Resources, requested: dict[str, tuple[str, Any]]) -> Resources:
    for name, (option, value) in requested.items():
        value_of_resource = getattr(resources, name)
        if value_of_resource not in (getattr(_STOCK, name), value):
            words = (
                f"walltime: {_shown(name, value_of_resource)}"
                if name == "walltime"
                else f"resources.{name}: {_shown(name, value_of_resource)}"
            )
            message = f"{_shown(name, value)} is asked for here, and {words}"
            raise CannotPlan(f"job_options.{option}", message, "leave one of the two out")
    return resources.model_copy(update={name: value for name, (_, value) in requested.items()})


def _shown(name: str, value: Any) -> str:
    formats = {"memory": format_size, "walltime": format_walltime}
    return formats[name](value) if name in formats else str(value)


def _fixed(options: JobOptions, resources: Resources) -> tuple[bool, bool]:
    """Whether somebody said how many nodes there are, and how many processes on each."""
    return (
        bool(options.node_count) or resources.nodes != _STOCK.nodes,
        bool(options.process_count_per_node) or resources.processes_per_node != _STOCK.processes_per_node,
    )


def _with_cores(request: Request, resources: Resources) -> Resources:
    """Nodes and processes on each for so many processes in all."""
    count, about = request.job_options.core_count, "job_options.core_count"
    if not count:
        return resources
    has_nodes, has_each = _fixed(request.job_options, request.resources)
    layout = resources.layout
    if has_nodes and has_each and layout.processes == count:
        return resources
    if has_nodes and has_each:
        cores = cores_by_count(count, layout.nodes, layout.processes_per_node)
        if cores is None or layout.cores not in (None, cores):
            words = f"{layout.nodes} nodes with {layout.processes_per_node} processes each"
            raise CannotPlan(about, f"{count} are asked for here, and {words}", "leave one of them out")
        return resources.with_layout(layout._replace(cores=cores))
    if has_each and not has_nodes:
        nodes, remainder = divmod(count, layout.processes_per_node)
    else:
        nodes = layout.nodes if has_nodes else fewest_nodes(request, resources, count, about)
        remainder = count % nodes
    if remainder:
        words = f"{layout.processes_per_node} on a node" if has_each else f"{nodes} nodes"
        raise CannotPlan(about, f"{count} processes cannot be shared out evenly, {words}", "take a multiple")
    return resources.with_layout(layout._replace(nodes=nodes, processes_per_node=count // nodes))


def _with_memory(resources: Resources, limit: int) -> Resources:
    """Under Torque a limit is the whole job's: each node has its share."""
    if resources.memory and resources.memory * resources.nodes != limit:
        words = f"{format_size(resources.memory)} on each of {resources.nodes} nodes"
        message = f"{format_size(limit)} for the whole job are asked for here, and resources.memory: {words}"
        raise CannotPlan("job_options.memory_limit", message, "leave one of the two out")
    return resources.model_copy(update={"memory": -(-limit // resources.nodes)})


def _agreed(options: JobOptions, resources: Resources) -> dict[str, Any]:
    """The job options that are stated, with the values that were settled."""
    agreed = {"core_count": resources.layout.processes} if options.core_count else {}
    for name, _ in _stated(options):
        option = OPTIONS[name]
        if option.resource and not option.is_other_under_torque:
            agreed[name] = getattr(resources, option.resource)
    return agreed
