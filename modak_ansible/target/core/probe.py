"""What the target has: looked at, not changed."""

from __future__ import annotations

import os
import platform
import pwd
import socket
from pathlib import Path
from typing import Dict, Mapping, Optional, Set, TypedDict

from ...errors import ModakError
from ...schedulers import SCHEDULERS
from ...schedulers.containers import CONTAINER_RUNTIMES
from .commands import TimedRun, find_program
from .files import free_bytes, lack_of_room
from .workspace import Workspace

_SMALLEST = 200 * 10**6
_ELSEWHERE = "make room there, or give the target another workspace"
_CPUINFO = ("model name", "cpu family", "model", "vendor_id", "flags", "CPU implementer", "CPU part", "Features")


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
    titles = SCHEDULERS[scheduler]
    missing = [command for command in titles.commands if find_program(command) is None]
    if missing:
        raise ModakError(
            f"{titles.title} is not on {socket.gethostname()}: {', '.join(missing)} not found",
            hint="check the type of the target, or load the scheduler's module in the user's profile",
        )
    if create:
        workspace.create()
    free = free_bytes(workspace.path)
    if free < _SMALLEST:
        raise ModakError(
            f"the disk is full: {workspace.path} has {free // 10**6} MB left",
            hint=_ELSEWHERE,
        )
    if create and (lack := lack_of_room(workspace.path)):
        raise ModakError(f"{lack} at {workspace.path}", hint=_ELSEWHERE)
    known = CONTAINER_RUNTIMES.get(container_runtime)
    runtime = find_program(*known.programs) if known else None
    return {
        **machine_facts(),
        "workspace": str(workspace.path),
        "free_bytes": free,
        "container_runtime": version_of(runtime) if runtime else None,
        "scheduler": _scheduler_version(scheduler),
        "rsync": find_program("rsync") is not None,
    }


def machine_facts() -> MachineFacts:
    return {
        "hostname": socket.gethostname(),
        "user": pwd.getpwuid(os.getuid()).pw_name,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "system": _system(),
        "processor": processor_name(),
        "cpuinfo": _cpuinfo(),
        "cores": os.cpu_count(),
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    }


def processor_name() -> str:
    """What the processor is called, as :func:`model_of` says it, or at least its family."""
    return model_of(_cpuinfo()) or platform.processor() or platform.machine()


def model_of(cpuinfo: Mapping[str, str]) -> str:
    """The processor's model name, with its vendor's numbers where the name has none; empty where nobody says.

    Virtual machines call a Zen 3, a Zen 4 and a Zen 5 alike AMD EPYC, and hide so many of their units that archspec
    takes them for each other. Their family and model stay: AMD EPYC family 25 model 17.

    Args:
        cpuinfo: a block of /proc/cpuinfo.
    """
    name, family, model = (cpuinfo.get(each, "") for each in ("model name", "cpu family", "model"))
    unnumbered = name and family and model and not any(map(str.isdigit, name))
    return f"{name} family {family} model {model}" if unnumbered else name


def cpu_flags() -> Set[str]:
    """What the processor has, by the kernel's names."""
    information = _cpuinfo()
    return set((information.get("flags") or information.get("Features") or "").split())


def _scheduler_version(scheduler: str) -> str:
    # Torque's commands print the version of whatever takes their place
    return version_of("sbatch") if scheduler == "slurm" else SCHEDULERS[scheduler].title


def version_of(program: str) -> str:
    """The first line of what a program prints for --version; empty where it says nothing."""
    result = TimedRun(timeout=20)([program, "--version"])
    return (result.out or result.err).strip().splitlines()[0] if (result.out or result.err).strip() else ""


def _cpuinfo() -> dict[str, str]:
    """What the kernel says of the first core: its name, and what a microarchitecture is known by."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split("\n\n", 1)[0].splitlines()
    except OSError:
        return {}
    pairs = (line.partition(":") for line in lines)
    return {name.strip(): value.strip() for name, _, value in pairs if name.strip() in _CPUINFO}


def _system() -> str:
    try:
        lines = Path("/etc/os-release").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.system()
    return next((line.split("=", 1)[1].strip('"') for line in lines if line.startswith("PRETTY_NAME=")), "")
