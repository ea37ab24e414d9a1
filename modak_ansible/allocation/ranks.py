"""What makes one training of a job's processes: its script, or modak's runtime in it; or that nothing does.

Of the ways in which the runtime does it, the first that fits into a rank's memory is taken, where a trace tells.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from zlib import crc32

from modak_ansible.allocation.memory import limit_of
from modak_ansible.errors import CannotPlan
from modak_ansible.model.distributed import ALIKE, PREPARED, SHARED_OUT, Distributed, Mesh, Parallelism, mesh_of, meshes
from modak_ansible.model.measured.need import format_peak, peak_of
from modak_ansible.model.process_layout import ProcessLayout
from modak_ansible.model.quantities import format_size
from modak_ansible.model.request import Request
from modak_ansible.model.target import Scheduler

# Frameworks whose scripts modak_runtime.prepare makes data parallel.
_PREPARED = ("pytorch",)
_SHARES_OUT_FROM = (2, 13)  # PyTorch's version
_CURE = (
    "ask for one process; or call modak_runtime.prepare in the script, which makes it data parallel; or set "
    "distributed_training: true if it is parallel by itself, or distributed: { strategy: none } for unrelated "
    "processes"
)
_CURE_OF_TF_CONFIG = (
    "ask for one process; or set TF_CONFIG in the script, from RANK and the addresses of the nodes, and set "
    "distributed_training: true"
)
_CURE_OF_SPAWN = (
    "ask for one process, with the cores and accelerators of all; or have the script read RANK, LOCAL_RANK and "
    "WORLD_SIZE, as under torchrun; or set distributed_training: true if it spans several nodes by itself"
)
# What torchrun tells a process that is alone.
_ALONE = {
    "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1",
}  # fmt: skip
_PORTS = 20000  # so many from this one on


class Ranks(NamedTuple):
    """How a training's processes are one."""

    # the name of a mesh: by modak_runtime.prepare; ``mpi`` or ``own``: by the script itself, which MPI starts, or which
    # reads who it is from the environment; ``none``: not at all
    strategy: str
    reason: str  # for people
    interface: str = ""  # of the nodes, by which they meet; empty: found
    timeout: int = 300  # seconds that a rank waits for the others
    rejected: tuple[tuple[str, str], ...] = ()  # what else modak_runtime.prepare could do, and why it does not
    mesh: Mesh | None = None  # where modak_runtime.prepare makes one training of them
    tells_all: bool = False  # whether each is told where all are, by TF_CONFIG

    @property
    def is_prepared(self) -> bool:
        """Whether modak_runtime.prepare makes one training of them."""
        return self.mesh is not None

    @property
    def shares_out(self) -> bool:
        """Whether a rank has only parts of the model's parameters."""
        return self.mesh is not None and self.mesh.shares_out

    @property
    def is_alike(self) -> bool:
        """Whether ranks with parts of one model are given the same batches."""
        return self.mesh is not None and self.mesh.is_alike

    def by(self, mesh: Mesh, reason: str) -> Ranks:
        """The same ranks, made one training in a way of modak_runtime.prepare."""
        return self._replace(strategy=mesh.name, reason=reason, mesh=mesh)


def ranks_of(request: Request, layout: ProcessLayout) -> Ranks | None:
    """How the processes of a training are one; None for one process, and for a program, which is no training.

    Raises:
        CannotPlan: nothing makes one training of them, or what is asked for cannot.
    """
    if layout.processes == 1 or request.application.hpc is not None:
        _check_alone(request, layout)
        return None
    distributed = request.application.distributed or Distributed()
    strategy, reason = _strategy(request, layout, distributed)
    ranks = Ranks(strategy, reason, distributed.interface, distributed.timeout)
    if strategy == "own" and request.parallelism and request.parallelism.by == "tf_config":
        ranks = ranks._replace(tells_all=not _why_not_told(request, layout))
    mesh = mesh_of(strategy, layout.processes)
    if distributed.degree:
        mesh = _in_copies(distributed, distributed.degree, mesh)
    if mesh is None:
        return ranks
    if distributed.strategy in ALIKE and (problem := _why_not_split(request, mesh)):
        raise CannotPlan("distributed.strategy", problem, "ask for fsdp or ddp, or for another number of processes")
    copies = f": {mesh.copies} copies of the model, data parallel, of {mesh.degree} neighbours each"
    ranks = ranks.by(mesh, f"{reason}{copies}" if distributed.degree and mesh.copies > 1 else reason)
    return _fitting(request, layout, ranks) if distributed.strategy == "auto" else ranks


