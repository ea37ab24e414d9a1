"""modak bench report: what do the records say?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from modak_ansible.commands.options import Json, check_file, print_json

EXAMPLES = "Example: modak bench report benchmarks/records/*.jsonl --output report.html --figures figures"


def command(
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="FILE...", help="Record files. Default: the shipped ones.")
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path("report.html"),
    figures: Annotated[Path | None, typer.Option(help="A folder for the figures, as SVG.")] = None,
    open_it: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = False,
    as_json: Json = False,
) -> None:
    """Make one page of records: the paper's figures beside the paper's numbers, and which findings hold."""
    from modak_ansible.measuring.refitting import files_of_records
    from modak_ansible.measuring.report.making import make_report
    from modak_ansible.model.quantities import counted

    check_file("--output", output, "report.html")
    report = make_report(files or files_of_records(None), output, figures)
    if as_json:
        figures_as_json = [str(figure) for figure in report.figures]
        print_json({"page": str(output), "records": report.records, "figures": figures_as_json})
    else:
        drawn = f", and {counted(len(report.figures), 'figure')} in {figures}" if report.figures else ""
        typer.echo(f"{output}: {counted(report.records, 'record')}{drawn}")
    if open_it:
        typer.launch(str(output.resolve()))
