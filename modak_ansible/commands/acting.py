"""What the commands share that act on a deployed job: cancel, hold, release and requeue."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from modak_ansible.commands import completing

Which = Annotated[
    str,
    typer.Argument(
        metavar="DEPLOYMENT",
        help="A deployment as modak status shows it, or a blueprint for its newest one.",
        autocompletion=completing.deployments,
    ),
]


def act(deployment: str, state: str, *, as_json: bool) -> None:
    """Brings the job of a deployment into a state: cancelled, held, released or requeued.

    Raises:
        ModakError: there is no such deployment, its job does not permit it, or the scheduler refuses.
    """
    from rich.console import Console

    from modak_ansible.commands.deployments import find_deployment
    from modak_ansible.commands.display import StageDisplay
    from modak_ansible.deployment import run_playbook

    folder = find_deployment(deployment)
    with StageDisplay(Console(stderr=as_json, highlight=False)) as display:
        outcome = run_playbook("act", {"modak_plan": str(folder / "plan.json"), "job_state": state}, display)
    if as_json:
        result = outcome.results["modak_job"]
        answer = {
            "deployment": folder.name,
            "job_id": result["situation"]["job_id"],
            "state": result["situation"]["state"],
            "changed": bool(result["changed"]),
            "message": result["msg"],
        }
        typer.echo(json.dumps(answer, indent=2))
