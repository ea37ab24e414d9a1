"""modak logs: what a job, the build of its image or the stages of its deployment have written."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from modak_ansible.commands import completing
from modak_ansible.commands.options import Json

EXAMPLES = "Example: modak logs -f; or: modak logs mnist-pytorch-slurm build --since 10m"

_KINDS = ("build", "stage", "job")
_FILES = {"output": "output.log", "error": "error.log", "scheduler": "scheduler.log"}


def command(
    deployment: Annotated[
        str | None,
        typer.Argument(
            metavar="[DEPLOYMENT]",
            help="A deployment, or a blueprint for its newest one; without it the newest one here.",
            autocompletion=completing.deployments,
        ),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Argument(
            metavar="[build|stage|job]",
            help="What the build of the image has written, what the stages did and when, or what the job writes, "
            "which is shown without it.",
        ),
    ] = None,
    which: Annotated[str, typer.Option("--log", help="Of a job: output, error or scheduler.")] = "output",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the end.")] = False,
    since: Annotated[
        str | None,
        typer.Option(metavar="WHEN", help="From when on: 10m, 2h, 14:30, an ISO date and time, or a number of lines."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what a job has written so far, from its target; once it has ended, from its results.

    Lines of a job carry no time: with a time, --since begins where the log ended when modak last looked at it before
    then. A build's log is left out where nothing was written to it since.
    """
    from modak_ansible.commands import log_texts
    from modak_ansible.commands.deployments import find_deployment, newest_deployment
    from modak_ansible.commands.since import Since, read_since
    from modak_ansible.errors import UsageError, nearest

    if kind is None and deployment in _KINDS:
        deployment, kind = None, deployment
    kind = kind or "job"
    if kind not in _KINDS:
        raise UsageError(f"there is no log of a {kind}", hint=nearest(kind, _KINDS))
    if which not in _FILES:
        raise UsageError(f"there is no log {which}", hint=nearest(which, _FILES))
    if follow and as_json:
        raise UsageError("--json does not go with --follow", hint="leave one of them out")
    begin = read_since(since) if since else Since()
    folder = find_deployment(deployment) if deployment else newest_deployment()
    if kind == "stage":
        lines = log_texts.of_stages(folder, begin, follow=follow, show=typer.echo)
    elif kind == "build":
        lines = log_texts.of_build(folder, begin, follow=follow, show=typer.echo)
    else:
        lines = log_texts.of_job(folder, _FILES[which], begin, follow=follow, show=typer.echo)
    if as_json:
        typer.echo(json.dumps({"log": which if kind == "job" else kind, "lines": lines}, indent=2))
    else:
        for line in lines:
            typer.echo(line)
