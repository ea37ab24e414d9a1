"""Whether the target can give what the job asks for."""

from __future__ import annotations

from collections.abc import Iterator

from modak_ansible.allocation.options import settled
from modak_ansible.allocation.process_layout import cores_of
from modak_ansible.allocation.site_rules import enforced
from modak_ansible.errors import CannotPlan, nearest
from modak_ansible.model.quantities import format_size, format_walltime
from modak_ansible.model.request import Request
from modak_ansible.model.target import Partition, Scheduler


def choose_partition(request: Request) -> Partition | None:
    """Where the job will run; None when the target describes no partitions.

    Raises:
        CannotPlan: the partition that is asked for is not there.
    """
    target, wanted = request.target, request.resources.partition
    if wanted and target.scheduler is Scheduler.NONE:
        raise CannotPlan("resources.partition", f"{target.name} has no scheduler and no partitions", "leave it out")
    found = target.partition(wanted)
    name = wanted or target.site.partition
    if name and found is None and target.partitions:
        about = "resources.partition" if wanted else "host"
        hint = nearest(name, [each.name for each in target.partitions])
        raise CannotPlan(about, f"{target.name} has no partition {name}", hint)
    return found


def cores_per_process(request: Request, partition: Partition | None) -> int | None:
    """What is asked for, else the process's share of its node, else one under a scheduler; None when nobody knows."""
    resources = request.resources
    if resources.cores_per_process:
        return resources.cores_per_process
    cores = _node_cores(request, partition)
    if cores:
        return max(1, cores // cores_of(request.application.hpc, resources.processes_per_node))
    return None if request.target.scheduler is Scheduler.NONE else 1


def resource_problems(request: Request) -> Iterator[CannotPlan]:
    """Everything that the job asks for and the target has not got; what is not known is not checked."""
    try:
        request = enforced(settled(request))
        partition = choose_partition(request)
    except CannotPlan as error:
        yield error
        return
    yield from _process_problems(request)
    yield from _count_problems(request, partition)
    yield from _limit_problems(request, partition)


def _node_cores(request: Request, partition: Partition | None) -> int | None:
    return partition.cores if partition and partition.cores else request.target.processor.cores


def _process_problems(request: Request) -> Iterator[CannotPlan]:
    resources, target = request.resources, request.target
    if target.scheduler is Scheduler.NONE and resources.nodes > 1:
        message = f"{target.name} is a single machine, and {resources.nodes} nodes are asked for"
        yield CannotPlan("resources.nodes", message, "take a Slurm or Torque target, or one node")
    processes = resources.nodes * resources.processes_per_node
    application = request.application
    if processes > 1 and application.hpc is None and not application.distributed_training:
        runs = application.script or application.name
        message = (
            f"{processes} processes of {runs} would each train all of it, and write one metrics.json: "
            "what makes one training of many processes is missing"
        )
        hint = "ask for one process; or say distributed_training: true, where the script is parallel by itself"
        yield CannotPlan(_about_processes(request), message, hint)
        return
    hpc = application.hpc
    knows_launcher = (
        target.scheduler is Scheduler.SLURM or target.site.launcher or (hpc and hpc.parallelisation == "mpi")
    )
    if processes > 1 and not knows_launcher:
        message = f"{processes} processes need a launcher, which {target.name} does not name"
        yield CannotPlan("resources", message, "give the target's site capability a launcher, such as mpirun")


def _about_processes(request: Request) -> str:
    """What of the request asks for several processes."""
    options, resources = request.job_options, request.resources
    for name in ("node_count", "process_count_per_node", "core_count"):
        if (getattr(options, name) or 1) > 1:
            return f"job_options.{name}"
    return "resources.nodes" if resources.nodes > 1 else "resources.processes_per_node"


def _count_problems(request: Request, partition: Partition | None) -> Iterator[CannotPlan]:
    resources = request.resources
    cores_about = "cores_per_process" if resources.cores_per_process else "processes_per_node"
    slots = cores_of(request.application.hpc, resources.processes_per_node)
    cores = (resources.cores_per_process or 1) * slots
    for about, asked, there, unit in (
        ("nodes", resources.nodes, partition.nodes if partition else None, "nodes"),
        (cores_about, cores, _node_cores(request, partition), "cores a node"),
    ):
        if there is not None and asked > there:
            message = f"{asked} {unit} are asked for, and {_where(request, partition)} has {there}"
            yield CannotPlan(f"resources.{about}", message, f"ask for at most {there}")
    yield from _accelerator_problems(request, partition)


def _accelerator_problems(request: Request, partition: Partition | None) -> Iterator[CannotPlan]:
    """More accelerators than a node has; where none are described, how to describe them is the cure."""
    target, asked = request.target, request.resources.accelerators
    there = _accelerators(request, partition)
    if asked <= there:
        return
    unit = "1 accelerator a node is" if asked == 1 else f"{asked} accelerators a node are"
    where = _where(request, partition)
    others = [
        each.name for each in target.partitions if each is not partition and _accelerators(request, each) >= asked
    ]
    if others:
        hint = f"partition: {others[0]} has them"
    elif partition:
        described = f"partitions: [ {{ name: {partition.name}, accelerators: {asked} }} ]"
        hint = f"where its nodes have them, describe them: {described}"
    else:
        described = f"capabilities: {{ accelerator: {{ properties: {{ count: {asked} }} }} }}"
        hint = f"where it has them, describe them: {described}"
    has = f"has {there}" if there else "describes none"
    yield CannotPlan("resources.accelerators", f"{unit} asked for, and {where} {has}", hint)


def _accelerators(request: Request, partition: Partition | None) -> int:
    own = partition.accelerators if partition else None
    return request.target.accelerator.count if own is None else own


def _limit_problems(request: Request, partition: Partition | None) -> Iterator[CannotPlan]:
    resources, where = request.resources, _where(request, partition)
    memory = partition.memory if partition and partition.memory else request.target.processor.memory
    if resources.memory and memory and resources.memory > memory:
        message = f"{format_size(resources.memory)} a node are asked for, and {where} has {format_size(memory)}"
        yield CannotPlan("resources.memory", message, f"ask for at most {format_size(memory)}")
    longest = partition.walltime if partition else None
    if longest and resources.walltime > longest:
        message = f"{format_walltime(resources.walltime)} is longer than the {format_walltime(longest)} of {where}"
        yield CannotPlan("walltime", message, f'ask for at most "{format_walltime(longest)}"')
    checkpoint = request.checkpoint
    if checkpoint and checkpoint.signal_before_wall >= resources.walltime:
        before, wall = checkpoint.signal_before_wall, resources.walltime
        message = f"{before} s before the wall is before the job begins: it has {wall} s"
        yield CannotPlan("checkpoint.signal_before_wall", message, "give it more wall time, or a smaller number")


def _where(request: Request, partition: Partition | None) -> str:
    return f"the partition {partition.name}" if partition else request.target.name
