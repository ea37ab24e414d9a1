"""modak deploy: carries a plan out, from the image to the results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from modak_ansible.commands.options import (
    Blueprint,
    InputsFile,
    InputValues,
    Json,
    Targets,
    Training,
    as_data,
    given_inputs,
    restated,
    show_warnings,
)

if TYPE_CHECKING:
    from modak_ansible.model.plan import Plan

EXAMPLES = "Example: modak deploy mnist-pytorch-slurm -i site.yaml --input epochs=4"


def command(
    blueprint: Blueprint,
    inputs: InputsFile = None,
    value: InputValues = None,
    training: Training = None,
    target: Targets = None,
    as_json: Json = False,
    detach: Annotated[bool, typer.Option("--detach", help="Come back when the job is submitted.")] = False,
) -> None:
    """Build the image, stage the data, submit the job once, watch it, and bring back its results.

    Run again, it goes on where it was, and changes nothing when all is done. Ctrl-C leaves what runs on the target
    running; modak undeploy ends it.
    """
    from rich.console import Console

    from modak_ansible.commands.display import StageDisplay, print_pairs
    from modak_ansible.deployment import run_playbook
    from modak_ansible.planning import plan_blueprint
    from modak_ansible.project import find_blueprint
    from modak_ansible.stages.results import summary_lines
    from modak_ansible.target.files import read_json

    planned = plan_blueprint(find_blueprint(blueprint), given_inputs(inputs, value, target), training)
    show_warnings(planned.warnings)
    _check_that_it_runs(planned.plan)
    folder = planned.save()
    console = Console(stderr=as_json, highlight=False)
    console.print(f"{planned.plan.name} on {planned.plan.target.name}, plan {planned.plan.digest[:12]}")
    variables = {"modak_plan": str(folder / "plan.json"), "job_wait": not detach}
    try:
        with StageDisplay(console) as display:
            outcome = run_playbook("deploy", variables, display)
    except KeyboardInterrupt:
        again = f"modak deploy {restated(blueprint, inputs, value, training, target)}"
        console.print(_after_interrupt(folder, again), style="yellow", markup=False, soft_wrap=True)
        raise
    record = read_json(folder / "state.json") or {}
    plan = planned.plan.model_dump(mode="json")
    if as_json:
        facts = {"digest": plan["digest"], "deployment": planned.plan.deployment, "changed": outcome.changed}
        warned = {"warnings": as_data(planned.warnings)} if planned.warnings else {}
        typer.echo(json.dumps({**facts, **record, **warned}, indent=2, sort_keys=True))
        return
    console.print()
    print_pairs(console, summary_lines(plan, record))
    if not outcome.changed:
        console.print("\nNothing had to be built, staged or submitted: this plan was carried out before.")


def _check_that_it_runs(plan: Plan) -> None:
    """
    Raises:
        UsageError: the request is for the choice of an image alone.
    """
    from modak_ansible.errors import UsageError
    from modak_ansible.model.application import runs_nothing

    if runs_nothing(plan.application):
        hint = f"modak catalogue build {plan.image.entry} makes its image; job.application says what runs"
        raise UsageError(f"{plan.name} asks for an image, and for nothing to run in it", hint=hint)


def _after_interrupt(folder: Path, again: str) -> str:
    """What goes on after Ctrl-C, and what to do about it."""
    from modak_ansible.stages.job import LIVING
    from modak_ansible.target.files import read_json

    record = read_json(folder / "state.json") or {}
    job = record.get("job", {})
    if job.get("job_id") and not record.get("undeployed"):
        if job.get("state") not in LIVING:
            return f"Job {job['job_id']} had ended before. To go on: {again}"
        return f"Job {job['job_id']} goes on. To follow it: {again}\nTo end it: modak undeploy {folder.name}"
    return f"What had begun on the target, such as a build, goes on to its end. To take it up: {again}"
