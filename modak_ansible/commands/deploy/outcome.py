"""How deployments get on and end, one or many: for modak deploy and modak resume."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from modak_ansible.commands.options import print_json

if TYPE_CHECKING:
    from rich.console import Console

    from modak_ansible.commands.deploy.progress import StageDisplay
    from modak_ansible.deployment.status import StatusRow
    from modak_ansible.store.deployment import DeploymentStore

_NUMBERS = 2  # of a training, in its line


def carry_out(
    stores: Sequence[DeploymentStore],
    run: Callable[[StageDisplay], int],
    interrupted: Callable[[], str],
    unchanged: str,
    *,
    is_campaign: bool,
    as_json: bool,
    warnings: object = (),
) -> None:
    """Runs something that has deployments go on, and shows how it gets on, and how they ended.

    Args:
        run: does it, and gives how many tasks changed something.
        interrupted: what is said after Ctrl-C.
        unchanged: what is said where there was nothing to do.
        is_campaign: whether each has a line of a table, or an entry of a list.

    Raises:
        TimeIsOver: it took too long.
        PlaybookError: it failed on the way, or a training did not complete.
    """
    from rich.console import Console

    from modak_ansible.commands.deploy.progress import StageDisplay, print_pairs
    from modak_ansible.deployment.playbook import PlaybookError
    from modak_ansible.deployment.searches.search_store import searches_of, shown
    from modak_ansible.errors import TimeIsOver
    from modak_ansible.stages.results import summary_lines

    console = Console(stderr=as_json, highlight=False)
    try:
        with StageDisplay(console) as display:
            changed = bool(run(display))
    except KeyboardInterrupt:
        console.print(interrupted(), style="yellow", markup=False, soft_wrap=True)
        raise
    except (TimeIsOver, PlaybookError):
        if is_campaign and not as_json:
            _print_table(console, _rows_of(stores))
        raise
    if is_campaign and as_json:
        trainings = [{name: row.get(field) for name, field in _AS_JSON.items()} for row in _rows_of(stores)]
        searched = {"searches": searches} if (searches := searches_of(stores)) else {}
        print_json({"changed": changed, "trainings": trainings, **searched}, sort_keys=True)
    elif is_campaign:
        _print_table(console, _rows_of(stores))
        for search in searches_of(stores):
            console.print(f"\n{shown(search)}", markup=False, soft_wrap=True)
    elif as_json:
        (store,) = stores
        facts = {"digest": store.plan["digest"], "deployment": store.name, "changed": changed}
        warned = {"warnings": warnings} if warnings else {}
        print_json({**facts, **store.record_now(), **warned}, sort_keys=True)
    else:
        (store,) = stores
        console.print()
        print_pairs(console, summary_lines(store.plan, store.record_now()))
    if not changed and not as_json and not any(store.is_in_doubt for store in stores):
        console.print(f"\n{unchanged}")


def _rows_of(stores: Iterable[DeploymentStore]) -> list[StatusRow]:
    """How trainings are by their records as these are now, in the order given."""
    from modak_ansible.deployment.status import StatusEntry, row_of
    from modak_ansible.store.deployment import DeploymentStore

    return [row_of(StatusEntry(DeploymentStore(store.folder))) for store in stores]


# What of a row is printed as JSON, by the names that it has there.
_AS_JSON = {
    **{name: name for name in ("training", "deployment", "digest", "job_id", "state", "exit_code", "explanation")},
    **{name: name for name in ("epochs", "accuracy", "numbers", "results")},
    "seconds": "elapsed_seconds",
}


def _print_table(console: Console, rows: list[StatusRow]) -> None:
    """Shows how trainings are or have ended, a line each."""
    from modak_ansible.commands import tables
    from modak_ansible.commands.status.table import epochs_of
    from modak_ansible.model.quantities import format_seconds
    from modak_ansible.target.jobs.numbers import shown_numbers

    cells = []
    for row in rows:
        seconds = format_seconds(row["elapsed_seconds"]) if row["elapsed_seconds"] is not None else ""
        numbers = {} if row["accuracy"] is None else {"accuracy": row["accuracy"]}
        result = ", ".join(shown_numbers({**numbers, **row["numbers"]}, _NUMBERS))
        remarks = ", ".join(filter(None, [*row["remarks"], row["explanation"]]))
        cells.append((row["training"], row["job_id"], row["state"], seconds, epochs_of(row), result, remarks))
    console.print()
    titles = ("training", "job", "state", "time", "epochs", "result", "")
    tables.print_table(titles, cells, wraps=(6,), console=console)
