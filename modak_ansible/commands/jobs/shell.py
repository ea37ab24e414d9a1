"""modak shell: into the container of a running job."""

from __future__ import annotations

import json
import os
import shlex
import sys
from typing import Annotated

import typer

from modak_ansible.commands.jobs.operate import Only, deployment_argument
from modak_ansible.errors import ModakError

EXAMPLES = "Example: modak shell mnist-pytorch-slurm; modak shell mnist-pytorch-slurm -- python --version"


def command(
    deployment: Annotated[str, deployment_argument("A deployment as modak status shows it, or a blueprint.")],
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- COMMAND...]", help="The command to run there. Default: a shell."),
    ] = None,
    training: Only = None,
    rank: Annotated[
        int | None,
        typer.Option("--rank", min=0, metavar="N", help="For a training in several processes: the one to enter."),
    ] = None,
) -> None:
    """Enter a running job's container. You are on its first node, with its training's environment, in its folder.

    You enter the training's own container, not another one of the same image, and see what the training sees. A command
    runs in place of a shell, and its exit code is returned. With several ranks you enter the first; --rank enters
    another, on its node.

    Whatever runs there shares the job's processors and memory with the training. Under Slurm it is a step of the job
    (srun --overlap); under Torque, and for hosts other than the first, it goes by ssh from where jobs are submitted.
    """
    from modak_ansible.commands.jobs.log_text import check_rank
    from modak_ansible.commands.jobs.top import check_runs, find_entry
    from modak_ansible.deployment.status_query import ask_targets, connection_of
    from modak_ansible.target.jobs.query import Way

    entry = find_entry(deployment, training)
    if rank is not None:
        check_rank(entry.store, rank)
    ask_targets([entry], inside="way" if rank is None else f"way={rank}")
    check_runs(entry)
    way = entry.answer["way"] if entry.answer else Way()
    if way.get("problem"):
        raise ModakError(
            f"{entry.name} cannot be entered: {way['problem']}", hint=f"modak logs {entry.name} shows what it writes"
        )
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    shell = ["sh", "-c", "command -v bash > /dev/null && exec bash; exec sh"]
    digits = json.dumps(words or shell).encode().hex()
    inside = [*way["terminal" if is_terminal else "plain"], digits]
    connection = connection_of(entry.store)
    if not connection.is_local:
        terminal = ["-t"] if is_terminal else []
        inside = [*connection.ssh_command(), "-o", "LogLevel=ERROR", *terminal, connection.address, shlex.join(inside)]
    sys.stdout.flush()
    os.execvp(inside[0], inside)  # noqa: S606
