"""How the processes of a job are started and where they stay: srun, mpirun, mpiexec, or the site's own launcher.

Sources: srun(1) of Slurm 24.11, mpirun(1) of Open MPI 4 and 5, mpiexec(1) of MPICH's Hydra, the OpenMP 5 specification.
"""

from __future__ import annotations

import shlex
from typing import NamedTuple

from modak_ansible.allocation.ranks import Ranks, ranks_of
from modak_ansible.model.application import STOCK_MPI, HpcApplication
from modak_ansible.model.target import Scheduler
from modak_ansible.optimisations.base import CannotPlan, Draft, Optimisation, Option
from modak_ansible.schedulers.containers import CONTAINER_RUNTIMES
from modak_ansible.schedulers.script import Launch
from modak_ansible.schedulers.script import Ranks as TrainingRanks

# How each library's processes find each other under srun.
_PMI = {"openmpi": "pmix", "mpich": "pmi2", "mvapich": "pmi2"}

# The variable by which a process is told its accelerators, by their vendor.
_DEVICES = {"nvidia": "CUDA_VISIBLE_DEVICES", "amd": "ROCR_VISIBLE_DEVICES"}

# Without glibc's caches of small blocks ranks can keep small objects apart from tensors; see modak_runtime.malloc.
_SMALL_APART = ("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0")


class Launching(NamedTuple):
    launch: Launch = Launch()  # as the job script has it
    environment: tuple[tuple[str, str], ...] = ()  # what keeps threads on their cores, and memory low
    words: tuple[str, ...] = ()  # the launcher's own, for people
    reason: str = "one process needs no launcher"  # why so

    @property
    def value(self) -> str:
        return " ".join(self.words).replace('"$hosts"', "HOSTS") or "none"


class Launcher(Optimisation):
    name = "launcher"
    stock = ()
    is_switch = False
    after = ("image", "threads", "binding")
    acts_on = "job"

    def options(self, draft: Draft) -> tuple[Option, ...]:
        if draft.request.application.hpc is None and draft.layout.processes == 1:
            return ()
        launching = launching_of(draft)
        return (Option(launching.value, launching.reason),)

    def apply(self, draft: Draft, value: str) -> None:  # noqa: ARG002 - there is one
        draft.environment.update(launching_of(draft).environment)