def _in_copies(distributed: Distributed, degree: int, mesh: Mesh | None) -> Mesh:
    """The mesh of a strategy, with as many ranks to each copy of the model as are asked for.

    Raises:
        CannotPlan: the strategy has no such degree, or the ranks no such copies.
    """
    if mesh is None or distributed.strategy not in SHARED_OUT:
        message = f"only {', '.join(SHARED_OUT)} have a degree: the number of ranks that share one copy of the model"
        raise CannotPlan("distributed.degree", message, "ask for one of these strategies, or leave the degree out")
    if mesh.ranks % degree:
        message = (
            f"{mesh.ranks} processes cannot be divided into groups of {degree} ranks, each with a copy of the model"
        )
        numbers = " or ".join(str(number) for number in range(2, mesh.ranks + 1) if mesh.ranks % number == 0)
        hint = f"a multiple of {degree} processes, or a degree that divides them: {numbers}"
        raise CannotPlan("distributed.degree", message, hint)
    return mesh._replace(degree=degree)


def _strategy(request: Request, layout: ProcessLayout, distributed: Distributed) -> tuple[str, str]:
    application, own = request.application, request.parallelism
    runs = application.script or application.name
    prepares = application.prepares and own is None
    if distributed.strategy == "none":
        return "none", "as asked: each process trains the whole model by itself"
    if distributed.strategy == "mpi":
        return "mpi", "asked for"
    if distributed.strategy in PREPARED:
        if own:
            message = f"{runs} is parallel by itself: {own.name} ({own.place})"
            raise CannotPlan("distributed.strategy", message, "leave the strategy out")
        if not prepares or application.framework not in _PREPARED:
            why = "does not call it" if not prepares else f"uses {application.framework}"
            message = (
                f"{distributed.strategy} needs a PyTorch script that calls modak_runtime.prepare, and {runs} {why}"
            )
            raise CannotPlan("distributed.strategy", message, "call it, or leave the strategy out")
        return distributed.strategy, "asked for"
    if own and own.by == "tf_config":
        if application.distributed_training:
            return "own", "the script is declared parallel by itself"
        _check_workers(request, own, layout)
        by = "which learns of all ranks from TF_CONFIG; fit refuses this in Keras 3, but not in tf-keras"
        return "own", f"the script is parallel by itself: {own.name} ({own.place}), {by}"
    if own and not application.distributed_training:
        _check_told(request, own, layout)
    if own:
        _check_said(own, layout)
        return "mpi" if own.by == "mpi" else "own", f"the script is parallel by itself: {own.name} ({own.place})"
    if prepares and application.framework in _PREPARED:
        return "ddp", "modak_runtime.prepare makes the script data parallel"
    if application.distributed_training:
        return "own", "the script is declared parallel by itself"
    message = (
        f"{layout.processes} processes of {runs} would each train the whole model and write the same metrics.json: "
        "nothing in its source joins processes into one training"
    )
    raise CannotPlan(_about_processes(request), message, _CURE)


def alone_of(request: Request, layout: ProcessLayout) -> dict[str, str]:
    """What one process of a training is told that would end without it, as torchrun tells it; empty for others."""
    own = request.parallelism
    if own is None or layout.processes > 1 or request.application.hpc is not None:
        return {}
    if not (own.needs_words or (own.asks_slurm and request.target.scheduler is Scheduler.SLURM)):
        return {}
    # 0 is any free port to PyTorch, and none to a script that makes an address of it
    port = _PORTS + crc32(f"{request.blueprint}/{request.training}".encode()) % _PORTS if own.asks_port else 0
    return {**_ALONE, "MASTER_PORT": str(port)}


def _check_workers(request: Request, own: Parallelism, layout: ProcessLayout) -> None:
    """
    Raises:
        CannotPlan: TF_CONFIG does not tell TensorFlow's processes apart.
    """
    if own.option:
        runs = request.application.script or request.application.name
        message = (
            f"{runs} sets TF_CONFIG itself ({own.option}), to the same value in each of {layout.processes} processes"
        )
        hint = "leave that out, so that each gets the job's own; or set distributed_training: true if the values differ"
        raise CannotPlan(_about_processes(request), message, hint)
    if why := _why_not_told(request, layout):
        message = f"{own.name} ({own.place}) learns of its processes from TF_CONFIG, which is not set: {why}"
        raise CannotPlan(_about_processes(request), message, _CURE_OF_TF_CONFIG)


def _check_told(request: Request, own: Parallelism, layout: ProcessLayout) -> None:
    """
    Raises:
        CannotPlan: its processes would not be what they take themselves for.
    """
    runs = request.application.script or request.application.name
    if own.by == "spawn":
        message = (
            f"{runs} starts its processes itself: {own.name} ({own.place}), and each of {layout.processes} would start "
            "all of them"
        )
        raise CannotPlan(_about_processes(request), message, _CURE_OF_SPAWN)
    if own.meets_at and layout.nodes > 1:
        message = f"processes of {runs} on {layout.nodes} nodes would meet at {own.meets_at}, each on its own node"
        hint = "leave the address out, as the job sets it in MASTER_ADDR; or ask for one node"
        raise CannotPlan(_about_processes(request), message, hint)
    is_local = "local" in own.option.partition(" ")[0]
    is_first = is_local and (own.is_first or "local_rank" in dict(request.application.arguments))
    if own.option and not (is_first and layout.processes_per_node == 1):
        variable = "LOCAL_RANK" if is_local else "RANK"
        message = (
            f"{runs} learns the rank of a process from {own.option} alone, and the job gives it in {variable}: all "
            "would have the same rank"
        )
        hint = (
            f'give the option the default int(os.environ.get("{variable}", 0)); or set distributed_training: true '
            "if the script learns it otherwise"
        )
        raise CannotPlan(_about_processes(request), message, hint)


