"""Which blueprint opera is deploying.

opera copies a playbook into a temporary folder and tells it nothing of where it came from. Its own process, an
ancestor of this one, stands in the folder that holds its storage, and the storage names blueprint and inputs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modak_ansible.errors import ModakError


@dataclass(frozen=True)
class OperaDeployment:
    """A service template and its inputs, as opera has them."""

    blueprint: Path
    inputs: dict[str, Any]


def is_run_by_opera() -> bool:
    """Whether opera reads what ansible-playbook prints: its output must then be JSON and nothing else."""
    return os.environ.get("ANSIBLE_STDOUT_CALLBACK") == "json_ansible_callback"


def find_opera_deployment(proc: Path = Path("/proc")) -> OperaDeployment:
    """The deployment of the opera that this process descends from.

    Raises:
        ModakError: there is none.
    """
    for pid in _ancestors(proc):
        try:
            arguments = (proc / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:  # it is somebody else's, and hidden, as is what it descends from
            break
        if any(Path(argument).name == "opera" for argument in arguments[:3]):
            folder = (proc / str(pid) / "cwd").resolve()
            return read_opera_storage(folder, _instance_path(arguments))
    raise ModakError("this playbook was given a node, but opera does not run it", hint="give a blueprint instead")


def read_opera_storage(folder: Path, instance_path: str) -> OperaDeployment:
    """What opera's storage says.

    Args:
        instance_path: its storage, relative to that.
    """
    storage = folder / instance_path
    try:
        root_file = Path((storage / "root_file").read_text(encoding="utf-8").strip())
        inputs = json.loads((storage / "inputs").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModakError(f"opera's storage {storage} cannot be read: {error}") from error
    return OperaDeployment(folder / root_file, inputs or {})


def _instance_path(arguments: list[str]) -> str:
    for position, argument in enumerate(arguments):
        if argument in ("-p", "--instance-path") and position + 1 < len(arguments):
            return arguments[position + 1]
        if argument.startswith("--instance-path="):
            return argument.partition("=")[2]
    return ".opera"


def _ancestors(proc: Path) -> Iterator[int]:
    pid = os.getppid()
    while pid > 1:
        yield pid
        try:
            stat = (proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return
        pid = int(stat.rpartition(")")[2].split()[1])
