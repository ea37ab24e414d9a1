"""modak plan: what would happen?"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
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
from modak_ansible.errors import Mistake, UsageError
from modak_ansible.reading.blueprint.forms.mistakes import NOT_KEPT
from modak_ansible.store.project import find_blueprint

if TYPE_CHECKING:
    from modak_ansible.model.plan import Plan

EXAMPLES = "Example: modak plan mnist-pytorch-slurm --input epochs=4 --explain"

# Where the output is no terminal, which would say how wide it is.
_WIDTH = 100


@takes("blueprint", "words", "nodes", "processes", "inputs", "value", "training", "on", "strict")
def command(
    asked: PlanOptions,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="A new folder for the job script, the definitions and the plan."),
    ] = None,
    as_json: Json = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show every option, its reason, and where each number comes from.")
    ] = False,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", help="After its job ran: draw what was predicted against what was measured, to a file."),
    ] = None,
    texts: Annotated[
        bool, typer.Option("--texts", help="Show the definitions of the image and the job script.")
    ] = False,
) -> None:
    """Show what a deployment would do, how fast it would be, and why; changes nothing and needs no network."""
    without_collecting()
    from modak_ansible.planning.service import plan_trainings, the_one, those_named

    path, training = find_blueprint(asked.blueprint), asked.training
    found = those_named(path, plan_trainings(path, asked.given, training), training)
    # the plan itself has the wishes that it does not keep
    warnings = [warning for warning in found[0].warnings if warning.rule != NOT_KEPT]
    if len(found) > 1 and as_json and not (explain or texts or output or plot):
        show_warnings(warnings)
        print_json([planned.plan.model_dump(mode="json") for planned in found])
        return
    if len(found) > 1 and not (as_json or explain or texts or output or plot):
        from modak_ansible.commands.plan.table import trainings_table

        show_warnings(warnings)
        typer.echo(trainings_table([planned.plan for planned in found], _width()))
        for each in found:
            if each.search:
                typer.echo(f"\nsearch {each.node}: {each.search.words}")
        return
    planned = the_one(path, found, training)
    plan = planned.plan
    show_warnings(warnings)
    if output is not None:
        for path in write_output(plan, output):
            typer.echo(f"wrote {path}", err=True)
    if plot is not None:
        from modak_ansible.commands.plan.picture import draw

        for line in [*draw(plan, planned.state, plot), f"wrote {plot}"]:
            typer.echo(line, err=as_json)
    if as_json:
        print_plan(plan, warnings)
        return
    from modak_ansible.commands.plan.table import plan_table
    from modak_ansible.planning.energy import predicted_energy

    width, energy = _width(), predicted_energy(plan, planned.state)
    typer.echo(_bold(plan_table(plan, width, with_rest=not explain, energy=energy)))
    if planned.search:
        typer.echo(f"\nsearch: {planned.search.words}; what stands above has the usual values")
    if explain:
        from modak_ansible.commands.plan.explanation import plan_story
        from modak_ansible.planning.service import basis_of

        typer.echo(plan_story(plan, width, basis_of(planned.state)))
    if texts:
        from modak_ansible.commands.plan.explanation import plan_texts

        typer.echo(plan_texts(plan))


def print_plan(plan: Plan, warnings: Sequence[Mistake]) -> None:
    """A plan as JSON, with the warnings of its request where there are any."""
    warned = {"warnings": as_data(warnings)} if warnings else {}
    print_json({**plan.model_dump(mode="json"), **warned})


def _width() -> int:
    return min(shutil.get_terminal_size().columns, 120) if sys.stdout.isatty() else _WIDTH


def _bold(text: str) -> str:
    """The first line and the chosen candidate in bold, on terminals."""
    if not sys.stdout.isatty():
        return text
    first, *lines = text.split("\n")
    shown = [typer.style(line, bold=True) if line.startswith("* ") else line for line in lines]
    return "\n".join([typer.style(first, bold=True), *shown])


# --- its texts as files


def write_output(plan: Plan, folder: Path) -> list[Path]:
    """Writes the files of a plan into a folder that is new or empty, all of them or none; gives their paths.

    A folder that holds the very same files stays as it is.

    Raises:
        UsageError: the folder holds something else.
        OSError: it cannot be written.
    """
    texts = output_files(plan)
    paths = [folder / name for name in texts]
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is there, and no folder", hint="give another folder")
    if folder.is_dir() and any(folder.iterdir()):
        if {path.name: _read(path) for path in folder.iterdir()} == texts:
            return paths
        raise UsageError(f"{folder} holds other files, which are left alone", hint="give a new folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        for name, text in texts.items():
            (part / name).write_text(text, encoding="utf-8")
        (part / "job.sh").chmod(0o755)
        part.chmod(0o777 & ~_umask())
        os.replace(part, folder)  # noqa: PTH105 - an empty folder is replaced, too
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return paths


def output_files(plan: Plan) -> dict[str, str]:
    """The texts by their files' names: job.sh, plan.json, and one definition a layer of the image, from the base up."""
    endings = {"venv": "sh"}
    layers = [layer for layer in plan.image.layers if layer.definition]
    names = [
        f"{number}-{_plain(layer.name)}.{endings.get(layer.kind, 'def')}"
        for number, layer in enumerate(layers, start=1)
    ]
    return {
        "plan.json": plan.model_dump_json(indent=2) + "\n",
        "job.sh": plan.job.script,
        **{name: layer.definition for name, layer in zip(names, layers, strict=True)},
    }


def _plain(name: str) -> str:
    return "".join(each if each.isalnum() or each in "._-" else "-" for each in name).strip("-.") or "image"


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
