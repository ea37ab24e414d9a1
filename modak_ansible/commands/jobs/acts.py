"""modak cancel, hold, release and requeue: what one can do to a job, each by its own name."""

from __future__ import annotations

from modak_ansible.commands.jobs.operate import Only, Which, act
from modak_ansible.commands.options import Json

EXAMPLES = "Example: modak {} mnist-pytorch-slurm"


def cancel(deployment: Which, training: Only = None, as_json: Json = False) -> None:
    """End a deployment's job. Its folder on the target stays, with what it wrote; modak resume runs it again.

    A job that has already ended is left as it is.
    """
    act(deployment, "cancelled", training, as_json=as_json)


def hold(deployment: Which, training: Only = None, as_json: Json = False) -> None:
    """Keep a deployment's job in the queue until modak release. A job that has started cannot be held."""
    act(deployment, "held", training, as_json=as_json)


def release(deployment: Which, training: Only = None, as_json: Json = False) -> None:
    """Let a held job of a deployment start. A job that is not held is left as it is."""
    act(deployment, "released", training, as_json=as_json)


def requeue(deployment: Which, training: Only = None, as_json: Json = False) -> None:
    """Send a running job back into the queue. It ends, and waits for its turn again under the same id.

    What it wrote stays, and its script starts again, from its own checkpoints if it has them. Torque reserves this for
    its operators, and without a scheduler there is no queue: there, use modak cancel and then modak resume.
    """
    act(deployment, "requeued", training, as_json=as_json)
