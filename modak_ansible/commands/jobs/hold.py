"""modak hold: keeps a job that waits from starting."""

from __future__ import annotations

from modak_ansible.commands.jobs.operate import Only, Which, act
from modak_ansible.commands.options import Json

EXAMPLES = "Example: modak hold mnist-pytorch-slurm"


def command(deployment: Which, training: Only = None, as_json: Json = False) -> None:
    """Keep a deployment's job in the queue until modak release. A job that has begun cannot be held."""
    act(deployment, "held", training, as_json=as_json)
