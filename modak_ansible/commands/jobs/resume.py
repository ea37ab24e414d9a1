"""modak resume: takes a deployment up where it stopped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from modak_ansible.commands.jobs.operate import Only, Which
from modak_ansible.commands.options import Json

EXAMPLES = "Example: modak resume mnist-pytorch-slurm"


def command(
    deployment: Which,
    training: Only = None,
    as_json: Json = False,
    detach: Annotated[bool, typer.Option("--detach", help="Come back when the job is submitted.")] = False,
) -> None:
    """Go on with a deployment that was interrupted or has failed, from its plan and from what is on the target.

    A job that failed, was cancelled, ran out of time or was lost is submitted once more. What its earlier attempt wrote
    is kept, in attempts/1 and so on of the deployment's folder and of its results; what the training keeps beside its
    script, such as checkpoints, is there for the next attempt. A job that lives is watched, and one that has completed
    is not run again.
    """
    from rich.console import Console

    from modak_ansible.commands.deploy.progress import StageDisplay, print_pairs
    from modak_ansible.deployment import run_playbook
    from modak_ansible.schedulers.base import UNKNOWN
    from modak_ansible.stages.results import summary_lines
    from modak_ansible.store.deployments import find_trainings
    from modak_ansible.target.core.files import read_json

    found = find_trainings(deployment, training)
    if len(found) > 1:
        from modak_ansible.commands.jobs.several import resume_all

        resume_all(found, deployment, wait=not detach, as_json=as_json)
        return
    folder = found[0].folder
    _check_that_it_is_deployed(folder)
    console = Console(stderr=as_json, highlight=False)
    try:
        with StageDisplay(console) as display:
            outcome = run_playbook("resume", {"modak_plan": str(folder / "plan.json"), "job_wait": not detach}, display)
    except KeyboardInterrupt:
        words = f"What runs on the target goes on. To take it up: modak resume {folder.name}"
        console.print(words, style="yellow", markup=False, soft_wrap=True)
        raise
    plan, record = read_json(folder / "plan.json") or {}, read_json(folder / "state.json") or {}
    if as_json:
        facts: dict[str, Any] = {"digest": plan["digest"], "deployment": folder.name, "changed": outcome.changed}
        typer.echo(json.dumps({**facts, **record}, indent=2, sort_keys=True))
        return
    console.print()
    print_pairs(console, summary_lines(plan, record))
    if not outcome.changed and (record.get("job") or {}).get("state") != UNKNOWN:
        console.print("\nThere was nothing left to do.")


def _check_that_it_is_deployed(folder: Path) -> None:
    """
    Raises:
        ModakError: it was undeployed, and there is nothing to go on with.
    """
    from modak_ansible.errors import ModakError
    from modak_ansible.target.core.files import read_json

    if (read_json(folder / "state.json") or {}).get("undeployed"):
        raise ModakError(f"{folder.name} was undeployed", hint="modak deploy makes it anew")
