"""modak logout: ends the connection that modak login opened."""

from __future__ import annotations

import json

import typer

from modak_ansible.commands.admin.login import Target, aimed
from modak_ansible.commands.options import InputsFile, InputValues, Json, On

EXAMPLES = "Example: modak logout mycluster"


def command(
    target: Target = None, inputs: InputsFile = None, value: InputValues = None, on: On = None, as_json: Json = False
) -> None:
    """End the connection to a target. What runs there goes on; what is being sent through it breaks off."""
    from modak_ansible.transport.login import log_out

    aim = aimed(target, inputs, value, on)
    with aim.entered() as connection:
        was_open = log_out(connection)
    if as_json:
        typer.echo(json.dumps({"address": aim.target.address, "state": "", "changed": was_open}, indent=2))
    else:
        typer.echo(f"the connection to {aim.target.address} {'is ended' if was_open else 'was not open'}")
