"""Findings about partitions: does what a blueprint says of them fit what the scheduler has? Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from modak_ansible.allocation.limits import resource_problems
from modak_ansible.allocation.options import settled
from modak_ansible.allocation.site_rules import enforced
from modak_ansible.discovery.aim import Aim
from modak_ansible.discovery.finding import Finding, missing, ok, warning
from modak_ansible.errors import CannotPlan, nearest
from modak_ansible.model.application import Resources
from modak_ansible.model.quantities import counted, format_size, format_walltime
from modak_ansible.model.request import Request
from modak_ansible.model.target import Partition, destinations
from modak_ansible.schedulers.cluster import ClusterFacts, PartitionFacts


def limit_findings(aim: Aim, cluster: ClusterFacts) -> Iterator[Finding]:
    """What is said of each partition against what it is, and whether the training fits where it will go."""
    partitions = {partition.name: partition for partition in cluster.partitions}
    if not aim.target.partitions:
        yield from _listed(cluster)
    request = aim.request
    if request is None:
        return
    agreed = _agreed(request)
    chosen = _chosen(agreed, cluster)
    for partition in aim.target.partitions:
        if partition.name in partitions:
            yield from _compared(partition, partitions[partition.name], is_chosen=partition.name in chosen)
        elif partition.name not in chosen:
            yield warning("partition", f"there is no {partition.name}", _hint(partition.name, partitions))
    absent = [name for name, place in chosen.items() if name not in partitions and "@" not in place]
    for name in absent:
        yield missing("partition", f"there is no {name}, where the job would go", _hint(name, partitions))
    if chosen and partitions.keys() >= chosen.keys():
        yield from _fitting(request, agreed.resources, [partitions[name] for name in chosen])


def partition_from(partition: PartitionFacts) -> Partition:
    """What a job may be planned with: what every node of the partition has, within its limits.

    Of accelerators, which some of the nodes have only, it is the most that one has.
    """
    cores = [kind.cores for kind in partition.kinds if kind.cores]
    memories = [kind.memory for kind in partition.kinds if kind.memory]
    most = max((kind.accelerator_count for kind in partition.kinds), default=None)
    limits = [count for count in (most, partition.accelerators) if count is not None]
    return Partition(
        name=partition.name,
        nodes=_least(partition.nodes, partition.most_nodes),
        cores=_least(partition.cores, *cores),
        memory=_least(partition.memory, *memories),
        usual_memory=partition.usual_memory,
        memory_per_core=partition.memory_per_core,
        accelerators=None if most is None else min(limits),
        own_cores=partition.own_cores,
        walltime=partition.walltime,
        default=partition.default,
    )


def largest_from(partition: PartitionFacts) -> Partition:
    """The largest job that the partition takes on any of its nodes."""
    largest = {
        "cores": _least(partition.cores, max((kind.cores or 0 for kind in partition.kinds), default=0) or None),
        "memory": _least(partition.memory, max((kind.memory or 0 for kind in partition.kinds), default=0) or None),
    }
    return partition_from(partition).model_copy(update=largest)


def _least(*values: int | None) -> int | None:
    return min((value for value in values if value), default=None)


def _listed(cluster: ClusterFacts) -> Iterator[Finding]:
    open_partitions = [partition for partition in cluster.partitions if not partition.closed]
    names = ", ".join(f"{partition.name}{' (default)' if partition.default else ''}" for partition in open_partitions)
    if open_partitions:
        yield ok("partitions", names)
    else:
        closed = "; ".join(f"{partition.name}: {partition.closed}" for partition in cluster.partitions)
        yield missing("partitions", f"none takes the user's jobs: {closed}", "ask the administrators for access")


def _agreed(request: Request) -> Request:
    """The request with its job options and the site's rules in its resources."""
    try:
        return enforced(settled(request))
    except CannotPlan:  # what contradicts itself is told where it is held against the limits
        return request


def _chosen(request: Request, cluster: ClusterFacts) -> dict[str, str]:
    """Where the job will go, or else the scheduler's own default: of each name the words that hold it, which may be a
    queue of another server's.
    """
    described = request.target.partition(None)
    default = next((partition.name for partition in cluster.partitions if partition.default), "")
    usual = request.resources.partition or request.target.site.partition or (described.name if described else default)
    places = [component.partition or usual for component in request.job_options.components] or [usual]
    return {name: place for place in places if place for name in destinations(place)}


def _compared(partition: Partition, facts: PartitionFacts, *, is_chosen: bool) -> Iterator[Finding]:
    if facts.closed:
        finding = missing if is_chosen else warning
        yield finding(
            "partition", f"{partition.name} is closed: {facts.closed}", "take another, or ask the administrators"
        )
        return
    real = largest_from(facts)
    too_much = [
        f"{format_value(claimed)} {name}, and it has {format_value(actual)}"
        for name, claimed, actual, format_value in (
            ("nodes", partition.nodes, real.nodes, str),
            ("cores a node", partition.cores, real.cores, str),
            ("memory a node", partition.memory, real.memory, format_size),
            ("accelerators a node", partition.accelerators, real.accelerators, str),
            ("wall time", partition.walltime, real.walltime, format_walltime),
        )
        if claimed is not None and actual is not None and claimed > actual
    ]
    if partition.own_cores and not facts.own_cores:
        yield warning(
            "partition",
            f"own_cores: true is said of {partition.name}, and the scheduler does not tell that it confines jobs to "
            "theirs",
            "leave it out: threads that wait then leave their cores to others",
        )
    if too_much:
        seen = f"{partition.name} is described with {'; '.join(too_much)}"
        yield warning("partition", seen, "modak discover writes what is there")
        return
    down = sum(kind.unusable for kind in facts.kinds)
    if facts.nodes and down >= facts.nodes:
        yield warning("partition", f"all {facts.nodes} nodes of {partition.name} are down or drained", "jobs will wait")
    else:
        off = sum(kind.off for kind in facts.kinds)
        words = [f"{down} of its nodes are down or drained"] * bool(down)
        words += [f"{off} of its nodes are off until a job needs them"] * bool(off)
        words += [facts.note] * bool(facts.note and is_chosen)
        yield ok("partition", "; ".join([f"{partition.name} fits", *words]))


def _fitting(request: Request, resources: Resources, chosen: Sequence[PartitionFacts]) -> Iterator[Finding]:
    real = [largest_from(partition).model_copy(update={"default": partition is chosen[0]}) for partition in chosen]
    target = request.target.model_copy(update={"partitions": tuple(real)})
    problems = resource_problems(request.model_copy(update={"target": target}))
    for problem in problems:
        yield missing("limits", f"{request.training}: {problem.message}", problem.hint)
    if not problems:
        words = f"{counted(resources.nodes, 'node')}, {format_walltime(resources.walltime)}"
        where = " and ".join(partition.name for partition in real)
        yield ok("limits", f"what {request.training} asks for ({words}) fits {where}")


def _hint(name: str, partitions: dict[str, PartitionFacts]) -> str:
    return nearest(name, partitions) or "modak discover lists those that are there"
