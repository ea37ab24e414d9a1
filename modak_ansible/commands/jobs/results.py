"""modak results: brings back what a job has left, and lists it."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from modak_ansible.commands.jobs.operate import Newest, Only
from modak_ansible.commands.options import Json, print_json

if TYPE_CHECKING:
    from modak_ansible.deployment.results import Results

EXAMPLES = "Example: modak results mnist-pytorch-slurm --to run-7"


def command(
    deployment: Newest = None,
    training: Only = None,
    to: Annotated[Path | None, typer.Option(metavar="DIR", help="Also copy them to this folder.")] = None,
    also: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Also fetch these files of the job, which outputs does not name."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Fetch a deployment's metrics, logs and outputs. Lists them, whatever has become of the job.

    What is already here is not fetched again, and what arrives is compared with its checksum. A job that is still
    running gives what it has written so far. What earlier attempts left is below attempts/.
    """
    from modak_ansible.deployment.results import results_of
    from modak_ansible.store.deployments import find_trainings

    all_results = results_of(find_trainings(deployment, training), to, also or ())
    if as_json:
        facts = [{"training": results.training, **_facts(results)} for results in all_results]
        print_json(facts if len(all_results) > 1 else _facts(all_results[0]))
    elif len(all_results) > 1:
        _print_all(all_results)
    else:
        _print(all_results[0])


def _facts(results: Results) -> dict[str, object]:
    return {
        "deployment": results.deployment,
        "state": results.state,
        "folder": str(results.folder),
        "files": [asdict(file) for file in results.files],
        "missing": list(results.missing),
        "unnamed": list(results.unnamed),
        "left": results.left,
        "joules": results.energy["joules"] if results.energy else None,
        "energy_source": results.energy["source"] if results.energy else "",
    }


def _print_all(all_results: list[Results]) -> None:
    """A line for each, and below which folder all of them lie."""
    from modak_ansible.model.quantities import counted

    folder, lines = os.path.commonpath([results.folder for results in all_results]), []
    for results in all_results:
        missing = f"; no file matches {', '.join(results.missing)}" if results.missing else ""
        lines.append(
            (
                results.training,
                results.state,
                f"{counted(len(results.files), 'file')}{missing}",
                os.path.relpath(results.folder, folder),
            )
        )
    widths = [max(len(line[column]) for line in lines) for column in range(3)]
    for line in lines:
        typer.echo("  ".join([*(f"{word:<{width}}" for word, width in zip(line, widths, strict=False)), line[3]]))
    typer.echo(f"\nbelow {folder}")


def _print(results: Results) -> None:
    from modak_ansible.model.quantities import counted, format_joules, format_size
    from modak_ansible.stages.results import words_of_left

    if not results.files:
        typer.echo(
            "no results had been fetched" if results.is_gone else "there are no results: no job has written anything"
        )
        return
    width = max(len(format_size(file.size)) for file in results.files)
    for file in results.files:
        typer.echo(f"{format_size(file.size):>{width}}  {file.path}")
    typer.echo(f"\n{counted(len(results.files), 'file')} in {results.folder}")
    if results.energy:
        typer.echo(f"energy {format_joules(results.energy['joules'])}, by {results.energy['source']}")
    for words in results.starts:
        typer.echo(f"start {words}")
    if results.missing:
        typer.echo(f"no file matches {', '.join(results.missing)}")
    if results.unnamed:
        names = ", ".join(results.unnamed)
        typer.echo(f"left on the target, as their names are not UTF-8: {names}")
    if results.left:
        typer.echo(f"{words_of_left(results.left)}: --also PATTERN fetches them")
