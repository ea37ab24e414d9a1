"""modak release: lets a job start that was held."""

from __future__ import annotations

from modak_ansible.commands.jobs.operate import Only, Which, act
from modak_ansible.commands.options import Json

EXAMPLES = "Example: modak release mnist-pytorch-slurm"


def command(deployment: Which, training: Only = None, as_json: Json = False) -> None:
    """Let a deployment's job start that was held. A job that nothing holds is left as it is."""
    act(deployment, "released", training, as_json=as_json)
