"""modak status: what is deployed, and how it is getting on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from modak_ansible.commands import completing
from modak_ansible.commands.options import Json, without_collecting

if TYPE_CHECKING:
    from pathlib import Path

    from modak_ansible.commands.status_rows import Entry

EXAMPLES = "Example: modak status --watch; modak status mnist-pytorch-slurm --json"


def command(
    deployment: Annotated[
        str | None,
        typer.Argument(
            metavar="[DEPLOYMENT]",
            help="One deployment, or a blueprint; without it all of them.",
            autocompletion=completing.deployments,
        ),
    ] = None,
    as_json: Json = False,
    offline: Annotated[bool, typer.Option("--offline", help="Do not ask the targets.")] = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on until all jobs have ended.")] = False,
    every: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="With --watch: how soon to look again; 2 without it.")
    ] = None,
) -> None:
    """Show the deployments of this project; jobs that may still run are asked for on their targets.

    Every target is asked once for all of its jobs. With --watch it is asked again, less and less often (up to 30 s)
    while nothing changes: on a terminal the table is drawn anew, elsewhere every change is a line; with --json it is an
    object on a line of its own.
    """
    if watch:
        _watch(*_found(deployment), _pause(every), as_json=as_json, offline=offline)
        return
    _refuse(every is not None, "--every goes with --watch")
    without_collecting()
    entries, damaged = _found(deployment)
    _show(_asked(entries, damaged, offline=offline), as_json=as_json)


def _found(deployment: str | None) -> tuple[list[Entry], list[Path]]:
    from pathlib import Path

    from modak_ansible.commands.deployments import find_deployments, survey
    from modak_ansible.commands.status_rows import Entry
    from modak_ansible.project import state_folder

    known, damaged = (find_deployments(deployment), []) if deployment else survey(state_folder(Path.cwd()))
    return [Entry(each) for each in known], damaged


def _asked(entries: list[Entry], damaged: list[Path], *, offline: bool) -> list[dict[str, Any]]:
    from modak_ansible.commands.status_rows import may_live, rows_of

    if not offline and any(may_live(entry.known) for entry in entries):
        from modak_ansible.commands.status_asking import ask_targets

        ask_targets(entries)
    return rows_of(entries, damaged)


def _pause(every: float | None) -> float:
    """
    Raises:
        UsageError: it is too short for a machine that others use, too.
    """
    _refuse(every is not None and every < 1, f"--every {every} is too often", "ask at most once a second")
    return 2.0 if every is None else every


def _refuse(condition: bool, message: str, hint: str = "") -> None:
    from modak_ansible.errors import UsageError

    if condition:
        raise UsageError(message, hint=hint)


def _watch(entries: list[Entry], damaged: list[Path], every: float, *, as_json: bool, offline: bool) -> None:
    from modak_ansible.commands.status_asking import ask_targets
    from modak_ansible.commands.status_rows import rows_of
    from modak_ansible.commands.status_watch import watch_for

    _refuse(offline, "--offline asks no target, and so there is nothing to watch", "leave one of them out")
    if not entries and not damaged:
        _show([], as_json=False)
        return
    with watch_for(lambda: rows_of(entries, damaged), as_json=as_json) as shown:
        ask_targets(entries, every, shown.update)
        shown.update()


def _show(rows: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
    elif not rows:
        typer.echo("nothing was deployed from this project; modak deploy BLUEPRINT does")
        typer.echo("what a blueprint elsewhere has deployed: modak status BLUEPRINT")
    else:
        _print_table(rows)


def _print_table(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console

    from modak_ansible.commands.status_table import lines_of
    from modak_ansible.commands.status_watch import styled

    console = Console(highlight=False)
    if console.is_terminal:
        console.print(styled(lines_of(rows, console.width)), soft_wrap=True)
    else:
        typer.echo("\n".join(lines_of(rows)))
