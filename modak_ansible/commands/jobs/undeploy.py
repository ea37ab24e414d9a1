"""modak undeploy: cancels the job and cleans up."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from modak_ansible.commands.jobs.operate import Only, Which
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
            help="Leave its images for other deployments, or remove those that no other one on the target uses.",
        ),
    ] = True,
    leave_job: Annotated[
        bool, typer.Option("--leave-job", help="Go on where the job cannot be ended, such as on a dead node.")
    ] = False,
) -> None:
    """Cancel a deployment's job and remove its folder from the target.

    Images and data stay for other deployments, and the results that were fetched stay here. modak gc removes what no
    deployment uses any more.
    """
    from rich.console import Console

    from modak_ansible.commands.deploy.progress import StageDisplay
    from modak_ansible.deployment.playbook import run_playbook
    from modak_ansible.deployment.run import plans_of
    from modak_ansible.store.deployments import find_trainings

    found = find_trainings(deployment, training)
    if len(found) > 1:
        from modak_ansible.commands.jobs.several import undeploy_all

        undeploy_all(found, remove_images=not keep_images, leave_job=leave_job, as_json=as_json)
        return
    store = found[0]
    console = Console(stderr=as_json, highlight=False)
    wanted = {"job_remove_images": not keep_images, "job_leave": leave_job}
    variables = {**plans_of(found), **wanted}
    with StageDisplay(console) as display:
        outcome = run_playbook("undeploy", variables, display)
    if as_json:
        result = outcome.results.get("modak_job")
        message = result["msg"] if result else ""
        answer = {"deployment": store.name, "changed": bool(outcome.changed), "message": message}
        typer.echo(json.dumps(answer, indent=2))
