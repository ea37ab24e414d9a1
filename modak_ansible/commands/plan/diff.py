"""modak diff: what would a deployment change?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from modak_ansible.commands.options import Json, PlanOptions, print_json, show_warnings, takes, without_collecting
from modak_ansible.commands.plan.differences import (
    Differences,
    beside_lines,
    difference_lines,
    differences,
    lines_again,
)
from modak_ansible.store.project import find_blueprint

if TYPE_CHECKING:
    from modak_ansible.planning.service import Planned
    from modak_ansible.store.deployment import DeploymentStore

EXAMPLES = "Example: modak diff mnist-pytorch-slurm --input epochs=4"


@takes("blueprint", "words", "inputs", "value", "training", "on", "nodes", "processes", "accelerators", "strict")
def command(
    asked: PlanOptions,
    as_json: Json = False,
) -> None:
    """Compare what would be deployed with what was deployed last. Exits with 1 if they differ."""
    without_collecting()
    from modak_ansible.planning.service import plan_all

    all_planned = plan_all(find_blueprint(asked.blueprint), asked.all_inputs, asked.training)
    planned = all_planned[0]
    show_warnings(planned.warnings)
    if len(all_planned) > 1:
        _several(all_planned, as_json=as_json)
        return
    deployment = _deployed(planned)
    is_same = deployment is not None and deployment.plan["digest"] == planned.plan.digest
    plan = planned.plan.model_dump(mode="json")
    changes = differences(deployment.plan, plan) if deployment and not is_same else Differences()
    name = deployment.name if deployment else ""
    if as_json:
        print_json({"deployed": name, "planned": planned.plan.deployment, "same": is_same, **changes})
    else:
        typer.echo(_text(name, planned.plan.deployment, changes, is_same=is_same))
        if deployment and is_same:
            for line in beside_lines(deployment.plan, plan):
                typer.echo(line)
    if not is_same:
        raise typer.Exit(1)


def _several(all_planned: list[Planned], *, as_json: bool) -> None:
    """What deploying several trainings would run again and why, and how many are as they were deployed."""
    from modak_ansible.store.deployments import deployments_of

    deployed_names = {
        deployment.name
        for deployment in deployments_of(all_planned[0].blueprint)
        if not deployment.record.get("undeployed")
    }
    same = [planned.plan.deployment in deployed_names for planned in all_planned]
    lines = lines_again(all_planned)
    if as_json:
        trainings = [
            {"training": planned.plan.training, "planned": planned.plan.deployment, "same": is_same}
            for planned, is_same in zip(all_planned, same, strict=True)
        ]
        print_json({"same": all(same), "again": lines, "trainings": trainings})
    else:
        for line in lines:
            typer.echo(line)
        typer.echo(f"{sum(same)} of {len(all_planned)} trainings are deployed as they are planned")
    if not all(same):
        raise typer.Exit(1)


def _deployed(planned: Planned) -> DeploymentStore | None:
    """The newest deployment of the same training of the same blueprint that still stands; None where there is none."""
    from modak_ansible.store.deployments import deployments_of

    standing = [
        deployment
        for deployment in deployments_of(planned.blueprint)
        if deployment.plan.get("training") == planned.plan.training and not deployment.record.get("undeployed")
    ]
    same = [deployment for deployment in standing if deployment.plan["digest"] == planned.plan.digest]
    candidates = same or standing
    return candidates[-1] if candidates else None


def _text(deployed: str, planned: str, changes: Differences, *, is_same: bool) -> str:
    if is_same:
        return f"{deployed} is what is planned"
    if not deployed:
        return f"{planned} is planned, and nothing of it is deployed"
    return "\n".join([f"{deployed} is deployed, and {planned} is planned", *difference_lines(changes)])
