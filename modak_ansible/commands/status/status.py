"""modak status: what is deployed, and how it is getting on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from modak_ansible.commands.jobs.operate import Only, deployment_argument
from modak_ansible.commands.options import Json, print_json, without_collecting
from modak_ansible.errors import UsageError
from modak_ansible.store.project import state_folder

if TYPE_CHECKING:
    from modak_ansible.deployment.status import StatusEntry, StatusRow

EXAMPLES = "Example: modak status --watch; modak status mnist-pytorch-slurm --json"


def command(
    deployment: Annotated[
        str | None, deployment_argument("One deployment, or a blueprint. Default: all.", "[DEPLOYMENT]")
    ] = None,
    training: Only = None,
    as_json: Json = False,
    offline: Annotated[bool, typer.Option("--offline", help="Do not contact the targets.")] = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Keep watching until all jobs have ended.")] = False,
    every: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="With --watch: how often to look. Default: 2.")
    ] = None,
) -> None:
    """Show the deployments of this project. Targets are asked about jobs that may still run.

    Every target is asked once for all of its jobs. With --watch it is asked again, less and less often (up to every 30
    s) while nothing changes. On a terminal the table is redrawn; elsewhere every change is a line, with --json an
    object per line.
    """
    if watch:
        _watch(_entries(deployment, training), _pause(every), as_json=as_json, offline=offline)
        return
    _refuse(every is not None, "--every needs --watch")
    without_collecting()
    _ask_and_show(_entries(deployment, training), as_json=as_json, offline=offline)


def _entries(deployment: str | None, training: str | None) -> list[StatusEntry]:
    from modak_ansible.deployment.status import StatusEntry
    from modak_ansible.store.deployments import find_deployments, find_trainings, glance, not_superseded

    _refuse(bool(training and not deployment), "--training needs a blueprint", "modak status BLUEPRINT")
    if deployment and training:
        return [StatusEntry(store) for store in find_trainings(deployment, training)]
    stores = find_deployments(deployment) if deployment else glance(state_folder(Path.cwd()))
    return [StatusEntry(store) for store in not_superseded(stores)]


def _ask_and_show(entries: list[StatusEntry], *, as_json: bool, offline: bool) -> None:
    from modak_ansible.deployment.status import may_tell, rows_of

    open_ones = [] if offline else [entry for entry in entries if may_tell(entry.store)]
    is_shown = False

    def show() -> None:
        nonlocal is_shown
        if not is_shown:
            _show(rows_of(entries), entries, as_json=as_json)
            is_shown = True

    def heard() -> None:
        if all(entry.answer or entry.problem for entry in open_ones):
            show()  # while what is new is noted

    if open_ones:
        from modak_ansible.deployment.status_query import ask_targets

        ask_targets(entries, heard=heard, meanwhile=lambda: [entry.store.plan for entry in entries])
    show()


def _pause(every: float | None) -> float:
    """
    Raises:
        UsageError: it is too short for a machine that others use, too.
    """
    _refuse(every is not None and every < 1, f"--every {every} is too often", "at most once a second is possible")
    return 2.0 if every is None else every


def _refuse(condition: bool, message: str, hint: str = "") -> None:
    if condition:
        raise UsageError(message, hint=hint)


def _watch(entries: list[StatusEntry], every: float, *, as_json: bool, offline: bool) -> None:
    from modak_ansible.commands.status.watch import watch_for
    from modak_ansible.deployment.status import rows_of
    from modak_ansible.deployment.status_query import ask_targets

    _refuse(offline, "--offline contacts no target, so there is nothing to watch", "leave one of them out")
    if not entries:
        if not as_json:
            _show([], [], as_json=False)
        return
    cached: dict[str, list[str]] = {}

    def below(rows: list[StatusRow]) -> list[str]:
        states = json.dumps([(row["deployment"], row["state"]) for row in rows])
        if states not in cached:  # all records of the project tell how far forecasts hold
            cached.clear()
            cached[states] = _lines_below(rows, entries)
        return cached[states]

    with watch_for(lambda: rows_of(entries), below, as_json=as_json) as update:
        ask_targets(entries, every, update)
        update()


def _show(rows: list[StatusRow], entries: list[StatusEntry], *, as_json: bool) -> None:
    if as_json:
        print_json(rows)
    elif not rows:
        typer.echo("nothing was deployed from this project; modak deploy BLUEPRINT does")
        typer.echo("what a blueprint elsewhere has deployed: modak status BLUEPRINT")
    else:
        _print_table(rows, _lines_below(rows, entries))


def _lines_below(rows: list[StatusRow], entries: list[StatusEntry]) -> list[str]:
    """What stands below the table: how searches are; of a deployment alone when it was expected to begin; and how far
    forecasts hold for the machines of jobs that wait."""
    from modak_ansible.deployment.status import starts_of
    from modak_ansible.store.deployments import glance
    from modak_ansible.store.forecasts import accuracy_of, forecasts_of, machine_of

    lines = []
    if searches := {json.dumps(search): search for row in rows if (search := row.get("search"))}:
        from modak_ansible.deployment.searches.search_store import shown

        lines += [shown(search) for search in searches.values()]
    whole = {row["deployment"] for row in rows if "digest" in row}
    starts = [(start, entry.store.plan) for entry in entries if entry.name in whole for start in starts_of(entry)]
    lines += [f"start {start.words}" for start, _ in starts if len(entries) == 1 and start.is_news]
    machines = {machine_of(plan): plan["target"]["name"] for start, plan in starts if start.began is None}
    if machines:
        state = entries[0].store.folder.parent.parent
        forecasts = [forecast for store in glance(state) for forecast in forecasts_of(store.record)]
        lines += [
            words for machine, target in sorted(machines.items()) if (words := accuracy_of(forecasts, machine, target))
        ]
    return lines


def _print_table(rows: list[StatusRow], below: list[str]) -> None:
    from rich.console import Console

    from modak_ansible.commands.status.table import lines_of
    from modak_ansible.commands.status.watch import styled, wrapped

    console = Console(highlight=False)
    if console.is_terminal:
        lines = [*lines_of(rows, console.width), *wrapped(below, console.width)]
        console.print(styled(lines), soft_wrap=True)
    else:
        typer.echo("\n".join([*lines_of(rows), *below]))
