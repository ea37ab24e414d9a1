"""A folder a scheduler: its job script out of a plan, a job's state out of its commands' output.

All but ``script.py`` and each ``directives.py`` also runs on targets, where only the standard library of Python 3.8 and
later is to be had.
"""

from __future__ import annotations

from .base import Scheduler
from .direct import Direct
from .kubernetes.jobs import Kubernetes
from .lsf.jobs import LSF
from .pbs.pbspro import PBSPro
from .pbs.torque import Torque
from .slurm.jobs import Slurm

SCHEDULERS: dict[str, Scheduler] = {
    scheduler.name: scheduler for scheduler in (Slurm(), Torque(), PBSPro(), LSF(), Kubernetes(), Direct())
}
