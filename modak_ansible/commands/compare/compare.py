"""modak compare: which of several trainings went best, and by what they differ."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from modak_ansible.commands.jobs.operate import EACH, Only, deployment_argument
from modak_ansible.commands.options import Json

if TYPE_CHECKING:
    from modak_ansible.deployment.comparison import Comparison

EXAMPLES = "Example: modak compare mine --by val_loss --plot curves.svg; or: modak compare mine-a1b2 mine-c3d4"

# Of remarks, of trainings on a terminal, and of its columns for a picture, so many are shown or taken.
_REMARKS, _ROWS, _WIDTH = 5, 40, 120


def command(
    deployments: Annotated[
        list[str],
        deployment_argument(
            f"Deployments as modak status shows them, {EACH}, with all points of its sweeps.", "DEPLOYMENT..."
        ),
    ],
    training: Only = None,
    by: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The number to compare by. Default: a loss."),
    ] = None,
    highest: Annotated[
        bool | None,
        typer.Option("--highest/--lowest", help="Which is best. Default: judged by the name."),
    ] = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Do not contact the targets; compare what is here.")
    ] = False,
    as_json: Json = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print comma-separated values.")] = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Plot the curves to this file: .svg, .png or .pdf.")
    ] = None,
) -> None:
    """Compare trainings by one of the numbers that they wrote. The best come first, with their settings.

    The numbers are those of modak logs DEPLOYMENT metrics. On a terminal the curves are drawn below the table: as a
    picture if it supports sixels, otherwise in braille.
    """
    from modak_ansible.commands.compare import text as texts
    from modak_ansible.deployment.comparison import compare
    from modak_ansible.deployment.fetching import fetch_results
    from modak_ansible.errors import UsageError
    from modak_ansible.store.deployments import find_all

    if as_json and as_csv:
        raise UsageError("--json cannot be combined with --csv", hint="leave one of them out")
    if plot:  # before results are fetched, which may take long
        from modak_ansible.commands.compare.picture import check_name

        check_name(plot)
    stores = find_all(deployments, training)
    comparison = compare(stores, by, rising=highest, fetch=None if offline else fetch_results)
    if plot:
        from modak_ansible.commands.compare.picture import draw

        draw(comparison, plot)
    for remark in comparison.remarks[:_REMARKS]:
        typer.echo(f"note: {remark}", err=True)
    if len(comparison.remarks) > _REMARKS:
        typer.echo(f"note: {len(comparison.remarks) - _REMARKS} more, which --json has", err=True)
    if as_json:
        typer.echo(texts.as_json(comparison))
    elif as_csv:
        typer.echo(texts.as_csv(comparison), nl=False)
    else:
        _print(comparison)


def _print(comparison: Comparison) -> None:
    from rich.console import Console

    from modak_ansible.commands.compare import sixel
    from modak_ansible.commands.compare import text as texts

    console = Console(highlight=False)
    width = console.width if console.is_terminal else None
    lines = texts.table(comparison, width)
    visible_lines = lines[: _ROWS + 1] if console.is_terminal else lines  # what is best stays in sight, above its curve
    for index, line in enumerate(visible_lines):
        console.print(line, style="bold" if index < 2 else None, markup=False, soft_wrap=True)
    if len(visible_lines) < len(lines):
        typer.echo(f"{len(lines) - len(visible_lines)} more, which a file or a pipe shows, as with | less")
    width = min(console.width, _WIDTH)
    curves = texts.curves(comparison, width) if console.is_terminal else []
    if curves and sixel.is_shown():
        from modak_ansible.commands.compare.picture import picture_of

        sys.stdout.write(sixel.encoded(picture_of(comparison, sixel.pixels_across(width))) + "\n")
        return
    for text in curves:
        console.print(text, soft_wrap=True)
