"""modak undeploy: cancels the job and cleans up."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from modak_ansible.commands import completing
from modak_ansible.commands.options import Json

EXAMPLES = "Example: modak undeploy mnist-pytorch-slurm"

Which = Annotated[
    str,
    typer.Argument(
        metavar="DEPLOYMENT",
        help="A deployment as modak status shows it, or a blueprint for its newest one.",
        autocompletion=completing.deployments,
    ),
]


def command(deployment: Which, as_json: Json = False) -> None:
    """Cancel a deployment's job and remove its folder from the target.

    Images and data stay for other deployments, and the results that were fetched stay here.
    """
    from rich.console import Console

    from modak_ansible.commands.deployments import find_deployment
    from modak_ansible.commands.display import StageDisplay
    from modak_ansible.deployment import run_playbook

    folder = find_deployment(deployment)
    console = Console(stderr=as_json, highlight=False)
    with StageDisplay(console) as display:
        outcome = run_playbook("undeploy", {"modak_plan": str(folder / "plan.json")}, display)
    if as_json:
        result: dict[str, Any] = outcome.results.get("modak_job", {})
        answer = {"deployment": folder.name, "changed": bool(outcome.changed), "message": result.get("msg", "")}
        typer.echo(json.dumps(answer, indent=2))
