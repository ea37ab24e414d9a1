"""modak resume: takes a deployment up where it stopped."""

from __future__ import annotations

from typing import Annotated

import typer

from modak_ansible.commands.jobs.operate import Only, Which
from modak_ansible.commands.options import Json
from modak_ansible.errors import ModakError

EXAMPLES = "Example: modak resume mnist-pytorch-slurm"


def command(
    deployment: Which,
    training: Only = None,
    as_json: Json = False,
    detach: Annotated[bool, typer.Option("--detach", help="Return once the job is submitted.")] = False,
) -> None:
    """Continue a deployment that was interrupted or has failed. Goes on from its plan and from what is on the target.

    A job that failed, was cancelled, ran out of time or was lost is submitted again. What its earlier attempt wrote is
    kept in attempts/1 and so on, in the deployment's folder and in its results; what the training keeps beside its
    script, such as checkpoints, is there for the next attempt. A job that is waiting or running is watched, and one
    that has completed is not run again.
    """
    from modak_ansible.commands.deploy.outcome import carry_out
    from modak_ansible.deployment.playbook import run_playbook
    from modak_ansible.deployment.run import plans_of
    from modak_ansible.store.deployments import find_trainings

    stores = find_trainings(deployment, training)
    name = deployment if len(stores) > 1 else stores[0].name
    deployed_stores = [store for store in stores if not store.record.get("undeployed")]
    if not deployed_stores:
        raise ModakError(f"{name} was undeployed", hint="modak deploy creates it again")
    variables = {**plans_of(deployed_stores), "job_wait": not detach}
    carry_out(
        deployed_stores,
        lambda display: run_playbook("resume", variables, display).changed,
        lambda: f"What runs on the target continues. To pick it up again: modak resume {name}",
        "There was nothing left to do.",
        is_campaign=len(stores) > 1,
        as_json=as_json,
    )
