"""modak model: fits the performance model to records, and shows what it knows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from modak_ansible.commands.options import Json

app = typer.Typer(
    name="model",
    help="The performance model: fits it to records, shows it, explains and checks its predictions.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Records = Annotated[
    list[Path] | None,
    typer.Option("--records", metavar="FILE", help="A file of records; those that ship and the project's otherwise."),
]
ModelFile = Annotated[
    Path | None, typer.Option("--model", metavar="FILE", help="The project's, or the one that ships, otherwise.")
]


@app.command(epilog="Example: modak model fit --records measured.jsonl --output model.json")
def fit(
    records: Records = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The model to write; .modak/model.json otherwise."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Fit the model to every run that was measured: those that ship, the project's suites, and its jobs.

    Only runs that were simply measured count. The file is written whole or not at all.
    """
    import json

    from modak_ansible.measuring.refitting import MODEL, files_of_records, fit_files
    from modak_ansible.performance.stored import write_stored
    from modak_ansible.project import state_folder

    state = state_folder(Path.cwd())
    files = records or files_of_records(state)
    stored = fit_files(files)
    path = output or state / MODEL
    write_stored(stored, path)
    if as_json:
        about = {"model": str(path), "records": stored.records, "records_digest": stored.records_digest}
        typer.echo(json.dumps(about, indent=2))
    else:
        workloads = ", ".join(stored.workloads)
        typer.echo(f"{path}: fitted to {stored.records} measured trainings ({workloads}) of {len(files)} files")
