"""modak logs: what a job, its training, the build of its image or the stages of its deployment have written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from modak_ansible.commands.jobs.operate import Newest, Only
from modak_ansible.commands.options import Json, print_json
from modak_ansible.errors import UsageError, nearest

if TYPE_CHECKING:
    from modak_ansible.store.deployment import DeploymentStore

EXAMPLES = "Example: modak logs -f; or: modak logs mnist-pytorch-slurm build --since 10m"

_KINDS = ("build", "stage", "job", "metrics")
_FILES = {"output": "output.log", "error": "error.log", "scheduler": "scheduler.log"}


def command(
    deployment: Newest = None,
    kind: Annotated[
        str | None,
        typer.Argument(
            metavar="[build|stage|job|metrics]",
            help="The image build's output, what the stages did and when, the job's output (the default), or "
            "the training's numbers.",
        ),
    ] = None,
    training: Only = None,
    which: Annotated[str, typer.Option("--log", help="For a job: output, error or scheduler.")] = "output",
    rank: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="For a training in several processes: the one with this number."),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow the log until the end.")] = False,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN", help="Where to start: 10m, 2h, 14:30, an ISO date and time, or a number of lines."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what a job has written so far. Reads it from the target; once the job has ended, from its results.

    For a blueprint with several trainings, it shows the state of each and the log of the first one that failed; if none
    has, or with --follow, of the first one that is running.

    For a training in several processes, each line is prefixed with the number of its rank; --follow shows the first.

    Lines of a job carry no time: with a time, --since starts where the log ended when modak last looked at it before
    then. A build's log is left out if nothing was written to it since.

    The numbers of a training are those of its metrics.json and metrics.jsonl, modak_runtime.log, trainer_state.json,
    metrics.csv and TensorBoard's event files.
    """
    from modak_ansible.commands.jobs import log_text as log_texts
    from modak_ansible.commands.jobs.log_start import LogStart, read_since

    if kind is None and deployment in _KINDS:
        deployment, kind = None, deployment
    kind = kind or "job"
    if kind not in _KINDS:
        raise UsageError(f"there is no log of a {kind}", hint=nearest(kind, _KINDS))
    if which not in _FILES:
        raise UsageError(f"there is no log {which}", hint=nearest(which, _FILES))
    if follow and as_json:
        raise UsageError("--json cannot be combined with --follow", hint="leave one of them out")
    begin = read_since(since) if since else LogStart()
    store = _chosen_store(deployment, training, follow=follow)
    _check_rank(store, rank, is_its_own=kind == "job" and which != "scheduler", follow=follow)
    if kind == "stage":
        lines = log_texts.of_stages(store, begin, follow=follow, show=typer.echo)
    elif kind == "build":
        lines = log_texts.of_build(store, begin, follow=follow, show=typer.echo)
    elif kind == "metrics":
        from modak_ansible.commands.jobs.metric_text import of_metrics

        lines = of_metrics(store, begin, follow=follow, show=typer.echo)
    else:
        lines = log_texts.of_job(store, _FILES[which], begin, follow=follow, show=typer.echo, rank=rank)
    if as_json:
        named = {"deployment": store.name, "log": which if kind == "job" else kind}
        print_json({**named, "lines": lines})
        return
    if lines:
        typer.echo("\n".join(lines))  # line by line a large log takes many times as long
    if not lines and not follow and since is None and kind in ("job", "metrics"):
        where = _FILES[which] if kind == "job" else "any of the metrics files that modak reads"
        typer.echo("\n".join([*store.damage, f"{log_texts.state_of(store)}: nothing is in {where}"]), err=True)


def _check_rank(store: DeploymentStore, rank: int | None, *, is_its_own: bool, follow: bool) -> None:
    """
    Args:
        is_its_own: whether each rank has a log of the kind that is asked for.
        follow: whether it is followed; which one is then said, where nobody asked for one.

    Raises:
        UsageError: there is no such rank, or no such log of one.
    """
    from modak_ansible.commands.jobs.log_text import check_rank

    if rank is not None and not is_its_own:
        raise UsageError("--rank applies only to the output and errors of a job", hint="leave it out")
    count = check_rank(store, rank or 0)
    if follow and is_its_own and rank is None and count > 1:
        typer.echo(f"the log of rank 0 of {count} (for another: --rank N)", err=True)


def _chosen_store(deployment: str | None, training: str | None, *, follow: bool) -> DeploymentStore:
    """The deployment that is meant; of several, which are shown, the one that tells most."""
    from modak_ansible.store.deployments import find_trainings

    stores = find_trainings(deployment, training)
    if len(stores) == 1:
        return stores[0]
    from rich.console import Console

    from modak_ansible.commands.status.table import lines_of
    from modak_ansible.deployment.status import StatusEntry, most_telling, rows_of
    from modak_ansible.deployment.status_query import ask_targets

    entries = [StatusEntry(store) for store in stores]
    ask_targets(entries)
    rows = rows_of(entries)
    name = most_telling(rows, is_followed=follow)["deployment"]
    console = Console(stderr=True)
    for line in lines_of(rows, console.width if console.is_terminal else None):
        typer.echo(line, err=True)
    typer.echo(f"the log of {name} (for another: modak logs {deployment} --training NAME)", err=True)
    return next(store for store in stores if store.name == name)
