"""A survey of the target: all that a person would look up before the first deployment, looked at and not changed."""

from __future__ import annotations

import grp
import os
from pathlib import Path
from typing import Any, Dict, List, Optional, TypedDict

from ...schedulers.cluster import ClusterFacts
from ...schedulers.lsf.cluster import read_lsf
from ...schedulers.pbs.cluster import read_pbspro, read_torque
from ...schedulers.registry import SCHEDULERS
from ...schedulers.slurm.cluster import read_slurm
from ..core.commands import TimedRun, find_program, user_name
from ..core.probe import GRID_ENGINE, MachineFacts, is_there, machine_facts, missing_commands, of_another
from ..core.site import read_site
from ..core.workspace import Workspace
from ..images.runtimes import build_folder
from ..jobs.situation import Forecast, forecast
from .containers import ContainerFacts, container_facts
from .hosts import HostFacts, host_facts
from .node_view import NodeOptions, NodeView, node_view
from .shell import ShellFacts, shell_facts
from .storage import FolderFacts, QuotaFacts, folder_facts, quotas
from .usage import gpus_here

_READERS = {"slurm": read_slurm, "pbspro": read_pbspro, "torque": read_torque, "lsf": read_lsf}
# Programs of schedulers that nobody submits to here.
_OTHERS = {"qconf": GRID_ENGINE, "condor_submit": "HTCondor", "oarsub": "OAR"}
# A scheduler that is silent for longer will not take a job either.
_SCHEDULER_SECONDS = 30


class SurveyOptions(NodeOptions):
    workspace: str
    scheduler: str  # slurm, torque, pbspro, lsf, kubernetes or none; empty for whichever is there
    container_runtime: str
    hosts: List[str]  # that this one starts ranks on, besides those that it has itself
    site: Dict[str, Any]  # of the target, as its model has it
    node: bool  # whether a node is asked by a job
    patience: int  # seconds to wait for that
    directives: str  # of a job of which it is asked when it would begin; empty where there is none


class SurveyFacts(TypedDict):
    machine: MachineFacts
    rsync: bool  # whether it is there
    schedulers: List[str]  # those that are there
    others: List[str]  # those that modak does not know
    scheduler: str
    missing: List[str]  # commands of the one that is wanted
    another: str  # whose these really are, where they say so; empty where they are its own
    cluster: Optional[Dict[str, Any]]  # ClusterFacts as JSON; None where no scheduler was asked
    containers: ContainerFacts
    folders: Dict[str, FolderFacts]  # by their role, or as they were given
    quotas: QuotaFacts
    shell: ShellFacts
    apt_mirror: Optional[str]
    forecast: Optional[Forecast]  # None where nobody says when a job would begin
    objection: str  # why that job would not be taken; empty where nobody says
    node: Optional[NodeView]  # None where none was asked
    gpus: List[str]  # of this machine, where no scheduler has others: name, MiB
    hosts: List[HostFacts]


def survey(options: SurveyOptions) -> SurveyFacts:
    workspace = Workspace(options["workspace"])
    schedulers = [name for name in _READERS if is_there(name)]
    scheduler = options["scheduler"] or next(iter(schedulers), "none")
    cluster = _cluster(scheduler) if scheduler in schedulers else None
    start = _forecast(scheduler, options["directives"]) if cluster else None
    containers = container_facts(options["container_runtime"], options["site"].get("signing_key") or "")
    return {
        "machine": machine_facts(),
        "rsync": find_program("rsync") is not None,
        "schedulers": schedulers,
        "others": [title for program, title in _OTHERS.items() if find_program(program)],
        "scheduler": scheduler,
        "missing": missing_commands(scheduler),
        "another": "" if cluster else of_another(scheduler),
        "cluster": cluster.as_json() if cluster else None,
        "containers": containers,
        "folders": _folders(workspace, options["folders"]),
        "quotas": quotas(Path.home(), workspace.path),
        "shell": shell_facts(options["modules"]),
        "apt_mirror": read_site(options["site"]).apt_mirror,
        "forecast": start,
        "objection": "" if start else _objection(scheduler, options["directives"]),
        "node": node_view(workspace, scheduler, options, options["patience"]) if options["node"] and cluster else None,
        "gpus": gpus_here() if scheduler == "none" else [],
        "hosts": host_facts(options["hosts"], workspace, containers["runtime"]),
    }


def _cluster(scheduler: str) -> ClusterFacts:
    groups = [_group(number) for number in dict.fromkeys([os.getgid(), *os.getgroups()])]
    return _READERS[scheduler](TimedRun(timeout=_SCHEDULER_SECONDS), user_name(), groups)


def _forecast(scheduler: str, directives: str) -> Optional[Forecast]:
    run = TimedRun(timeout=_SCHEDULER_SECONDS)
    return forecast(SCHEDULERS[scheduler].forecast(run, directives)) if directives else None


def _objection(scheduler: str, directives: str) -> str:
    return SCHEDULERS[scheduler].objection(TimedRun(timeout=_SCHEDULER_SECONDS), directives) if directives else ""


def _group(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


def _folders(workspace: Workspace, texts: List[str]) -> Dict[str, FolderFacts]:
    folders = {
        "home": folder_facts(Path.home()),
        "workspace": folder_facts(workspace.path, trial=True),
        "build": folder_facts(build_folder(workspace.path)),
    }
    for text in texts:
        path = os.path.expandvars(os.path.expanduser(text))
        if path.startswith("/"):  # what is left of a variable is set in jobs only
            folders[text] = folder_facts(Path(path))
    return folders
