"""modak export: runs for the tools in which people keep their experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from modak_ansible.commands.jobs.operate import Only, Several
from modak_ansible.commands.options import Json, print_json
from modak_ansible.errors import UsageError

EXAMPLES = "Example: modak export mine --mlflow mlruns; or: modak export mine --tensorboard runs --wandb-offline wandb"


def command(
    deployments: Several,
    training: Only = None,
    mlflow: Annotated[Path | None, typer.Option(metavar="DIR", help="MLflow's file store.")] = None,
    tensorboard: Annotated[Path | None, typer.Option(metavar="DIR", help="TensorBoard's log folder.")] = None,
    wandb: Annotated[
        Path | None,
        typer.Option("--wandb-offline", metavar="DIR", help="Weights & Biases' folder, for its wandb sync."),
    ] = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Do not contact the targets; export what is here.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Export numbers and arguments of trainings to other tools. Writes their formats, from what was fetched.

    Run again, it leaves what is up to date untouched, as well as other runs in the folder. It needs neither a library
    of those tools nor a network.
    """
    from modak_ansible.deployment.comparison import fetched
    from modak_ansible.deployment.exporting.exported import export
    from modak_ansible.deployment.fetching import fetch_results
    from modak_ansible.model.quantities import counted
    from modak_ansible.store.deployments import find_all

    places = {"mlflow": mlflow, "tensorboard": tensorboard, "wandb": wandb}
    destinations = {tool: place for tool, place in places.items() if place}
    if not destinations:
        raise UsageError("no destination is given", hint="give --mlflow, --tensorboard or --wandb-offline a folder")
    stores = find_all(deployments, training)
    for remark in fetched(stores, None if offline else fetch_results):
        typer.echo(f"note: {remark}", err=True)
    rows = []
    for tool, place in destinations.items():
        count, changed = export(tool, stores, place)
        rows.append({"tool": tool, "folder": str(place), "runs": count, "changed": changed})
        if not count:
            hint = "modak logs DEPLOYMENT metrics shows what is read from its files"
            raise UsageError("none of these trainings has written a number", hint=hint)
        if not as_json:
            rest = f"; {len(stores) - count} without a number left out" if count < len(stores) else ""
            typer.echo(f"{tool}: {counted(count, 'run')} in {place}, {changed} of them new or changed{rest}")
    if as_json:
        print_json(rows)
