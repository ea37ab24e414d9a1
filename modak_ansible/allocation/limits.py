"""Decides whether the target has what a job is to get: nodes, cores, accelerators, memory, time, and a launcher.

Everything that it has not got is told, each with its place; what nobody knows of a target is not checked.
"""

from __future__ import annotations

from collections.abc import Iterator

from modak_ansible.allocation.allocate import JobAllocation, allocate
from modak_ansible.allocation.ranks import ranks_of
from modak_ansible.errors import CannotPlan
from modak_ansible.model.process_layout import ProcessLayout
from modak_ansible.model.quantities import format_size, format_walltime
from modak_ansible.model.request import Request
from modak_ansible.model.target import Partition, Scheduler, destinations


def resource_problems(request: Request) -> list[CannotPlan]:
    """Everything that a request asks for and its target has not got; what is not known is not checked."""
    try:
        return list(limit_problems(allocate(request)))
    except CannotPlan as error:
        return [error]


def limit_problems(job: JobAllocation) -> Iterator[CannotPlan]:
    """Everything that a job is to get and its target has not got; what is not known is not checked."""
    yield from _process_problems(job)
    yield from _checkpoint_problems(job.request)
    yield from _component_problems(job) if job.request.job_options.components else _node_problems(job)


def _component_problems(job: JobAllocation) -> Iterator[CannotPlan]:
    """What each component of a heterogeneous job asks for and its partition has not got, or all of one together."""
    about, components = "job_options.components", job.components
    partitions = dict.fromkeys(component.partition for component in components)
    for component, allocated in zip(job.request.job_options.components, components, strict=True):
        problems = list(_node_problems(allocated))
        for problem in problems:
            yield CannotPlan(f"{about}.{component.name}", f"{component.name}: {problem.message}", problem.hint)
        if problems:
            partitions.pop(allocated.partition, None)
    for partition in filter(None, partitions):
        nodes = sum(component.layout.nodes for component in components if component.partition == partition)
        if partition.nodes is not None and nodes > partition.nodes:
            message = f"components ask for {nodes} nodes of the partition {partition.name}, which has {partition.nodes}"
            yield CannotPlan(about, message, f"ask for at most {partition.nodes}")


def _node_problems(job: JobAllocation) -> Iterator[CannotPlan]:
    """Of a job that is sent to several partitions, what any of them has not got."""
    target = job.request.target
    for partition in map(target.partition, destinations(job.partition.name)) if job.partition else [None]:
        yield from _count_problems(job.request, job.layout, partition)
        yield from _accelerator_problems(job.request, partition)
        yield from _limit_problems(job.request, partition)


def _process_problems(job: JobAllocation) -> Iterator[CannotPlan]:
    request, layout = job.request, job.layout
    hpc, target = request.application.hpc, request.target
    hosts = 1 + len(target.hosts)
    if target.scheduler is Scheduler.NONE and layout.nodes > hosts:
        is_said = f"has {hosts} hosts" if target.hosts else "is a single machine"
        message = f"{target.name} {is_said}, and {layout.nodes} nodes are asked for"
        hint = "ask for at most as many" if target.hosts else "use a cluster, name more of its hosts, or use one node"
        yield CannotPlan("resources.nodes", message, hint)
        return
    try:
        ranks = ranks_of(request, layout)
    except CannotPlan as problem:
        yield problem
        return
    starts_itself = ranks and (ranks.is_prepared or ranks.strategy == "own")
    if target.scheduler is Scheduler.NONE and layout.nodes > 1:
        if not starts_itself:
            message = f"{target.name} has several hosts and no scheduler: only PyTorch's ranks can be started on them"
            hint = "use one node; or a cluster, where programs, MPI and unrelated processes have a launcher"
            yield CannotPlan("resources.nodes", message, hint)
        return
    knows_launcher = (
        target.scheduler is Scheduler.SLURM or target.site.launcher or (hpc and hpc.parallelisation == "mpi")
    )
    # on one node and in each Pod the job's script starts them, on several nodes blaunch does
    is_started = layout.nodes == 1 or target.scheduler in (Scheduler.LSF, Scheduler.KUBERNETES)
    started = starts_itself and is_started
    if layout.processes > 1 and not knows_launcher and not started:
        message = f"{layout.processes} processes need a launcher, which {target.name} does not name"
        yield CannotPlan("resources", message, "give the target's site capability a launcher, such as mpirun")


def _count_problems(request: Request, layout: ProcessLayout, partition: Partition | None) -> Iterator[CannotPlan]:
    cores_about = "cores_per_process" if request.resources.layout.cores else "processes_per_node"
    for about, requested, available, unit in (
        ("nodes", layout.nodes, partition.nodes if partition else None, "nodes"),
        (cores_about, layout.cores_per_node, request.target.cores_in(partition), "cores a node"),
    ):
        if available is not None and requested > available:
            message = f"{requested} {unit} are asked for, and {_where(request, partition)} has {available}"
            yield CannotPlan(f"resources.{about}", message, f"ask for at most {available}")


def _accelerator_problems(request: Request, partition: Partition | None) -> Iterator[CannotPlan]:
    """More accelerators than a node has; where none are described, how to describe them is the cure."""
    target, requested = request.target, request.resources.accelerators
    available = target.accelerators_in(partition)
    if requested <= available:
        return
    unit = "1 accelerator a node is" if requested == 1 else f"{requested} accelerators a node are"
    where = _where(request, partition)
    other_partitions = [
        other.name
        for other in target.partitions
        if other is not partition and target.accelerators_in(other) >= requested
    ]
    if other_partitions:
        hint = f"partition: {other_partitions[0]} has them"
    elif partition:
        described = f"partitions: [ {{ name: {partition.name}, accelerators: {requested} }} ]"
        hint = f"where its nodes have them, describe them: {described}"
    else:
        described = f"capabilities: {{ accelerator: {{ properties: {{ count: {requested} }} }} }}"
        hint = f"where it has them, describe them: {described}"
    has = f"has {available}" if available else "describes none"
    yield CannotPlan("resources.accelerators", f"{unit} asked for, and {where} {has}", hint)


def _limit_problems(request: Request, partition: Partition | None) -> Iterator[CannotPlan]:
    resources, where = request.resources, _where(request, partition)
    memory = request.target.memory_in(partition)
    if resources.memory and memory and resources.memory > memory:
        message = f"{format_size(resources.memory)} a node are asked for, and {where} has {format_size(memory)}"
        yield CannotPlan("resources.memory", message, f"ask for at most {format_size(memory)}")
    longest = partition.walltime if partition else None
    if longest and resources.walltime > longest:
        message = f"{format_walltime(resources.walltime)} is longer than the {format_walltime(longest)} of {where}"
        yield CannotPlan("walltime", message, f'ask for at most "{format_walltime(longest)}"')


def _checkpoint_problems(request: Request) -> Iterator[CannotPlan]:
    checkpoint, resources = request.checkpoint, request.resources
    if checkpoint and checkpoint.signal_before_wall >= resources.walltime:
        before, wall = checkpoint.signal_before_wall, resources.walltime
        message = f"{before} s before the end of the wall time is before the job begins: the wall time is {wall} s"
        yield CannotPlan("checkpoint.signal_before_wall", message, "give it more wall time, or a smaller number")


def _where(request: Request, partition: Partition | None) -> str:
    return f"the partition {partition.name}" if partition else request.target.name
