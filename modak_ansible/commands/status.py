"""modak status: what is deployed, and how it is getting on."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from modak_ansible.commands import completing
from modak_ansible.commands.options import Json

EXAMPLES = "Example: modak status mnist-pytorch-slurm --json"


def command(
    deployment: Annotated[
        str | None,
        typer.Argument(
            metavar="[DEPLOYMENT]",
            help="One deployment, or a blueprint; without it all of them.",
            autocompletion=completing.deployments,
        ),
    ] = None,
    as_json: Json = False,
    offline: Annotated[bool, typer.Option("--offline", help="Do not ask the targets.")] = False,
) -> None:
    """Show the deployments of this project; jobs that may still run are asked for on their targets."""
    from pathlib import Path

    from modak_ansible.commands.deployments import find_deployments, known_deployments
    from modak_ansible.project import state_folder

    known = find_deployments(deployment) if deployment else known_deployments(state_folder(Path.cwd()))
    rows = [_row(each, offline) for each in known]
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
    elif not rows:
        typer.echo("nothing was deployed from this project; modak deploy BLUEPRINT does")
        typer.echo("what a blueprint elsewhere has deployed: modak status BLUEPRINT")
    else:
        _print_table(rows)


def _row(known: Any, offline: bool) -> dict[str, Any]:
    from modak_ansible.target.files import read_json

    problem = "" if offline or not _may_live(known.record) else _ask(known.folder)
    record = read_json(known.folder / "state.json") or {}
    job, metrics = record.get("job", {}), record.get("metrics") or {}
    return {
        "deployment": known.folder.name,
        "training": known.plan["training"],
        "target": known.plan["target"]["name"],
        "stage": "undeployed" if _is_undeployed(record) else record.get("stage", "planned"),
        "job_id": job.get("job_id", ""),
        "state": "UNDEPLOYED" if _is_undeployed(record) else job.get("state", "NONE"),
        "explanation": problem or job.get("explanation", ""),
        "nodes": job.get("nodes", ""),
        "exit_code": job.get("exit_code"),
        "epochs": metrics.get("epochs"),
        "accuracy": metrics.get("accuracy"),
        "results": record.get("results", ""),
        "digest": known.plan["digest"],
    }


def _is_undeployed(record: dict[str, Any]) -> bool:
    return bool(record.get("undeployed"))


def _may_live(record: dict[str, Any]) -> bool:
    from modak_ansible.stages.job import LIVING

    return record.get("job", {}).get("state") in LIVING and not _is_undeployed(record)


def _ask(folder: Any) -> str:
    """Brings a deployment's record up to date; gives what stands in the way."""
    from modak_ansible.deployment import run_playbook
    from modak_ansible.errors import ModakError

    try:
        run_playbook("status", {"modak_plan": str(folder / "plan.json")})
    except ModakError as error:
        return error.message.splitlines()[0]
    return ""


def _print_table(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("deployment", "training", "target", "job", "state", "epochs", "accuracy", ""):
        table.add_column(title, no_wrap=bool(title))
    for row in rows:
        accuracy = f"{row['accuracy']:.2%}" if isinstance(row["accuracy"], float) else ""
        epochs = str(row["epochs"] or "")
        cells = (
            row["deployment"],
            row["training"],
            row["target"],
            row["job_id"],
            row["state"],
            epochs,
            accuracy,
            row["explanation"],
        )
        table.add_row(*cells)
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 1000  # for other programs, a deployment a line
    console.print(table)
