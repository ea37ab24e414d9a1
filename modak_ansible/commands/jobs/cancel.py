"""modak cancel: ends a job, and keeps its deployment."""

from __future__ import annotations

from modak_ansible.commands.jobs.operate import Only, Which, act
from modak_ansible.commands.options import Json

EXAMPLES = "Example: modak cancel mnist-pytorch-slurm"


def command(deployment: Which, training: Only = None, as_json: Json = False) -> None:
    """End a deployment's job. Its folder on the target stays, and what it wrote there; modak resume runs it again.

    A job that has ended before is left as it is.
    """
    act(deployment, "cancelled", training, as_json=as_json)
