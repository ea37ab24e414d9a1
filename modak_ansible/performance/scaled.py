"""A request's nodes, processes and threads for the parallel efficiency that it wants at least."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from modak_ansible.model.application import Resources
from modak_ansible.model.request import Request
from modak_ansible.model.scaled import Scaled, Shape
from modak_ansible.model.target import Scheduler
from modak_ansible.performance.scaling import Limits, Run, Scaling, choose, fit_scaling, seen_efficiency

_THREADED = {"openmp"}


def scaled_resources(request: Request, runs: Sequence[Run] = ()) -> Scaled | None:
    """The shape that is the fastest of those which are efficient enough; None where no efficiency is asked for.

    Args:
        request: with nodes, processes and cores settled.
        runs: measured ones of this program on this machine, with several numbers of processes (of threads, for a
            program that has threads alone).
    """
    least = request.optimisation.minimal_efficiency
    if least is None:
        return None
    hpc, resources = request.application.hpc, request.resources
    asked = Shape(resources.nodes, resources.processes_per_node)
    threads = (hpc.threads if hpc else None) or resources.layout.threads_of_process
    is_threaded = hpc is not None and hpc.parallelisation in _THREADED
    stays = Scaled(asked, asked, threads, threads)
    problem = _why_not(request, asked, is_threaded=is_threaded)
    if problem:
        return Scaled(asked, asked, threads, threads, why_not=problem)
    law, records = _law(request, runs, threads if is_threaded else asked.processes)
    if law is None or not law.is_known:
        return Scaled(asked, asked, threads, threads, why_not=_UNKNOWN)
    limits = _limits(request, asked, threads, is_threaded=is_threaded)
    shape = choose(law, least, limits)
    before = threads if is_threaded else asked.processes
    now = shape.processes
    return Scaled(
        asked=asked,
        taken=stays.asked if is_threaded else shape,
        threads=threads,
        threads_taken=now if is_threaded else threads,
        efficiency=law.efficiency(now),
        faster=law.seconds(before) / law.seconds(now) if law.seconds(now) > 0 else None,
        records=records,
    )


def with_shape(request: Request, scaled: Scaled) -> Request:
    """The request with what is taken, and nothing of the job's options against it."""
    application, resources = request.application, request.resources
    nodes, each = scaled.taken
    layout = replace(resources.layout, nodes=nodes, processes_per_node=each)
    options = {"node_count": None, "process_count_per_node": None, "core_count": None}
    if application.hpc is not None:
        is_threaded = application.hpc.parallelisation in _THREADED
        ranks = None if is_threaded else scaled.taken.processes
        hpc = application.hpc.model_copy(update={"threads": scaled.threads_taken} if is_threaded else {"ranks": ranks})
        application = application.model_copy(update={"hpc": hpc})
        if is_threaded:
            layout = replace(layout, cores=scaled.threads_taken)
            options["core_count_per_process"] = None
    return request.model_copy(
        update={
            "application": application,
            "resources": resources.with_layout(layout),
            "job_options": request.job_options.model_copy(update=options),
        }
    )


_UNKNOWN = "how it scales is not known: no records with two numbers of processes, no scaling_efficiency that was seen"


def _why_not(request: Request, asked: Shape, *, is_threaded: bool) -> str:
    hpc = request.application.hpc
    if hpc is None and asked.processes == 1:
        return "one process trains: only distributed trainings and parallel programs have processes to choose"
    if hpc is not None and not is_threaded and hpc.parallelisation != "mpi":
        return f"a program with {hpc.parallelisation} is one process"
    if is_threaded and not _cores(request):
        return "nobody says how many cores a node has"
    return ""


def _law(request: Request, runs: Sequence[Run], asked: int) -> tuple[Scaling | None, int]:
    """From measured runs, or else from the efficiency that the request says was seen with what it asks for."""
    if len({run.processes for run in runs}) > 1:
        return fit_scaling(runs), len(runs)
    hpc = request.application.hpc
    if hpc is not None and hpc.scaling_efficiency is not None:
        return seen_efficiency(asked, hpc.scaling_efficiency), 0
    return None, 0


def _limits(request: Request, asked: Shape, threads: int, *, is_threaded: bool) -> Limits:
    """Of the partition; what nobody knows is not exceeded."""
    hpc, resources, target = request.application.hpc, request.resources, request.target
    cores = _cores(request)
    if is_threaded:
        return Limits(nodes=1, cores=cores or threads)
    partition = target.partition(resources.partition)
    nodes = partition.nodes if partition and partition.nodes else asked.nodes
    if target.scheduler is Scheduler.NONE:
        nodes = 1
    shared = (hpc.core_subscription if hpc else None) or 1
    each, memory = request.job_options.minimum_memory_per_processor, _memory(request)
    if each and memory and cores:
        cores = min(cores, memory // each)
    limits = Limits(nodes, cores or asked.processes_per_node * threads, threads, shared)
    if resources.accelerators:  # a process for each of them
        limits = Limits(nodes, min(limits.processes_per_node, resources.accelerators), 1, 1)
    return limits


def _memory(request: Request) -> int | None:
    """Bytes that a job may have of a node."""
    partition = request.target.partition(request.resources.partition)
    there = partition.memory if partition and partition.memory else request.target.processor.memory
    return request.resources.memory or there


def _cores(request: Request) -> int | None:
    resources: Resources = request.resources
    partition = request.target.partition(resources.partition)
    return partition.cores if partition and partition.cores else request.target.processor.cores
