"""modak cancel, hold, release and requeue: what one can do to a job, each by its own name."""

from __future__ import annotations

from modak_ansible.commands.jobs.operate import Only, Which, act
from modak_ansible.commands.options import Json

EXAMPLES = "Example: modak {} mnist-pytorch-slurm"


def cancel(deployment: Which, training: Only = None, as_json: Json = False) -> None:
    """End a deployment's job. Its folder on the target stays, and what it wrote there; modak resume runs it again.

    A job that has ended before is left as it is.
    """
    act(deployment, "cancelled", training, as_json=as_json)


def hold(deployment: Which, training: Only = None, as_json: Json = False) -> None:
    """Keep a deployment's job in the queue until modak release. A job that has begun cannot be held."""
    act(deployment, "held", training, as_json=as_json)


def release(deployment: Which, training: Only = None, as_json: Json = False) -> None:
    """Let a deployment's job start that was held. A job that nothing holds is left as it is."""
    act(deployment, "released", training, as_json=as_json)


def requeue(deployment: Which, training: Only = None, as_json: Json = False) -> None:
    """End a deployment's running job, and have it wait for its turn again under the same id.

    What it wrote stays, and its script begins anew, or where its own checkpoints let it. Torque keeps this for its
    operators, and without a scheduler there is no queue: there, modak cancel and modak resume come to the same.
    """
    act(deployment, "requeued", training, as_json=as_json)
