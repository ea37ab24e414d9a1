"""What the commands share that act on the jobs of deployments, of one or of many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from modak_ansible.commands import completion as completing
from modak_ansible.commands.options import print_json

if TYPE_CHECKING:
    from modak_ansible.commands.deploy.progress import StageDisplay
    from modak_ansible.store.deployment import DeploymentStore


def deployment_argument(help_text: str, metavar: str = "DEPLOYMENT") -> Any:
    """The argument that names deployments."""
    return typer.Argument(metavar=metavar, help=help_text, autocompletion=completing.deployments)


EACH = "or a blueprint for the newest deployment of each of its trainings"
Which = Annotated[str, deployment_argument(f"A deployment as modak status shows it, {EACH}.")]
Newest = Annotated[
    str | None,
    deployment_argument("A deployment, or a blueprint. Default: the newest deployment here.", "[DEPLOYMENT]"),
]
Several = Annotated[list[str], deployment_argument(f"Deployments as modak status shows them, {EACH}.", "DEPLOYMENT...")]
Only = Annotated[
    str | None, typer.Option("--training", help="For a blueprint: only this training, or this point of its sweep.")
]


def act(deployment: str, state: str, training: str | None, *, as_json: bool) -> None:
    """Brings the jobs of deployments into a state, as far as theirs permit it: cancelled, held, released or requeued.

    Raises:
        ModakError: there is no such deployment, none of their jobs permits it, or the scheduler refuses.
    """
    from modak_ansible.deployment import job_control
    from modak_ansible.store.deployments import find_trainings

    stores = find_trainings(deployment, training)
    with stage_display(as_json=as_json) as display:
        jobs = {job["deployment"]: job for job in job_control.act(stores, state, display)}
    rows = [jobs[store.name] for store in stores if store.name in jobs]
    if as_json:
        print_rows(rows, stores)
    elif len(stores) > 1:
        width = max(len(row["training"]) for row in rows)
        for row in rows:
            typer.echo(f"{row['training']:<{width}}  {row['message']}")


def stage_display(*, as_json: bool) -> StageDisplay:
    """Shows how deployments get on."""
    from rich.console import Console

    from modak_ansible.commands.deploy.progress import StageDisplay

    return StageDisplay(Console(stderr=as_json, highlight=False))


def print_rows(rows: Sequence[Mapping[str, object]], stores: Sequence[DeploymentStore]) -> None:
    """As JSON: of one deployment what became of it, and of many a list of that."""
    print_json(rows if len(stores) > 1 else rows[0])