def launching_of(draft: Draft) -> Launching:
    """How the processes of a draft's job are started."""
    ranks = ranks_of(draft.request, draft.layout)
    launching = _choose_launching(draft, ranks)
    hpc = draft.request.application.hpc
    if launching.launch.outside and hpc and hpc.parallelisation == "mpi" and not draft.layout.shares_cores:
        launching = launching._replace(launch=launching.launch._replace(notes_cores=True))
    if ranks is None or ranks.strategy == "none":
        return launching
    training_ranks, environment = _training_ranks(draft, ranks, launching.launch), launching.environment
    if ranks.is_prepared and not draft.request.resources.accelerators:
        environment = (*environment, _SMALL_APART)
    memory = draft.request.resources.memory
    if memory and ranks.shares_out:  # others may have the rest of the node
        environment = (*environment, ("MODAK_MEMORY_LIMIT", str(memory // draft.layout.processes_per_node)))
    return launching._replace(launch=launching.launch._replace(ranks=training_ranks), environment=environment)


def _training_ranks(draft: Draft, ranks: Ranks, launch: Launch) -> TrainingRanks:
    """What the job tells each rank of a training."""
    resources, vendor = draft.request.resources, draft.request.target.accelerator.vendor or ""
    is_local = not (launch.outside or launch.inside)
    return TrainingRanks(
        count=draft.layout.processes,
        each=draft.layout.processes_per_node,
        strategy=ranks.strategy if ranks.is_prepared else "",
        timeout=ranks.timeout,
        interface=ranks.interface,
        devices=_DEVICES.get(vendor, _DEVICES["nvidia"]) if ranks.is_prepared and resources.accelerators else "",
        accelerators=resources.accelerators,
        is_local=is_local,
        cores=_own_cores(draft) if is_local else 0,
        hosts=_other_hosts(draft),
        tells_all=ranks.tells_all,
    )


def _own_cores(draft: Draft) -> int:
    """Of each rank that the job script starts; 0 where others may be on the node, or nobody says how many there are.

    A Pod is given a part of its node's time, whichever cores that is on.
    """
    layout = draft.layout
    is_whole = _binds(draft, None) and not draft.request.target.pods and layout.processes_per_node > 1
    return (layout.cores or 0) if is_whole else 0


def _other_hosts(draft: Draft) -> tuple[str, ...]:
    """Those that the first host starts ranks on."""
    return draft.request.target.hosts[: draft.layout.nodes - 1]


def _choose_launching(draft: Draft, ranks: Ranks | None) -> Launching:
    """
    Raises:
        CannotPlan: the container is entered by srun, which starts nothing here.
    """
    request, hpc = draft.request, draft.request.application.hpc
    site = request.target.site.launcher
    is_srun = request.target.scheduler is Scheduler.SLURM and not site and not (hpc and hpc.launcher)
    if draft.in_container and request.target.container_runtime == "pyxis" and not is_srun:
        message = "pyxis is a plugin of Slurm's srun, which does not start this job"
        raise CannotPlan("container_runtime", message, "container_runtime: enroot")
    if request.job_options.components and not is_srun:
        message = "only Slurm's srun starts the processes of all components"
        raise CannotPlan("job_options.components", message, "leave the launcher out")
    environment = _threads(hpc)
    launcher = hpc.launcher if hpc else ""
    if draft.layout.processes == 1 and not (hpc and hpc.parallelisation == "mpi" and hpc.ranks):
        return Launching(environment=environment)
    if _other_hosts(draft):
        _check_enters(draft)
        return Launching(words=("ssh",), reason="the first host starts the ranks of the others, and ends them")
    if launcher or site:
        reason = "asked for" if launcher else "the site's own"
        return _named_launching(draft, hpc, (launcher or site or "").split(), environment, reason)
    if request.target.scheduler is Scheduler.SLURM:
        words = _srun(draft, hpc, ranks)
        return Launching(
            Launch(outside=words), environment, words, "Slurm starts every rank itself, and knows its cores"
        )
    if ranks and (ranks.is_prepared or ranks.strategy == "own"):
        if draft.layout.nodes == 1:
            return Launching(words=("the job script",), reason="all ranks are on one node and need no other launcher")
        if request.target.scheduler is Scheduler.KUBERNETES:
            return Launching(
                words=("the job script",), reason="it starts the ranks in each Pod, and needs no other launcher"
            )
        if request.target.scheduler is Scheduler.LSF:
            words = ("blaunch", "-u", '"$hosts"')
            launch = Launch(outside=words, lines=draft.layout.processes_per_node)
            return Launching(launch, environment, words, "LSF starts every rank itself, on the node of its line")
    return _mpi_launcher(draft, hpc, environment)


def _check_enters(draft: Draft) -> None:
    """
    Raises:
        CannotPlan: a container is made ready by the job script, which knows its own host alone.
    """
    runtime = draft.request.target.container_runtime
    container = CONTAINER_RUNTIMES.get(runtime)
    if draft.in_container and container and container.entry:
        message = f"ranks on several hosts need containers of Apptainer, and {runtime} is asked for"
        raise CannotPlan("resources.nodes", message, "take one node, or container_runtime: apptainer or none")


def _named_launching(
    draft: Draft, hpc: HpcApplication | None, words: list[str], environment: tuple[tuple[str, str], ...], reason: str
) -> Launching:
    """A launcher as it stands, with the job's numbers in place of ``{ranks}`` and the like."""
    layout = draft.layout
    numbers = {
        "{ranks}": layout.processes, "{ranks_per_node}": layout.processes_per_node, "{nodes}": layout.nodes,
        "{threads}": layout.cores or 1,
    }  # fmt: skip
    command = []
    for word in words:
        for name, number in numbers.items():
            word = word.replace(name, str(number))  # noqa: PLW2901
        command.append('"$hosts"'.join(shlex.quote(part) if part else "" for part in word.split("{hosts}")))
    library = _library(draft, hpc)
    has_hosts = any("{hosts}" in word for word in words)
    launch = Launch(outside=tuple(command), hosts=_host_suffix(draft, library) if has_hosts else "")
    return Launching(launch, environment, tuple(command), reason)


def _library(draft: Draft, hpc: HpcApplication | None) -> str:
    """The MPI library: the one that is asked for, else the image's."""
    return (hpc.library if hpc else "") or next(iter(draft.base.provides if draft.base else ()), STOCK_MPI)


def _pmi(draft: Draft, hpc: HpcApplication | None) -> str:
    base = draft.base
    if base and base.mpi:
        if hpc and hpc.library and _PMI[hpc.library] != base.mpi:
            message = (
                f"{hpc.library} is asked for, and {draft.entry.name if draft.entry else base.name} has another MPI"
            )
            raise CannotPlan("application.library", message, "take another image, or leave the library out")
        return base.mpi
    return _PMI[_library(draft, hpc)] if hpc and hpc.parallelisation == "mpi" else ""


def _srun(draft: Draft, hpc: HpcApplication | None, ranks: Ranks | None) -> tuple[str, ...]:
    words, layout = ["srun"], draft.layout
    components = len(draft.request.job_options.components)
    if components:
        # the number of tasks of the job's environment is that of the first component, and srun takes it for each one's
        words = ["env", "-u", "SLURM_NTASKS", "-u", "SLURM_NPROCS", "srun", f"--het-group=0-{components - 1}"]
    pmi = _pmi(draft, hpc) or (_PMI[_library(draft, hpc)] if ranks and ranks.strategy == "mpi" else "")
    if pmi:
        words.append(f"--mpi={pmi}")
    if ranks and ranks.strategy != "none":
        words.append("--kill-on-bad-exit=1")
    if hpc and hpc.parallelisation == "mpi":
        words += [f"--ntasks={layout.processes}"] * (not components)
        words.append(f"--ntasks-per-node={layout.processes_per_node}")
    if layout.cores:
        # since 22.05 srun no longer takes the cores of a task from the job
        words.append(f"--cpus-per-task={layout.cores}")
    if ranks and ranks.strategy != "none" and layout.cores and layout.processes_per_node > 1:
        words.append("--cpu-bind=cores")
    if hpc and hpc.parallelisation == "mpi":
        shares = layout.shares_cores
        binding = "none" if shares or hpc.affinity == "none" else "cores"
        words += ["--overcommit"] * shares + [f"--cpu-bind={binding}"]
        if hpc.affinity == "spread" and not shares:
            words.append("--distribution=block:cyclic")
    return tuple(words)


def _mpi_launcher(draft: Draft, hpc: HpcApplication | None, environment: tuple[tuple[str, str], ...]) -> Launching:
    """The library's own launcher: the image's on one node, the host's where ranks of several nodes must meet."""
    scheduler = draft.request.target.scheduler
    # nobody knows yet on how many nodes
    slots = scheduler is Scheduler.TORQUE and draft.request.job_options.counts_cores_only
    inside = draft.in_container and draft.layout.nodes == 1 and not slots
    library = _library(draft, hpc)
    hosts = ("--hostfile", '"$hosts"') if library == "openmpi" else ("-f", '"$hosts"')
    words = (_open_mpi if library == "openmpi" else _hydra)(
        draft, hpc, hosts if scheduler.lists_hosts and not inside else (), slots=slots
    )
    suffix = _host_suffix(draft, library) if scheduler.lists_hosts and not slots else ""
    launch = Launch(inside=words) if inside else Launch(outside=words, hosts=suffix, slots=slots)
    if library == "mvapich":
        environment = (*environment, ("MV2_ENABLE_AFFINITY", "0"))  # its own binding would undo the launcher's
    reason = "the image's own: all ranks are on one node" if inside else "the host's: ranks are on several nodes"
    if not draft.in_container:
        reason = "the host's"
    return Launching(launch, environment, words, reason)


def _host_suffix(draft: Draft, library: str) -> str:
    ranks_per_node = draft.layout.processes_per_node
    return f" slots={ranks_per_node}" if library == "openmpi" else f":{ranks_per_node}"


def _open_mpi(draft: Draft, hpc: HpcApplication | None, hosts: tuple[str, ...], *, slots: bool) -> tuple[str, ...]:
    layout, cores = draft.layout, draft.layout.cores or 1
    place = "slot" if slots else f"ppr:{layout.processes_per_node}:node"
    binds = _binds(draft, hpc) and not layout.shares_cores
    if binds and cores > 1:
        place += f":PE={cores}"
    if layout.shares_cores:
        place += ":OVERSUBSCRIBE"
    return "mpirun", "-np", str(layout.processes), *hosts, "--map-by", place, "--bind-to", "core" if binds else "none"


def _hydra(draft: Draft, hpc: HpcApplication | None, hosts: tuple[str, ...], *, slots: bool) -> tuple[str, ...]:
    """MPICH's launcher, which MVAPICH has too."""
    layout, cores = draft.layout, draft.layout.cores or 1
    binds = _binds(draft, hpc) and not layout.shares_cores
    binding = (f"core:{cores}" if cores > 1 else "core") if binds else "none"
    shape = () if slots else ("-ppn", str(layout.processes_per_node))
    return "mpiexec", "-n", str(layout.processes), *shape, *hosts, "-bind-to", binding


def _binds(draft: Draft, hpc: HpcApplication | None) -> bool:
    """Whether ranks are kept on cores; on a node that others use too, two jobs would take the same first cores."""
    if hpc and hpc.affinity:
        return hpc.affinity != "none"
    if draft.request.resources.exclusive:
        return True
    return draft.node_cores is not None and draft.layout.cores_per_node >= draft.node_cores


def _threads(hpc: HpcApplication | None) -> tuple[tuple[str, str], ...]:
    """OpenMP's own variables, where the program or the user has threads."""
    if hpc is None or not (hpc.threads or hpc.parallelisation == "openmp"):
        return ()
    variables = [("OMP_NUM_THREADS", str(hpc.threads))] if hpc.threads else []
    if hpc.affinity == "none":
        variables.append(("OMP_PROC_BIND", "false"))
    elif hpc.affinity:
        # OpenMP 5.1 says primary, and every runtime still knows master
        variables += [("OMP_PROC_BIND", hpc.affinity.replace("primary", "master")), ("OMP_PLACES", "cores")]
    return tuple(variables)