def _why_not_told(request: Request, layout: ProcessLayout) -> str:
    """Why ranks cannot be told by TF_CONFIG where all are; empty where they can."""
    own, target = request.parallelism, request.target
    if own and "ParameterServer" in own.name:
        return "its processes have other roles than worker"
    shares_nothing = layout.nodes > 1 and (target.pods is not None or target.hosts)
    return "its ranks meet in a folder that all nodes see" if shares_nothing else ""


def _fitting(request: Request, layout: ProcessLayout, ddp: Ranks) -> Ranks:
    """Data parallel ranks as they are, or with parts of the parameters, where only that is traced to fit."""
    need, limit = request.need, limit_of(request, request.target.partition(request.resources.partition), layout)
    if need is None or limit is None:
        return ddp
    if peak_of(need, layout.processes, "ddp").high <= limit.bytes:
        return ddp._replace(
            rejected=(("fsdp", "ddp fits, and sends less"), ("tensor", "ddp fits"), ("pipeline", "ddp fits"))
        )
    rejected: list[tuple[str, str]] = []
    for mesh in meshes(layout.processes):
        peak = peak_of(need, layout.processes, mesh.name)
        problem = why_not_shared_out(_version(request)) if mesh.shares_out else ""
        problem = problem or (_why_not_split(request, mesh) if mesh.is_alike else "")
        problem = problem or (f"it needs {format_peak(peak)}" if peak.high > limit.bytes else "")
        if not problem:
            of = f"of {format_size(limit.bytes)}, {limit.reason}"
            copies = f" of one of {mesh.copies} copies" if mesh.copies > 1 else ""
            reason = f"a rank with its part of the parameters{copies} needs {format_peak(peak)} {of}"
            return ddp.by(mesh, reason)._replace(rejected=tuple(rejected))
        rejected.append((mesh.name, problem))
    return ddp._replace(rejected=tuple(rejected[1:]))


def _why_not_split(request: Request, mesh: Mesh) -> str:
    """Why ranks cannot share out a training's layers, as far as a trace tells; empty where they can."""
    need = request.need
    if mesh.strategy == "pipeline":
        is_too_deep = need is not None and need.stages.get(mesh.degree) == 0
        return f"by its trace the model has fewer layers than {mesh.degree} ranks" if is_too_deep else ""
    if need is None or need.widths is None or need.split(mesh.degree):
        return ""
    return f"by its trace nothing in the model can be split by {mesh.degree} ranks"


def why_not_shared_out(version: str) -> str:
    """Why a version of PyTorch cannot share out a model's parameters; empty where it can, or where nobody knows."""
    numbers = tuple(map(int, re.findall(r"\d+", version)[:2])) if version[:1].isdigit() else ()
    if len(numbers) < 2 or numbers >= _SHARES_OUT_FROM:
        return ""
    return f"PyTorch {version} cannot share out parameters as prepare has it; 2.13 can"


def _version(request: Request) -> str:
    """Of PyTorch, as far as the request tells."""
    image = request.image.seen if request.image else None
    return image.frameworks.get("pytorch", "") if image else request.application.version


def _check_alone(request: Request, layout: ProcessLayout) -> None:
    """
    Raises:
        CannotPlan: it would wait for nodes that nobody starts; or end, as Lightning counts the tasks of Slurm.
    """
    own, distributed = request.parallelism, request.application.distributed or Distributed()
    if own is None or request.application.hpc is not None or distributed.strategy == "none":
        return
    starts_more = request.target.scheduler is not Scheduler.SLURM
    _check_said(own.model_copy(update={"processes_per_node": None}) if starts_more else own, layout)


def _check_said(own: Parallelism, layout: ProcessLayout) -> None:
    """A library that is told another number in the source would wait for ever, or train alone in each process."""
    for name, own_number, number in (
        ("nodes", own.nodes, layout.nodes),
        ("processes on a node", own.processes_per_node, layout.processes_per_node),
    ):
        if own_number not in (None, -1, number):
            message = f"{own.name} at {own.place} sets its {name} to {own_number}, and the job has {number}"
            raise CannotPlan(
                "resources", message, "leave the number out there, so that it takes the job's; or ask for as many"
            )


def _about_processes(request: Request) -> str:
    """What of the request asks for several processes."""
    for name in ("node_count", "process_count_per_node", "core_count"):
        if (getattr(request.job_options, name) or 1) > 1:
            return f"job_options.{name}"
    return "resources.nodes" if request.resources.nodes > 1 else "resources.processes_per_node"
