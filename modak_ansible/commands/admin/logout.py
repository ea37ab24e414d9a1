"""modak logout: ends the connection that modak login opened."""

from __future__ import annotations

import typer

from modak_ansible.commands.admin.login import Target, aimed
from modak_ansible.commands.options import NOTHING_ASKED, Json, PlanOptions, print_json, takes

EXAMPLES = "Example: modak logout mycluster"


@takes("inputs", "value", "on")
def command(target: Target = None, asked: PlanOptions = NOTHING_ASKED, as_json: Json = False) -> None:
    """End the connection to a target. What runs there continues; transfers through the connection are cut off."""
    from modak_ansible.transport.login import log_out

    aim = aimed(target, asked)
    with aim.entered() as connection:
        was_open = log_out(connection)
    if as_json:
        print_json({"address": aim.target.address, "state": "", "changed": was_open})
    else:
        typer.echo(f"the connection to {aim.target.address} {'is closed' if was_open else 'was not open'}")
