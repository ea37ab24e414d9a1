"""A request's nodes, processes and threads where it leaves them to the planner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import inf
from typing import NamedTuple, Protocol

from modak_ansible.errors import CannotPlan
from modak_ansible.model.job_options import ONE_PROCESS
from modak_ansible.model.measured.prediction import Prediction, Question
from modak_ansible.model.process_layout import ProcessLayout
from modak_ansible.model.request import Request
from modak_ansible.model.scaled import Scaled, ScalePoint, Shape
from modak_ansible.model.target import Scheduler
from modak_ansible.optimisations.base import between
from modak_ansible.performance.scaling import Limits, Scaling, ScalingRun, choose, fit_scaling, seen_efficiency

_THREADED = {"openmp"}
_SHOWN = 64  # numbers of nodes in a curve; of more, the powers of two


class Predictor(Protocol):
    """What of the performance model is asked here."""

    def predict(self, question: Question) -> Prediction:
        """How long a whole run takes."""


def scaled_program(request: Request, runs: Sequence[ScalingRun] = ()) -> Scaled | None:
    """The best shape of a program for what it asks for; None where it leaves nothing to the planner, or is a training.

    Args:
        runs: measured ones of this program on this machine, with several numbers of processes (of threads, for a
            program that has threads alone).
    """
    scale, hpc = request.scale, request.application.hpc
    if scale is None or hpc is None:
        return None
    shape_asked, threads = _asked(request)
    is_threaded = hpc.parallelisation in _THREADED
    stays = Scaled(shape_asked, shape_asked, threads, threads)
    if not is_threaded and hpc.parallelisation != "mpi":
        return stays._replace(why_not=f"a program with {hpc.parallelisation} is one process")
    if is_threaded and not _cores(request):
        return stays._replace(why_not="the number of cores of a node is not known")
    law, source = _law(request, runs, threads if is_threaded else shape_asked.processes)
    if law is None or not law.is_known:
        return stays._replace(why_not=_UNKNOWN)
    limits = _limits(request, shape_asked, threads, is_threaded=is_threaded)
    shape = choose(law, scale, limits, request.resources.walltime)
    before, now = threads if is_threaded else shape_asked.processes, shape.processes
    return Scaled(
        asked=shape_asked,
        taken=shape_asked if is_threaded else shape,
        threads=threads,
        threads_taken=now if is_threaded else threads,
        efficiency=law.efficiency(now),
        faster=law.seconds(before) / law.seconds(now) if law.seconds(now) > 0 else None,
        source=source,
    )


def scaled_training(
    request: Request,
    layout: ProcessLayout,
    question: Question,
    model: Predictor,
    runs: Sequence[ScalingRun] = (),
    hosts: int = 1,
) -> Scaled | None:
    """The best number of whole nodes of a training for what it asks for; None where it leaves nothing to the planner.

    Args:
        question: what the model is asked of it, with its image and settings chosen.
        runs: measured ones of the same training, with several numbers of processes: what the curve has of them is said.
        hosts: of a target without a scheduler, as many as its ranks can be started on.
    """
    scale = request.scale
    if scale is None:
        return None
    shape_asked, threads = Shape(layout.nodes, layout.processes_per_node), layout.threads_of_process
    stays = Scaled(shape_asked, shape_asked, threads, threads)
    try:
        distributed = request.application.distributed
        several = layout._replace(nodes=(distributed.degree if distributed else None) or 2)
        question = question.model_copy(update=dict(between(request, several, question.settings)))
    except CannotPlan as error:
        return stays._replace(why_not=error.message)
    limits = _limits(request, shape_asked, threads, is_threaded=False, hosts=hosts)
    per_node = limits.processes_per_node
    question, without = _measured(_of(question, Shape(1, 1)), model)
    alone = model.predict(_with(question, request, layout, Shape(1, 1)))
    measured_counts = Counter(run.processes for run in runs)
    curve: list[ScalePoint] = []
    for nodes in _weighed(limits.nodes):
        shape = Shape(nodes, per_node)
        try:
            prediction = model.predict(_with(question, request, layout, shape))
        except CannotPlan:  # such as a degree that does not divide them
            continue
        if not prediction.known or not alone.known:
            doubts = (*alone.doubts, *prediction.doubts)
            return stays._replace(why_not=f"how it scales is not known: {doubts[0]}" if doubts else _UNKNOWN)
        efficiency = alone.seconds.middle / (shape.processes * prediction.seconds.middle)
        curve.append(
            ScalePoint(
                nodes=nodes,
                processes=shape.processes,
                seconds=prediction.seconds,
                efficiency=efficiency,
                core_hours=prediction.core_hours,
                measured=measured_counts[shape.processes],
            )
        )
    law = _Curve({1: (alone.seconds.middle, 1.0), **{p.processes: (p.seconds.middle, p.efficiency) for p in curve}})
    shape = choose(law, scale, limits, request.resources.walltime, fills_nodes=True)
    before = model.predict(_with(question, request, layout, shape_asked))
    return Scaled(
        asked=shape_asked,
        taken=shape,
        threads=threads,
        threads_taken=threads,
        efficiency=law.efficiency(shape.processes),
        faster=before.seconds.middle / law.seconds(shape.processes),
        source=f"the law of one process's steps and the network as measured{without}",
        curve=tuple(curve),
    )


def _with(question: Question, request: Request, layout: ProcessLayout, shape: Shape) -> Question:
    """The question with as many processes, in the way in which so many are one training.

    Raises:
        CannotPlan: so many cannot be.
    """
    scaled_layout = layout._replace(nodes=shape.nodes, processes_per_node=shape.processes_per_node)
    return _of(question, shape).model_copy(update=dict(between(request, scaled_layout, question.settings)))


def _measured(question: Question, model: Predictor) -> tuple[Question, str]:
    """The question without the settings whose effect nobody measured, which are the same for every number of nodes."""
    if model.predict(question).known:
        return question, ""

    def having(settings: Mapping[str, str]) -> Question:
        return question.model_copy(update={"settings": dict(settings)})

    measured = {
        name: setting for name, setting in question.settings.items() if model.predict(having({name: setting})).known
    }
    names = [
        f"{name.replace('_', ' ')} {setting}" for name, setting in question.settings.items() if name not in measured
    ]
    return having(measured), f", without the effect of {' and '.join(names)}, which was not measured" if names else ""


class _Curve(NamedTuple):
    """A law by what was weighed: seconds and efficiency by processes."""

    points: Mapping[int, tuple[float, float]]

    @property
    def most(self) -> int:
        return max(self.points)

    def seconds(self, processes: int) -> float:
        return self.points[processes][0] if processes in self.points else inf

    def efficiency(self, processes: int) -> float:
        return self.points[processes][1] if processes in self.points else 0.0


def _weighed(limit: int) -> list[int]:
    """Numbers of nodes up to so many."""
    if limit <= _SHOWN:
        return list(range(1, limit + 1))
    powers = [2**power for power in range(limit.bit_length())]
    return sorted({*range(1, _SHOWN + 1), *powers, limit})


def _of(question: Question, shape: Shape) -> Question:
    return question.model_copy(update={"nodes": shape.nodes, "processes_per_node": shape.processes_per_node})


def _asked(request: Request) -> tuple[Shape, int]:
    """Nodes with processes, and the threads of each."""
    hpc, resources = request.application.hpc, request.resources
    threads = (hpc.threads if hpc else None) or resources.layout.threads_of_process
    return Shape(resources.nodes, resources.processes_per_node), threads


def with_shape(request: Request, scaled: Scaled) -> Request:
    """The request with what is taken, and nothing of the job's options against it."""
    application, resources = request.application, request.resources
    nodes, per_node = scaled.taken
    layout = resources.layout._replace(nodes=nodes, processes_per_node=per_node)
    options = dict(ONE_PROCESS)
    if application.hpc is not None:
        is_threaded = application.hpc.parallelisation in _THREADED
        ranks = None if is_threaded else scaled.taken.processes
        hpc = application.hpc.model_copy(update={"threads": scaled.threads_taken} if is_threaded else {"ranks": ranks})
        application = application.model_copy(update={"hpc": hpc})
        if is_threaded:
            layout = layout._replace(cores=scaled.threads_taken)
            options["core_count_per_process"] = None
    return request.model_copy(
        update={
            "application": application,
            "resources": resources.with_layout(layout),
            "job_options": request.job_options.model_copy(update=options),
        }
    )


