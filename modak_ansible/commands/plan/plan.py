"""modak plan: what would happen?"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from modak_ansible.commands.options import (
    Json,
    PlanOptions,
    as_data,
    print_json,
    show_warnings,
    takes,
    without_collecting,
)
from modak_ansible.reading.blueprint.forms.mistakes import NOT_KEPT
from modak_ansible.store.project import find_blueprint

if TYPE_CHECKING:
    from modak_ansible.planning.service import Planned

EXAMPLES = "Example: modak plan mnist-pytorch-slurm --input epochs=4 --explain"

# Where the output is no terminal, which would say how wide it is.
_WIDTH = 100


@takes("blueprint", "words", "nodes", "processes", "accelerators", "inputs", "value", "training", "on", "strict")
def command(
    asked: PlanOptions,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write the job script, the definitions and the plan to a new folder."),
    ] = None,
    as_json: Json = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show every option, its reason, and where each number comes from.")
    ] = False,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", help="After its job has run: plot the prediction against the measurement, to a file."),
    ] = None,
    texts: Annotated[bool, typer.Option("--texts", help="Show the image's definitions and the job script.")] = False,
) -> None:
    """Show what a deployment would do, how fast, and why. Changes nothing and needs no network."""
    without_collecting()
    from modak_ansible.planning.service import plan_trainings, the_one, those_named

    path, training = find_blueprint(asked.blueprint), asked.training
    trainings = those_named(path, plan_trainings(path, asked.all_inputs, training), training)
    # the plan itself has the preferences that it does not keep
    warnings = [warning for warning in trainings[0].warnings if warning.rule != NOT_KEPT]
    if len(trainings) > 1 and not (explain or texts or output or plot):
        show_warnings(warnings)
        _show_all(trainings, as_json=as_json)
        return
    planned = the_one(path, trainings, training)
    plan = planned.plan
    show_warnings(warnings)
    if output is not None:
        from modak_ansible.commands.plan.output import write_output

        for path in write_output(plan, output):
            typer.echo(f"wrote {path}", err=True)
    if plot is not None:
        from modak_ansible.commands.compare.prediction import draw

        for line in [*draw(plan, planned.state, plot), f"wrote {plot}"]:
            typer.echo(line, err=as_json)
    if as_json:
        warned = {"warnings": as_data(warnings)} if warnings else {}
        print_json({**plan.model_dump(mode="json"), **warned})
        return
    from modak_ansible.commands.plan.table import plan_table
    from modak_ansible.planning.costs.energy import predicted_energy

    width, energy = _width(), predicted_energy(plan, planned.state)
    typer.echo(_bold(plan_table(plan, width, with_rest=not explain, energy=energy)))
    if planned.search:
        typer.echo(f"\nsearch: {planned.search.words}; the plan above uses the usual values")
    if explain:
        from modak_ansible.commands.plan.explanation import plan_story
        from modak_ansible.planning.service import basis_of

        typer.echo(plan_story(plan, width, basis_of(planned.state)))
    if texts:
        from modak_ansible.commands.plan.explanation import plan_texts

        typer.echo(plan_texts(plan))


def _show_all(trainings: list[Planned], *, as_json: bool) -> None:
    if as_json:
        print_json([planned.plan.model_dump(mode="json") for planned in trainings])
        return
    from modak_ansible.commands.plan.table import trainings_table

    typer.echo(trainings_table([planned.plan for planned in trainings], _width()))
    for planned in trainings:
        if planned.search:
            typer.echo(f"\nsearch {planned.node}: {planned.search.words}")


def _width() -> int:
    return min(shutil.get_terminal_size().columns, 120) if sys.stdout.isatty() else _WIDTH


def _bold(text: str) -> str:
    """The first line and the chosen candidate in bold, on terminals."""
    if not sys.stdout.isatty():
        return text
    first, *lines = text.split("\n")
    styled = [typer.style(line, bold=True) if line.startswith("* ") else line for line in lines]
    return "\n".join([typer.style(first, bold=True), *styled])
