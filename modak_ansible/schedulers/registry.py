"""Every scheduler, by its name in a plan; what makes plans needs none of them, and imports none."""

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
