"""modak undeploy: cancels the job and cleans up."""

from __future__ import annotations

from typing import Annotated

import typer

from modak_ansible.commands.jobs.operate import Only, Which, print_rows, stage_display
from modak_ansible.commands.options import Json

EXAMPLES = "Example: modak undeploy mnist-pytorch-slurm"


def command(
    deployment: Which,
    training: Only = None,
    as_json: Json = False,
    keep_images: Annotated[
        bool,
        typer.Option(
            "--keep-images/--remove-images",
            help="Keep its images for other deployments, or remove those that no other deployment on the target uses.",
        ),
    ] = True,
    leave_job: Annotated[
        bool, typer.Option("--leave-job", help="Continue even if the job cannot be ended, for example on a dead node.")
    ] = False,
) -> None:
    """Cancel a deployment's job and remove its folder there.

    Images and data stay for other deployments, and fetched results stay here. modak gc removes what no deployment uses
    any more.
    """
    from modak_ansible.deployment import job_control
    from modak_ansible.store.deployments import find_trainings

    stores = find_trainings(deployment, training)
    before = [store.record_now().get("undeployed") for store in stores]
    with stage_display(as_json=as_json) as display:
        outcomes = job_control.undeploy(stores, display, images=not keep_images, leave=leave_job)
    if not as_json:
        return
    changed = len(stores) == 1 and any(outcome["changed"] for outcome in outcomes)
    rows = [
        {
            "training": store.plan["training"],
            "deployment": store.name,
            # of one, that an image was removed is a change, too: of many nobody says whose it was
            "changed": store.record_now().get("undeployed") != undeployed_before or changed,
            "message": "; ".join(outcome["msg"] for outcome in outcomes),
        }
        for store, undeployed_before in zip(stores, before, strict=True)
    ]
    print_rows(rows, stores)