_UNKNOWN = "how it scales is not known: no records with two numbers of processes, no scaling_efficiency that was seen"


def _law(request: Request, runs: Sequence[ScalingRun], processes: int) -> tuple[Scaling | None, str]:
    """From measured runs, or else from the efficiency that the request says was seen with what it asks for."""
    if len({run.processes for run in runs}) > 1:
        return fit_scaling(runs), f"{len(runs)} records"
    hpc = request.application.hpc
    if hpc is not None and hpc.scaling_efficiency is not None:
        return seen_efficiency(processes, hpc.scaling_efficiency), "the efficiency that was seen"
    return None, ""


def _limits(request: Request, shape: Shape, threads: int, *, is_threaded: bool, hosts: int = 1) -> Limits:
    """Of the partition, or of the hosts where there is no scheduler; what nobody knows is not exceeded."""
    hpc, resources, target = request.application.hpc, request.resources, request.target
    cores = _cores(request)
    if is_threaded:
        return Limits(nodes=1, cores=cores or threads)
    partition = target.partition(resources.partition)
    limit = request.scale.at_most if request.scale else None
    nodes = partition.nodes if partition and partition.nodes else limit or shape.nodes
    if target.scheduler is Scheduler.NONE:
        nodes = hosts
    nodes = min(nodes, limit or nodes)
    shared = (hpc.core_subscription if hpc else None) or 1
    memory_per_process, memory = request.job_options.minimum_memory_per_processor, _memory(request)
    if memory_per_process and memory and cores:
        cores = min(cores, memory // memory_per_process)
    limits = Limits(nodes, cores or shape.processes_per_node * threads, threads, shared)
    if resources.accelerators:  # a process for each of them
        limits = Limits(nodes, min(limits.processes_per_node, resources.accelerators), 1, 1)
    return limits


def _memory(request: Request) -> int | None:
    """Bytes that a job may have of a node."""
    installed = request.target.memory_in(request.target.partition(request.resources.partition))
    return request.resources.memory or installed


def _cores(request: Request) -> int | None:
    return request.target.cores_in(request.target.partition(request.resources.partition))
