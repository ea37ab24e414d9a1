"""Decides how many processes a parallel program has on each of how many nodes, with how many threads.

Ranks are shared out evenly: over the nodes or the places that are said, else over the fewest nodes that have the cores.
"""

from __future__ import annotations

from modak_ansible.errors import CannotPlan
from modak_ansible.model.application import HpcApplication, Resources
from modak_ansible.model.quantities import counted
from modak_ansible.model.request import Request
from modak_ansible.model.target import Scheduler

# Nodes of an even share over those that would hold the processes: 9 on nodes of 8 cores are 3 x 3, 127 are not 127 x 1.
_WASTE = 2


def with_ranks(request: Request, resources: Resources, fixed: tuple[bool, bool]) -> Resources:
    """The resources with nodes, processes and cores for the ranks and threads of the program.

    Args:
        resources: what was asked for so far.
        fixed: whether somebody said how many nodes, and how many processes on each.

    Raises:
        CannotPlan: ranks, threads, nodes and cores contradict each other.
    """
    hpc = request.application.hpc
    if hpc is None:
        return resources
    resources = _with_threads(hpc, resources)
    resources = _with_accelerators(hpc, resources)
    if hpc.parallelisation != "mpi":
        _check_single(hpc, resources)
        return resources
    return _with_ranks(request, hpc.ranks, resources, fixed) if hpc.ranks else resources


def _with_threads(hpc: HpcApplication, resources: Resources) -> Resources:
    layout, threads = resources.layout, hpc.threads
    cores = layout.cores
    if threads and cores and threads > cores:
        message = f"{threads} threads are more than the {counted(cores, 'core')} of a process"
        raise CannotPlan("application.threads", message, "ask for more cores, or for fewer threads")
    if threads and threads > 1 and (hpc.core_subscription or 1) > 1:
        message = f"ranks that share a core cannot have {threads} threads each"
        raise CannotPlan("application.core_subscription", message, "set one of the two to 1")
    return resources.with_layout(layout._replace(cores=cores or threads))


def _with_accelerators(hpc: HpcApplication, resources: Resources) -> Resources:
    number = hpc.accelerators
    if number is None:
        return resources
    if resources.accelerators not in (0, number):
        message = f"{number} accelerators are asked for here, and {resources.accelerators} of the scheduler"
        raise CannotPlan("application.number_of_acc", message, "leave one of the two out")
    return resources.model_copy(update={"accelerators": number})


def _check_single(hpc: HpcApplication, resources: Resources) -> None:
    processes = max(resources.layout.processes, hpc.ranks or 1)
    if processes > 1:
        message = f"{processes} processes are asked for, and a program with {hpc.parallelisation} is one"
        raise CannotPlan("application.mpi_ranks", message, "parallelisation: mpi, or one process with more threads")


def _with_ranks(request: Request, ranks: int, resources: Resources, fixed: tuple[bool, bool]) -> Resources:
    layout = resources.layout
    nodes, per_node = layout.nodes, layout.processes_per_node
    if fixed == (True, True) and layout.processes != ranks:
        message = f"{ranks} ranks are asked for, and {nodes} nodes with {per_node} processes each"
        raise CannotPlan("application.mpi_ranks", message, "leave one of them out")
    if fixed == (False, False):
        nodes = fewest_nodes(request, resources, ranks, "application.mpi_ranks")
        return resources.with_layout(layout._replace(nodes=nodes, processes_per_node=ranks // nodes))
    divisor = nodes if fixed[0] else per_node
    if ranks % divisor:
        where = f"{divisor} nodes" if fixed[0] else f"{divisor} processes on a node"
        message = f"{ranks} ranks cannot be shared out evenly over {where}"
        raise CannotPlan("application.mpi_ranks", message, "take a multiple")
    if fixed[0]:
        return resources.with_layout(layout._replace(processes_per_node=ranks // divisor))
    return resources.with_layout(layout._replace(nodes=ranks // divisor))


def fewest_nodes(request: Request, resources: Resources, processes: int, about: str) -> int:
    """The smallest number of nodes that so many processes can be shared out over evenly.

    Raises:
        CannotPlan: there is none in the partition, or it is more than twice what as many processes need on full nodes.
    """
    target, hpc = request.target, request.application.hpc
    partition = target.partition(resources.partition)
    cores = target.cores_in(partition)
    limit = partition.nodes if partition and partition.nodes else None
    if target.scheduler is Scheduler.NONE:  # whose other hosts take ranks of trainings alone
        limit = 1 if hpc else 1 + len(target.hosts)
    if not cores:
        return 1
    cores_per_process = resources.layout.cores or 1
    full = cores // cores_per_process * ((hpc.core_subscription if hpc else None) or 1)
    least_nodes = -(-processes // full) if full else processes + 1
    for nodes in range(least_nodes, min(processes, limit or processes) + 1):
        if processes % nodes:
            continue
        if nodes > _WASTE * least_nodes:
            message = (
                f"{processes} processes can be spread evenly only over {nodes} or more nodes, "
                f"and {least_nodes} would hold them"
            )
            fewer = f"{(least_nodes - 1) * full} or " if least_nodes > 1 else ""
            raise CannotPlan(about, message, f"ask for {fewer}{least_nodes * full}, or say how many nodes")
        return nodes
    where = f"the partition {partition.name}" if partition else target.name
    has = f"{limit} nodes of {counted(cores, 'core')}" if limit and limit > 1 else f"{counted(cores, 'core')} on a node"
    threads = f" of {cores_per_process} threads" if cores_per_process > 1 else ""
    message = f"{processes} processes{threads} do not fit evenly: {where} has {has}"
    raise CannotPlan(about, message, "ask for fewer processes or threads")
