"""modak login: opens the connection to a target that wants a password, a one-time code or a passphrase."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from modak_ansible.commands import completion as completing
from modak_ansible.commands.options import NOTHING_ASKED, Json, PlanOptions, print_json, seconds_in, takes
from modak_ansible.errors import UsageError

if TYPE_CHECKING:
    from modak_ansible.discovery.aim import Aim

EXAMPLES = "Example: modak login mycluster; and at the end of the day: modak logout mycluster"

Target = Annotated[
    str | None,
    typer.Argument(
        metavar="[TARGET]",
        autocompletion=completing.targets,
        help="A target in modak targets, a blueprint, or a host as you would give it to ssh.",
    ),
]


@takes("inputs", "value", "on")
def command(
    target: Target = None,
    asked: PlanOptions = NOTHING_ASKED,
    keep: Annotated[
        str, typer.Option(metavar="TIME", help="How long it stays open while unused, such as 90m or 12h.")
    ] = "12h",
    as_json: Json = False,
) -> None:
    """Log in to a target once, by hand. Everything modak does there goes through that connection.

    ssh asks here for what the target requires. If ~/.ssh/config shares connections, that one is used. Once it has
    ended, commands say so and end, instead of waiting or asking. modak logout ends it.
    """
    from modak_ansible.transport.login import log_in

    seconds = int(seconds_in("--keep", keep))
    if not seconds:  # which ssh would take for ever
        raise UsageError(f"--keep {keep} is less than a second", hint="such as 12h")
    aim = aimed(target, asked)
    if not sys.stdin.isatty() and not os.environ.get("SSH_ASKPASS"):
        raise UsageError("a login needs a terminal", hint="run it in one")
    with aim.entered() as connection:
        is_new = log_in(connection, target or asked.on or aim.target.name, seconds)
    if as_json:
        print_json({"address": aim.target.address, "state": "open", "changed": is_new})
    else:
        state = "is open" if is_new else "was open already"
        typer.echo(f"the connection to {aim.target.address} {state}: all commands go through it")


def aimed(target: str | None, asked: PlanOptions) -> Aim:
    """What is meant.

    Raises:
        UsageError: it is this machine.
    """
    from modak_ansible.discovery.aim import aim_at

    aim = aim_at(target, asked.all_inputs)
    if aim.target.local:
        raise UsageError("this machine needs no login", hint="name a target: modak targets lists them")
    return aim
