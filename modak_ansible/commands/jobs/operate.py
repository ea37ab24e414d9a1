"""What the commands share that act on a deployed job: cancel, hold, release and requeue."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from modak_ansible.commands import completion as completing

Which = Annotated[
    str,
    typer.Argument(
        metavar="DEPLOYMENT",
        help="A deployment as modak status shows it, or a blueprint for the newest one of each of its trainings.",
        autocompletion=completing.deployments,
    ),
]


Only = Annotated[
    str | None, typer.Option("--training", help="Of a blueprint only this training, or this point of its sweep.")
]


def act(deployment: str, state: str, training: str | None, *, as_json: bool) -> None:
    """Brings the jobs of deployments into a state: cancelled, held, released or requeued.

    Raises:
        ModakError: there is no such deployment, its job does not permit it, or the scheduler refuses.
    """
    from rich.console import Console

    from modak_ansible.commands.deploy.progress import StageDisplay
    from modak_ansible.deployment.playbook import run_playbook
    from modak_ansible.deployment.run import plans_of
    from modak_ansible.store.deployments import find_trainings

    found = find_trainings(deployment, training)
    if len(found) > 1:
        from modak_ansible.commands.jobs.several import act_on_all

        act_on_all(found, state, as_json=as_json)
        return
    with StageDisplay(Console(stderr=as_json, highlight=False)) as display:
        outcome = run_playbook("act", {**plans_of(found), "job_state": state}, display)
    if as_json:
        (job,) = json.loads(outcome.results["modak_job"]["jobs"])
        answer = {name: job[name] for name in ("deployment", "job_id", "state", "changed", "message")}
        typer.echo(json.dumps(answer, indent=2))
