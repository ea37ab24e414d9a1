"""modak validate: is a blueprint right?"""

from __future__ import annotations

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
from modak_ansible.errors import INVALID_BLUEPRINT
from modak_ansible.model.quantities import counted, some_of
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.store.cache import as_given
from modak_ansible.store.project import find_blueprint

EXAMPLES = "Example: modak validate mnist-pytorch-slurm -i site.yaml"

_SHOWN = 8  # trainings


@takes("blueprint", "words", "inputs", "value", "on", "nodes", "processes", "accelerators", "strict")
def command(
    asked: PlanOptions,
    as_json: Json = False,
) -> None:
    """Check a blueprint or a request, and report every mistake. Checks with tosca-parser and MODAK's own rules."""
    from modak_ansible.model.application import runs_nothing

    without_collecting()
    from modak_ansible.planning.service import check_blueprint

    path = find_blueprint(asked.blueprint)
    mistakes, warnings = Mistakes(), Mistakes()
    plans = check_blueprint(path, asked.all_inputs, mistakes, warnings)
    show_warnings(warnings)
    if as_json:
        result = {"valid": not mistakes, "mistakes": as_data(mistakes), "warnings": as_data(warnings)}
        print_json(result)
    else:
        for mistake in mistakes:
            typer.echo(as_given(str(mistake)))
        trainings = some_of([plan.training for plan in plans], _SHOWN)
        does = f"{'trains' if all(plan.application.is_training for plan in plans) else 'runs'} {trainings}"
        if all(runs_nothing(plan.application) for plan in plans):
            does = "asks only for an image, and runs nothing"
        typer.echo(counted(len(mistakes), "mistake") if mistakes else as_given(f"{path} is valid; it {does}"))
    if mistakes:
        raise typer.Exit(INVALID_BLUEPRINT)
