"""Several trainings of one blueprint, carried out together: for modak deploy."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from modak_ansible.deployment.status import StatusRow
    from modak_ansible.errors import ModakError
    from modak_ansible.planning.service import Planned
    from modak_ansible.store.deployment import DeploymentStore

_NUMBERS = 2  # of a training, in its line


def deploy_all(
    planned: list[Planned],
    again: str,
    *,
    wait: bool,
    as_json: bool,
    deadline: float | None = None,
    undeploys: bool = False,
) -> None:
    """Has all trainings run, and shows how each ended.

    Args:
        planned: each behind those that it comes after.
        again: the command line that goes on.
        wait: whether to stay until all have ended.
        as_json: whether to print JSON.
        deadline: when it is to end, by time.monotonic(); None for when all have ended.
        undeploys: whether all is undeployed then.

    Raises:
        TimeIsOver: the deadline came first.
        PlaybookError: it failed on the way, or a training did not complete.
        UsageError: nobody would start the trainings one after another.
    """
    from rich.console import Console

    from modak_ansible.commands.deploy.progress import StageDisplay, whose_testbed
    from modak_ansible.deployment.playbook import PlaybookError
    from modak_ansible.deployment.run import deploy
    from modak_ansible.errors import TimeIsOver

    console = Console(stderr=as_json, highlight=False)
    targets = list(dict.fromkeys(f"{each.plan.target.name}{whose_testbed(each)}" for each in planned))
    console.print(f"{planned[0].plan.name}: {len(planned)} trainings on {', '.join(targets)}")
    failure: ModakError | None = None
    changed = True
    try:
        with StageDisplay(console) as display:
            changed = bool(deploy(planned, wait=wait, deadline=deadline, listener=display).changed)
    except KeyboardInterrupt:
        console.print(_what_goes_on(planned, again), style="yellow", markup=False, soft_wrap=True)
        raise
    except TimeIsOver:
        hint = _undeployed([each.store for each in planned], console) if undeploys else _what_goes_on(planned, again)
        failure = TimeIsOver("the time limit is over", hint=hint.replace("\n", "\n  "))
    except PlaybookError as error:
        failure = error
    rows = rows_of(each.store for each in planned)
    if as_json and failure is None:
        typer.echo(json_of(rows, changed=changed))
    elif not as_json:
        print_table(console, rows)
    if failure is not None:
        raise failure
    if not changed and not as_json:
        console.print("\nNothing had to be built, staged or submitted: these plans were carried out before.")


def _undeployed(stores: list[DeploymentStore], console: Console) -> str:
    """Undeploys all after the end of the time; tells what is left."""
    from contextlib import suppress

    from modak_ansible.commands.deploy.progress import StageDisplay
    from modak_ansible.deployment.playbook import run_playbook
    from modak_ansible.deployment.run import plans_of
    from modak_ansible.errors import ModakError

    with StageDisplay(console) as display:
        with suppress(ModakError):  # what has ended before
            run_playbook("results", plans_of(stores), display)
        run_playbook("undeploy", plans_of(stores), display)
    below = stores[0].folder.parent
    return f"the jobs were cancelled and their folders on the target removed; what had ended is below {below}"


def _what_goes_on(planned: list[Planned], again: str) -> str:
    """What goes on after Ctrl-C or the end of the time, and what to do about it."""
    queued = all(each.plan.target.scheduler != "none" for each in planned)
    words = "What was submitted goes on" if queued else "What runs goes on to its end, and nothing is started after it"
    end = "To end one: modak undeploy DEPLOYMENT, as modak status names it"
    return f"{words}. To follow it, and to do the rest: {again}\n{end}"


def rows_of(stores: Iterable[DeploymentStore]) -> list[StatusRow]:
    """How trainings are by their records as these are now, in the order given."""
    from modak_ansible.deployment.status import Entry, row_of
    from modak_ansible.store.deployment import DeploymentStore

    return [row_of(Entry(DeploymentStore(store.folder))) for store in stores]


# What of a row is printed as JSON, by the names that it has there.
_AS_JSON = {
    **{name: name for name in ("training", "deployment", "digest", "job_id", "state", "exit_code", "explanation")},
    **{name: name for name in ("epochs", "accuracy", "numbers", "results")},
    "seconds": "elapsed_seconds",
}


def json_of(rows: list[StatusRow], *, changed: bool) -> str:
    """The answer for other programs."""
    trainings = [{name: row.get(field) for name, field in _AS_JSON.items()} for row in rows]
    return json.dumps({"changed": changed, "trainings": trainings}, indent=2, sort_keys=True)


def print_table(console: Console, rows: list[StatusRow]) -> None:
    """Shows how trainings are or have ended, a line each."""
    from modak_ansible.commands import tables
    from modak_ansible.model.quantities import format_seconds
    from modak_ansible.target.jobs.numbers import shown_numbers

    shown = []
    for row in rows:
        seconds = format_seconds(row["elapsed_seconds"]) if row["elapsed_seconds"] is not None else ""
        numbers = {} if row["accuracy"] is None else {"accuracy": row["accuracy"]}
        told = ", ".join(shown_numbers({**numbers, **row["numbers"]}, _NUMBERS))
        epochs = str(row["epochs"] or "")
        shown.append((row["training"], row["job_id"], row["state"], seconds, epochs, told, row["explanation"]))
    console.print()
    titles = ("training", "job", "state", "time", "epochs", "result", "")
    tables.print_table(titles, shown, wraps=(6,), console=console)
