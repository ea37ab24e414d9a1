"""modak requeue: sends a running job back into the queue."""

from __future__ import annotations

from modak_ansible.commands.jobs.operate import Only, Which, act
from modak_ansible.commands.options import Json

EXAMPLES = "Example: modak requeue mnist-pytorch-slurm"


def command(deployment: Which, training: Only = None, as_json: Json = False) -> None:
    """End a deployment's running job, and have it wait for its turn again under the same id.

    What it wrote stays, and its script begins anew, or where its own checkpoints let it. Torque keeps this for its
    operators, and without a scheduler there is no queue: there, modak cancel and modak resume come to the same.
    """
    act(deployment, "requeued", training, as_json=as_json)
