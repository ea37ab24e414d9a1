"""modak resume: takes a deployment up where it stopped."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from modak_ansible.commands.jobs.operate import Only, Which
from modak_ansible.commands.options import Json

if TYPE_CHECKING:
    from modak_ansible.store.deployment import DeploymentStore

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
    from modak_ansible.deployment.playbook import run_playbook
    from modak_ansible.deployment.run import plans_of
    from modak_ansible.stages.results import summary_lines
    from modak_ansible.store.deployments import find_trainings

    found = find_trainings(deployment, training)
    if len(found) > 1:
        from modak_ansible.commands.jobs.several import resume_all

        resume_all(found, deployment, wait=not detach, as_json=as_json)
        return
    store = found[0]
    _check_that_it_is_deployed(store)
    console = Console(stderr=as_json, highlight=False)
    try:
        with StageDisplay(console) as display:
            outcome = run_playbook("resume", {**plans_of(found), "job_wait": not detach}, display)
    except KeyboardInterrupt:
        words = f"What runs on the target goes on. To take it up: modak resume {store.name}"
        console.print(words, style="yellow", markup=False, soft_wrap=True)
        raise
    plan, record = store.plan, store.record_now()
    if as_json:
        facts = {"digest": plan["digest"], "deployment": store.name, "changed": outcome.changed}
        typer.echo(json.dumps({**facts, **record}, indent=2, sort_keys=True))
        return
    console.print()
    print_pairs(console, summary_lines(plan, record))
    if not outcome.changed and not store.is_in_doubt:
        console.print("\nThere was nothing left to do.")


def _check_that_it_is_deployed(store: DeploymentStore) -> None:
    """
    Raises:
        ModakError: it was undeployed, and there is nothing to go on with.
    """
    from modak_ansible.errors import ModakError

    if store.record.get("undeployed"):
        raise ModakError(f"{store.name} was undeployed", hint="modak deploy makes it anew")
