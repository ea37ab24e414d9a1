"""A survey of the target: all that a person would look up before the first deployment, looked at and not changed."""

from __future__ import annotations

import getpass
import grp
import os
from pathlib import Path
from typing import Any, Dict, List

from ...schedulers import SCHEDULERS
from ...schedulers.cluster import ClusterFacts
from ...schedulers.slurm_cluster import read_slurm
from ...schedulers.torque_cluster import read_torque
from ..core.commands import TimedRun, find_program
from ..core.probe import machine_facts
from ..core.site import read_site
from ..core.workspace import Workspace
from .containers import container_facts
from .node_view import node_view
from .shell import shell_facts
from .storage import build_folder, folder_facts, quotas

_READERS = {"slurm": read_slurm, "torque": read_torque}
# A scheduler that is silent for longer will not take a job either.
_SCHEDULER_SECONDS = 30


def survey(wanted: Dict[str, Any]) -> Dict[str, Any]:
    """What the target is and has.

    Args:
        wanted: ``workspace``; ``scheduler`` (empty for whichever is there); ``container_runtime``; ``modules``;
            ``folders`` that are looked at besides; ``site`` of the target; ``node`` (whether a node is asked by a
            job), with ``partition``, ``account`` and ``patience`` in seconds.

    Returns:
        ``machine``, ``rsync``, ``schedulers`` (those that are there), ``missing`` (commands of the one that is
        wanted), ``cluster``, ``containers``, ``folders`` by their role, ``quotas``, ``shell``, ``apt_mirror``,
        ``node`` (None where none was asked).
    """
    workspace = Workspace(wanted["workspace"])
    there = [name for name in _READERS if _has(name)]
    scheduler = wanted["scheduler"] or next(iter(there), "none")
    cluster = _cluster(scheduler) if scheduler in there else None
    return {
        "machine": machine_facts(),
        "rsync": find_program("rsync") is not None,
        "schedulers": there,
        "scheduler": scheduler,
        "missing": [name for name in SCHEDULERS[scheduler].commands if find_program(name) is None],
        "cluster": cluster.as_json() if cluster else None,
        "containers": container_facts(wanted["container_runtime"], wanted["site"].get("signing_key") or ""),
        "folders": _folders(workspace, wanted["folders"]),
        "quotas": quotas(Path.home()),
        "shell": shell_facts(wanted["modules"]),
        "apt_mirror": read_site(wanted["site"]).apt_mirror,
        "node": _node(workspace, scheduler, wanted) if wanted["node"] and cluster else None,
    }


def _has(scheduler: str) -> bool:
    return all(find_program(name) for name in SCHEDULERS[scheduler].commands)


def _cluster(scheduler: str) -> ClusterFacts:
    groups = [_group(number) for number in {*os.getgroups(), os.getgid()}]
    return _READERS[scheduler](TimedRun(timeout=_SCHEDULER_SECONDS), getpass.getuser(), groups)


def _group(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


def _folders(workspace: Workspace, more: List[str]) -> Dict[str, Dict[str, Any]]:
    found = {
        "home": folder_facts(Path.home()),
        "workspace": folder_facts(workspace.path, trial=True),
        "build": folder_facts(build_folder()),
    }
    for text in more:
        path = os.path.expandvars(os.path.expanduser(text))
        if path.startswith("/"):  # what is left of a variable is set in jobs only
            found[text] = folder_facts(Path(path))
    return found


def _node(workspace: Workspace, scheduler: str, wanted: Dict[str, Any]) -> Dict[str, Any]:
    options = {name: wanted[name] for name in ("partition", "account", "modules", "folders")}
    return node_view(workspace, scheduler, options, float(wanted["patience"]))
