"""modak top: what a running job uses of its nodes."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import typer

from modak_ansible.commands.jobs.operate import Newest, Only
from modak_ansible.commands.options import Json, print_json
from modak_ansible.errors import ModakError, TargetUnreachable, UsageError

if TYPE_CHECKING:
    from modak_ansible.deployment.status import StatusEntry
    from modak_ansible.target.jobs.query import NodeUsage, Usage

EXAMPLES = "Example: modak top mnist-pytorch-slurm; modak top mnist-pytorch-slurm --once --json"

_TITLES = ("node", "rank", "cpu", "cores", "memory", "of", "processes", "reads", "writes", "gpu", "gpu memory", "power")
# By the job's state, what to do; of one that has ended there is more to see than what it uses.
_HINTS = {
    "NONE": "modak resume {name} submits it",
    "QUEUED": "modak status {name} says when it starts; modak top {name} shows it when it runs",
    "HELD": "modak release {name} lets it start",
    "SUSPENDED": "it uses no processor until it goes on; modak status {name} says when it does",
    "UNKNOWN": "try again when the scheduler answers",
    "DAMAGED": "modak status {name} says what is wrong",
}
_ENDED = "modak results {name} fetches what it left, and modak logs {name} shows what it wrote"


def command(
    deployment: Newest = None,
    training: Only = None,
    once: Annotated[bool, typer.Option("--once", help="Show it once instead of until it ends.")] = False,
    as_json: Json = False,
    every: Annotated[float, typer.Option(metavar="SECONDS", min=1, help="How often to look.")] = 2.0,
) -> None:
    """Show what a running job uses on its nodes, until it ends. The numbers are the nodes' own counters.

    There is one row per node, or per rank for a training in several processes. 100 % is one core; memory shared by
    processes is counted once; reads and writes are those that reach disks. Beside the memory is the job's limit, if its
    node has one. Accelerators are the NVIDIA ones that the job's processes use.

    Each look takes a second on each of the job's nodes: under Slurm in a step of the job (srun --overlap), under Torque
    by ssh from the front end. On a terminal the table is redrawn, elsewhere it is printed again; with --json each look
    is an object, without --once one per line.
    """
    from modak_ansible.deployment.status_query import ask_targets

    entry = find_entry(deployment, training)
    if once:
        ask_targets([entry], inside="usage")
        _check(entry)
        if as_json:
            print_json(_row(entry))
        else:
            typer.echo(_text(entry))
        return
    _watch(entry, every, as_json=as_json)


def find_entry(deployment: str | None, training: str | None) -> StatusEntry:
    """The one deployment that is meant, of several the one whose job may run; without a name the newest here.

    Raises:
        UsageError: there is none, or there are several.
        ModakError: its job runs no more.
    """
    from modak_ansible.deployment.status import StatusEntry, may_live
    from modak_ansible.store.deployments import find_trainings

    stores = find_trainings(deployment, training)
    stores = [store for store in stores if may_live(store)] or stores
    if len(stores) > 1:
        names = ", ".join(store.name for store in stores)
        raise UsageError(
            f"{deployment} has {len(stores)} deployments, and only one can be shown", hint=f"say which: {names}"
        )
    entry = StatusEntry(stores[0])
    if not may_live(entry.store):
        raise _refusal(entry)
    return entry


def _watch(entry: StatusEntry, every: float, *, as_json: bool) -> None:
    """Shows it until the job runs no more.

    Raises:
        ModakError: it does not run, or nothing is known of what it uses.
    """
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from modak_ansible.deployment.status_query import ask_targets

    console = Console(highlight=False)
    live = Live(console=console, auto_refresh=False) if console.is_terminal and not as_json else None
    answers, last_problem = 0, ""

    def heard() -> None:
        nonlocal answers, last_problem
        try:
            _check(entry)
        except ModakError as error:
            if entry.problem not in ("", last_problem):
                typer.echo(f"note: {error.message}", err=True)
            last_problem = entry.problem
            return
        answers += 1
        if live:
            live.update(Text(_text(entry), no_wrap=True, overflow="ellipsis"), refresh=True)
        else:
            print(json.dumps(_row(entry)) if as_json else _text(entry), flush=True)  # noqa: T201

    with live or nullcontext():
        ask_targets([entry], every, heard, inside="usage")
    if not answers:
        _check(entry)
    typer.echo(_words(entry), err=True)


def _words(entry: StatusEntry) -> str:
    from modak_ansible.target.jobs.situation import Situation

    return f"{entry.name}: {Situation.of(entry.job).words}"


def _refusal(entry: StatusEntry) -> ModakError:
    """The error for a job that does not run."""
    if entry.store.record.get("undeployed"):
        return ModakError(f"{entry.name} was undeployed", hint="modak status shows what runs")
    return ModakError(_words(entry), hint=_HINTS.get(entry.state, _ENDED).format(name=entry.name))


def check_runs(entry: StatusEntry) -> None:
    """
    Raises:
        ModakError: its target does not answer, or the job does not run.
    """
    if entry.problem:
        raise TargetUnreachable(entry.problem)
    if entry.state != "RUNNING":
        raise _refusal(entry)


def _check(entry: StatusEntry) -> None:
    """
    Raises:
        ModakError: the job does not run, or none of its nodes says what it uses.
    """
    check_runs(entry)
    usage = entry.answer["usage"] if entry.answer else []
    if not any("cpu_percent" in node for node in usage):
        problem = next((node["problem"] for node in usage if node.get("problem")), "its nodes do not report")
        hint = f"modak logs {entry.name} shows what it writes, without a login to its nodes"
        raise ModakError(f"{_words(entry)}, and what it uses cannot be seen: {problem}", hint=hint)


def _row(entry: StatusEntry) -> dict[str, Any]:
    answer = entry.answer
    return {
        "deployment": entry.name,
        "job_id": entry.job.get("job_id", ""),
        "state": entry.job.get("state", ""),
        "elapsed_seconds": answer["elapsed"] if answer else None,
        "nodes": answer["usage"] if answer else [],
    }


def _text(entry: StatusEntry) -> str:
    return "\n".join([_words(entry), *table(entry.answer["usage"] if entry.answer else [])])


def table(nodes: list[NodeUsage]) -> list[str]:
    """The heading, a row a node or a rank, and the nodes' problems; columns of which nothing is known are left out."""
    rows = []
    for node in nodes:
        if "cpu_percent" in node:
            parts = [(str(rank["rank"]), rank) for rank in node["ranks"]] or [("", node)]
            rows += [_cells(node, rank, part, is_first=place == 0) for place, (rank, part) in enumerate(parts)]
    columns = [column for column in range(len(_TITLES)) if any(row[column] for row in rows)]
    lines = [[_TITLES[column] for column in columns], *([row[column] for column in columns] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text_lines = [
        "  ".join(f"{cell:<{width}}" if not place else f"{cell:>{width}}" for place, (cell, width) in enumerate(cells))
        for cells in (list(zip(line, widths, strict=True)) for line in lines)
    ]
    problems = [f"note: {node.get('node')}: {node['problem']}" for node in nodes if node.get("problem")]
    return [*(text_lines if rows else []), *problems]


def _cells(node: NodeUsage, rank: str, part: Usage, *, is_first: bool) -> list[str]:
    """A row; what holds for the whole node stands in its first one alone."""
    from modak_ansible.model.quantities import format_size

    gpus = part["gpus"]
    limit = node.get("memory_limit_bytes") if is_first else None

    def of_each(name: str, show: Callable[[float], str]) -> str:
        is_known = [gpu[name] is not None for gpu in gpus]
        return ",".join(show(gpu[name]) if gpu[name] is not None else "?" for gpu in gpus) if any(is_known) else ""

    cells = [
        str(node["node"]),
        rank,
        f"{part['cpu_percent']:.0f}%",
        str(node["cores"]) if is_first else "",
        format_size(part["memory_bytes"]),
        "" if limit is None else format_size(limit),
        str(part["processes"]),
        f"{format_size(part['read_bytes_per_second'])}/s",
        f"{format_size(part['written_bytes_per_second'])}/s",
        of_each("percent", lambda value: f"{value:.0f}%"),
        of_each("memory_bytes", lambda value: format_size(int(value))),
        of_each("watts", lambda value: f"{value:.0f} W"),
    ]
    # what a node says may hold anything, and must not move the cursor
    return ["".join(letter if letter.isprintable() else " " for letter in cell) for cell in cells]
