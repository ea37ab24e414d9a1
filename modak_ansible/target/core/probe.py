"""What the target has: looked at, not changed."""

from __future__ import annotations

import os
import platform
import socket
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Tuple, TypedDict

from ...errors import ModakError
from ...schedulers.containers import CONTAINER_RUNTIMES
from ...schedulers.pbs.pbspro import is_pbspro
from ...schedulers.registry import SCHEDULERS
from .answer import answered
from .commands import TimedRun, find_program, user_name
from .files import free_bytes, lack_of_room, read_text
from .processor import cpuinfo, processor_name
from .staging import has_completed
from .workspace import Workspace

_NO_SCHEDULER = (
    "check the type of the target, or load the scheduler's module in ~/.bashrc there, above its test for "
    "interactive shells"
)

GRID_ENGINE = "Grid Engine"
_PBS_FAMILY = ("torque", "pbspro")  # whose commands have the same names, which are also Grid Engine's
_RIGHT_TYPE = "check the type of the target: modak submits to Slurm, Torque, PBS Professional and LSF"
_SMALLEST = 200 * 10**6
_ELSEWHERE = "make room there, or give the target another workspace"


class MachineFacts(TypedDict):
    """What the machine is; its memory is in bytes."""

    hostname: str
    user: str
    python: str
    machine: str
    system: str
    processor: str
    cpuinfo: Dict[str, str]
    cores: Optional[int]
    memory: int


class TargetFacts(MachineFacts):
    """What the target has, for people and for records."""

    workspace: str
    free_bytes: int
    container_runtime: Optional[str]  # its version; None where a virtual environment takes its place
    scheduler: str  # its version
    rsync: bool  # whether it is there


def probe(workspace: Workspace, scheduler: str, container_runtime: str, *, create: bool) -> TargetFacts:
    """Looks at the target.

    Raises:
        ModakError: something that every deployment needs is missing.
    """
    host, missing, another = socket.gethostname(), missing_commands(scheduler), of_another(scheduler)
    problem, hint = why_not_there(scheduler, host, missing, another)
    if problem:
        raise ModakError(problem, hint=hint)
    if create:
        workspace.create()
    free_space = free_bytes(workspace.path)
    if free_space < _SMALLEST:
        raise ModakError(
            f"the disk is full: {workspace.path} has {free_space // 10**6} MB left",
            hint=_ELSEWHERE,
        )
    if create and (lack := lack_of_room(workspace.path)):
        raise ModakError(f"{lack} at {workspace.path}", hint=_ELSEWHERE)
    kind = CONTAINER_RUNTIMES.get(container_runtime)
    runtime = find_program(*kind.programs) if kind else None
    return {
        **machine_facts(),
        "workspace": str(workspace.path),
        "free_bytes": free_space,
        "container_runtime": version_of(runtime) if runtime else None,
        # Torque's commands print the version of whatever takes their place
        "scheduler": version_of("sbatch") if scheduler == "slurm" else SCHEDULERS[scheduler].title,
        "rsync": find_program("rsync") is not None,
    }


def look(parameters: Mapping[str, Any], *, create: bool = True) -> Dict[str, object]:
    """What the module modak_probe answers.

    Raises:
        ModakError: something that every deployment needs is missing.
    """
    workspace = Workspace(parameters["workspace"])
    facts = probe(workspace, parameters["scheduler"], parameters["container_runtime"], create=create)
    completed = [name for name in parameters["deployments"].split() if has_completed(workspace.deployments / name)]
    return {"changed": False, "facts": facts, "completed": completed}


def looked(parameters: Mapping[str, Any]) -> Mapping[str, object]:
    """The same for whoever asks without the module, errors included."""
    return answered(lambda: look(parameters))


def missing_commands(scheduler: str) -> List[str]:
    return [command for command in SCHEDULERS[scheduler].commands if find_program(command) is None]


def is_there(scheduler: str) -> bool:
    """Whether its commands are there, and its own; those of PBS that do not say whose they are count as Torque's."""
    if missing_commands(scheduler):
        return False
    return scheduler not in _PBS_FAMILY or (_whose_qstat() or "torque") == scheduler


def why_not_there(scheduler: str, host: str, missing: List[str], another: str) -> Tuple[str, str]:
    """Why a host has not the scheduler that it is said to have, and what to do; empty where it has it.

    Args:
        missing: its commands that are not there.
        another: whose they really are; empty where they are its own.
    """
    title = SCHEDULERS[scheduler].title
    if missing:
        return f"{title} is not on {host}: {', '.join(missing)} not found", _NO_SCHEDULER
    if another:
        return f"qsub on {host} belongs to {another}, but the target is described as having {title}", _RIGHT_TYPE
    return "", ""


def of_another(scheduler: str) -> str:
    """Whose the commands of a scheduler really are, where they say so; empty where they are its own.

    Any qsub takes a script, and none reads another's directives, or tells its jobs in another's words.
    """
    whose = _whose_qstat() if scheduler in _PBS_FAMILY else ""
    if whose in ("", scheduler):
        return ""
    return SCHEDULERS[whose].title if whose in _PBS_FAMILY else whose


def _whose_qstat() -> str:
    """The scheduler that the qstat which is found is of, or Grid Engine; empty where it does not say."""
    version = version_of("qstat")
    if is_pbspro(version):
        return "pbspro"
    if version.lower().startswith("version:"):
        return "torque"
    # Grid Engine's says no version, and its other programs lie beside it; others have a qconf, too, such as Qt's users
    qconf, qstat = find_program("qconf"), find_program("qstat")
    return GRID_ENGINE if qconf and qstat and Path(qconf).parent == Path(qstat).parent else ""


def machine_facts() -> MachineFacts:
    return {
        "hostname": socket.gethostname(),
        "user": user_name(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "system": _system(),
        "processor": processor_name(),
        "cpuinfo": cpuinfo(),
        "cores": os.cpu_count(),
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    }


def version_of(program: str) -> str:
    """The first line of what a program prints for --version; empty where it says nothing."""
    result = TimedRun(timeout=20)([program, "--version"])
    return next(iter((result.out or result.err).strip().splitlines()), "")


def _system() -> str:
    lines = read_text(Path("/etc/os-release")).splitlines()
    if not lines:
        return platform.system()
    return next((line.split("=", 1)[1].strip('"') for line in lines if line.startswith("PRETTY_NAME=")), "")
