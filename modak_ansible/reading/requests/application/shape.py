"""How many nodes, processes and cores a request asks for, from the several ways in which it may say so."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from modak_ansible.model.job_options import JobOptions, cores_by_count
from modak_ansible.model.process_layout import ProcessLayout
from modak_ansible.model.quantities import counted
from modak_ansible.reading.blueprint.forms.forms import FieldProblem, Path
from modak_ansible.reading.requests.checks import APPLICATION, OPTIONS

_RANKS: Path = (*APPLICATION, "mpi_ranks")
_THREADS: Path = (*APPLICATION, "threads")


# Gets the path of a field, words about it, and a hint.
Tell = Callable[[Path, str, str], None]


class ShapeProblem(Exception):
    """Numbers that contradict each other; ``path`` is the field that is to be changed."""

    def __init__(self, path: Path, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.path = path
        self.problem = FieldProblem("contradiction", reason, hint)


def shape_of(
    options: JobOptions, *, ranks: int | None, threads: int | None, parallel: bool, subscription: int,
    node_cores: int | None, warn: Tell, cannot_keep: Tell,
) -> ProcessLayout:  # fmt: skip
    """The job's processes; cores and threads that nobody says are left to the planner.

    Args:
        ranks: processes of the whole job, where the application says them.
        threads: threads of each process, where it says them.
        parallel: whether every process that is asked for is started; else one is, and what was asked for are its cores.
        subscription: processes that may share a core.
        warn: gets the path, the words and the hint of a warning.
        cannot_keep: gets those of a preference that is not kept.

    Raises:
        ShapeProblem: two numbers contradict each other.
    """
    nodes, places = _places(options, ranks, node_cores, warn)
    processes = ranks or (nodes * places if parallel else 1)
    cores = _cores(options, nodes, places, warn)
    if nodes * places < processes <= nodes * places * subscription and processes % nodes == 0:
        places = processes // nodes
    if processes > nodes * places:
        # so the first MODAK's own description of the field has it: the most ranks
        reason = f"{processes} processes are more than {nodes} x {places}, which the job asks for: {nodes * places} run"
        cannot_keep(_RANKS, reason, "ask for more with node_count and process_count_per_node")
        processes = nodes * places
    if processes < nodes * places:
        places, cores = _shared(nodes, places, processes, cores or 1, warn, is_rank=ranks is not None)
    if threads and cores and threads > cores:
        reason = f"{threads} threads are more than the {counted(cores, 'core')} of their process: {cores} run"
        cannot_keep(_THREADS, reason, "ask for more with core_count_per_process, or for fewer processes")
        threads = cores
    return ProcessLayout(nodes, places, cores or threads, threads)


def _cores(options: JobOptions, nodes: int, places: int, warn: Tell) -> int | None:
    """Cores of each process, where it is said, or core_count says it."""
    cores, total = options.core_count_per_process, options.core_count
    if not (options.node_count and options.process_count_per_node and total) or total == nodes * places:
        return cores
    path = (*OPTIONS, "core_count")
    shared = cores_by_count(total, nodes, places)
    if shared is None or cores not in (None, shared):
        product = f"{nodes} nodes x {places} processes" + (f" x {cores} cores" if cores else "")
        reason = f"{product} are {nodes * places * (cores or 1)}, not {total}"
        raise ShapeProblem(path, reason, f"core_count: {nodes * places}, or leave it out")
    whose = "the job's" if shared * nodes * places == total else "those of each node"
    warn(path, f"the {total} cores are {whose}: each process has {shared}", f"core_count_per_process: {shared}")
    return shared


def _places(options: JobOptions, ranks: int | None, node_cores: int | None, warn: Tell) -> tuple[int, int]:
    """Nodes, and places for processes on each."""
    nodes, places, total = options.node_count, options.process_count_per_node, options.core_count
    if nodes and not places and total and (total % nodes or (ranks and total < ranks <= nodes * total)):
        path = (*OPTIONS, "core_count")
        warn(path, f"the {total} cores are those of each node", f"process_count_per_node: {total}")
        return nodes, total
    count = total or (ranks if not (nodes and places) else None)
    path = (*OPTIONS, "core_count") if total else _RANKS
    if count and places and not nodes:
        return _quotient(count, places, path, "process_count_per_node"), places
    if count and nodes and not places:
        return nodes, _quotient(count, nodes, path, "node_count")
    if count and not nodes and not places:
        least = ceil(count / node_cores) if node_cores else 1
        nodes = next(number for number in range(least, count + 1) if count % number == 0) if least <= count else count
        return nodes, count // nodes
    return nodes or 1, places or 1


def _quotient(count: int, divisor: int, path: Path, name: str) -> int:
    if count % divisor:
        raise ShapeProblem(path, f"{count} is not a multiple of {name}, {divisor}")
    return count // divisor


def _shared(nodes: int, places: int, processes: int, cores: int, warn: Tell, *, is_rank: bool) -> tuple[int, int]:
    """Fewer processes than places: each gets the cores of several."""
    path = _RANKS if is_rank else (*OPTIONS, "process_count_per_node" if nodes == 1 else "node_count")
    if processes % nodes:
        reason = f"{processes} process{'es' * (processes > 1)} cannot be spread evenly over {nodes} nodes"
        hint = "" if is_rank else "distributed_training: true starts one in every place"
        raise ShapeProblem(path, reason, hint)
    per_node = processes // nodes
    if places % per_node:
        raise ShapeProblem(path, f"{per_node} processes of a node cannot share {places} places evenly")
    share = cores * (places // per_node)
    warn(
        path, f"{processes} of {nodes * places} processes run: each gets {share} cores",
        f"process_count_per_node: {per_node}, core_count_per_process: {share} says the same",
    )  # fmt: skip
    return per_node, share
