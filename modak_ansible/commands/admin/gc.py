"""modak gc: removes what nobody uses, on the targets and here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from modak_ansible.commands.options import NOTHING_ASKED, Json, PlanOptions, print_json, seconds_in, takes
from modak_ansible.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from modak_ansible.commands.admin.garbage import Collection

EXAMPLES = "Example: modak gc --dry-run, and then: modak gc --older-than 7d --yes"


@takes("inputs", "value", "on")
def command(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TARGET...]",
            help="Targets by name or address, or blueprints. Default: all that this project deployed to.",
        ),
    ] = None,
    asked: PlanOptions = NOTHING_ASKED,
    older_than: Annotated[
        str, typer.Option(metavar="AGE", help="Keep what was used within this time: 12h, 7d, 2w.")
    ] = "1d",
    deployments: Annotated[
        bool,
        typer.Option(
            "--deployments", help="Also remove this project's folders of undeployed deployments, with their results."
        ),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be removed.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Remove without asking.")] = False,
    as_json: Json = False,
) -> None:
    """Remove images, datasets and leftover files that are unused.

    What is in use is decided on each target, from all deployments there, whoever owns them. What a deployment in
    progress has found or made stays, and so does anything that is being made.
    """
    from rich.console import Console

    from modak_ansible.commands.admin.garbage import Collection
    from modak_ansible.commands.admin.garbage_text import print_garbage, print_removed

    age = seconds_in("--older-than", older_than)
    collection = Collection.of_project(Path.cwd(), targets or [], asked.all_inputs, age, here=deployments)
    _check_answerable(dry_run=dry_run, yes=yes, as_json=as_json)
    console = Console(stderr=as_json, highlight=False)
    with console.status("looking"):
        collection.survey()
    print_garbage(console, collection)
    if not dry_run and collection.garbage and (yes or typer.confirm("Remove it?")):
        collection.remove()
        print_removed(console, collection)
    if as_json:
        print_json(collection.as_json())
    _end(collection, console)


def _check_answerable(*, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Without a terminal nobody can be asked.

    Raises:
        UsageError: nothing says whether anything may be removed.
    """
    import sys

    if dry_run and yes:
        raise UsageError("--dry-run cannot be combined with --yes", hint="leave one of them out")
    if not dry_run and not yes and (as_json or not sys.stdin.isatty()):
        raise UsageError(
            "there is no terminal to confirm this at", hint="--dry-run shows what would be removed, --yes removes it"
        )


def _end(collection: Collection, console: Console) -> None:
    """A target that could not be asked is told of, whatever became of the others."""
    for problem in collection.problems:
        console.print(f"error: {problem}", style="red", markup=False, soft_wrap=True)
    if collection.problems:
        raise typer.Exit(collection.problems[0].exit_code)
