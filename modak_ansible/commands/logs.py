"""modak logs: what a job has written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from modak_ansible.commands import completing
from modak_ansible.commands.options import Json

EXAMPLES = "Example: modak logs -f mnist-pytorch-slurm"

_FILES = {"output": "output.log", "error": "error.log", "scheduler": "scheduler.log"}


def command(
    deployment: Annotated[
        str,
        typer.Argument(
            metavar="DEPLOYMENT",
            help="A deployment, or a blueprint for its newest one.",
            autocompletion=completing.deployments,
        ),
    ],
    which: Annotated[str, typer.Option("--log", help="output, error or scheduler.")] = "output",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job ends.")] = False,
    as_json: Json = False,
) -> None:
    """Show what a job has written so far, from its target; once it has ended, from its results."""
    from modak_ansible.commands.deployments import find_deployment
    from modak_ansible.deployment import run_playbook
    from modak_ansible.errors import UsageError, nearest

    if which not in _FILES:
        raise UsageError(f"there is no log {which}", hint=nearest(which, _FILES))
    if follow and as_json:
        raise UsageError("--json does not go with --follow", hint="leave one of them out")
    folder = find_deployment(deployment)
    if follow:
        variables = {"modak_plan": str(folder / "plan.json"), "job_log": _FILES[which]}
        run_playbook("watch", variables, _Printer())
        return
    _fetch(folder)
    path = folder / "results" / _FILES[which]
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    typer.echo(json.dumps({"log": which, "lines": text.splitlines()}, indent=2) if as_json else text, nl=as_json)


def _fetch(folder: Path) -> None:
    from modak_ansible.deployment import run_playbook
    from modak_ansible.schedulers.base import LIVING
    from modak_ansible.target.files import read_json

    record = read_json(folder / "state.json") or {}
    has_ended = record.get("undeployed") or record.get("job", {}).get("state", LIVING[0]) not in LIVING
    if has_ended and (folder / "results" / "output.log").is_file():
        return
    run_playbook("results", {"modak_plan": str(folder / "plan.json")})


class _Printer:
    """Prints what the job writes, as it comes."""

    def progress(self, stage: str, text: str) -> None:  # noqa: ARG002 - there is only one
        typer.echo(text)

    def task(self, name: str) -> None:
        """Tasks are of no interest here."""

    def finished(self, action: str, result: dict[str, object]) -> None:
        """Neither are their ends."""
