"""The options that several subcommands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from modak_ansible.blueprint.reader import Inputs
from modak_ansible.errors import UsageError

Blueprint = Annotated[
    str,
    typer.Argument(metavar="BLUEPRINT", help="A blueprint's folder, its service.yaml, or the name of a shipped one."),
]
InputsFile = Annotated[Path | None, typer.Option("--inputs", "-i", help="A YAML file with values for the inputs.")]
InputValues = Annotated[
    list[str] | None, typer.Option("--input", metavar="NAME=VALUE", help="A value for one input; repeatable.")
]
Training = Annotated[str | None, typer.Option(help="Which training, where the blueprint has several.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def given_inputs(file: Path | None, values: list[str] | None) -> Inputs:
    """The inputs of a command line.

    Raises:
        UsageError: a value is not NAME=VALUE.
    """
    pairs = []
    for text in values or []:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise UsageError(f"--input {text} is not NAME=VALUE", hint="such as --input epochs=4")
        pairs.append((name, value))
    return Inputs(file, tuple(pairs))
