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

    every = plan_all(find_blueprint(asked.blueprint), asked.given, asked.training)
    planned = every[0]
    show_warnings(planned.warnings)
    if len(every) > 1:
        _several(every, as_json=as_json)
        return
    known = _deployed(planned)
    is_same = known is not None and known.plan["digest"] == planned.plan.digest
    plan = planned.plan.model_dump(mode="json")
    found = differences(known.plan, plan) if known and not is_same else Differences()
    name = known.name if known else ""
    if as_json:
        print_json({"deployed": name, "planned": planned.plan.deployment, "same": is_same, **found})
    else:
        typer.echo(_text(name, planned.plan.deployment, found, is_same=is_same))
        if known and is_same:
            for line in beside_lines(known.plan, plan):
                typer.echo(line)
    if not is_same:
        raise typer.Exit(1)


def _several(every: list[Planned], *, as_json: bool) -> None:
    """What deploying several trainings would run again and why, and how many are as they were deployed."""
    from modak_ansible.store.deployments import deployments_of

    known = {
        deployment.name for deployment in deployments_of(every[0].blueprint) if not deployment.record.get("undeployed")
    }
    same = [each.plan.deployment in known for each in every]
    lines = lines_again(every)
    if as_json:
        trainings = [
            {"training": each.plan.training, "planned": each.plan.deployment, "same": is_same}
            for each, is_same in zip(every, same, strict=True)
        ]
        print_json({"same": all(same), "again": lines, "trainings": trainings})
    else:
        for line in lines:
            typer.echo(line)
        typer.echo(f"{sum(same)} of {len(every)} trainings are deployed as they are planned")
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
    same = [each for each in standing if each.plan["digest"] == planned.plan.digest]
    found = same or standing
    return found[-1] if found else None


def _text(deployed: str, planned: str, found: Differences, *, is_same: bool) -> str:
    if is_same:
        return f"{deployed} is what is planned"
    if not deployed:
        return f"{planned} is planned, and nothing of it is deployed"
    return "\n".join([f"{deployed} is deployed, and {planned} is planned", *difference_lines(found)])
