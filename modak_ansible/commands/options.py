"""The options that several subcommands share."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from modak_ansible.commands import completion as completing
from modak_ansible.errors import Mistake, UsageError
from modak_ansible.reading.blueprint.forms.mistakes import NOT_KEPT
from modak_ansible.reading.blueprint.inputs import Inputs

Blueprint = Annotated[
    str,
    typer.Argument(
        metavar="BLUEPRINT",
        autocompletion=completing.blueprints,
        help="A blueprint's folder, its service.yaml, a package, the name of a shipped one, a request, or a script "
        "alone.",
    ),
]
Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="[-- OPTION...]", help="Of a script alone: the options that it is started with."),
]
Nodes = Annotated[
    int | None, typer.Option("--nodes", min=1, metavar="N", help="Of a script alone: on how many nodes it is trained.")
]
Processes = Annotated[
    int | None,
    typer.Option("--processes-per-node", min=1, metavar="N", help="Of a script alone: in how many processes of each."),
]
InputsFile = Annotated[
    Path | None, typer.Option("--inputs", "-i", help="A YAML file with values for the inputs, or a target file.")
]
InputValues = Annotated[
    list[str] | None, typer.Option("--input", metavar="NAME=VALUE", help="A value for one input; repeatable.")
]
Training = Annotated[
    str | None, typer.Option(help="Which training, or which point of its sweep, where the blueprint has several.")
]
On = Annotated[
    str | None,
    typer.Option(
        "--on",
        "--target",
        metavar="NAME|FILE",
        autocompletion=completing.targets,
        help="Where: a target of modak targets, or a target file; for a request also a service template with the "
        "target that it names.",
    ),
]
Strict = Annotated[
    bool,
    typer.Option("--strict", help="Take a wish that cannot be kept for an error, and not leave it out with a note."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def without_collecting() -> None:
    """Keeps all memory until the command ends, which is soon: looking for what could be freed takes longer."""
    import gc

    gc.disable()


def given_inputs(
    file: Path | None,
    values: list[str] | None,
    on: str | None = None,
    *,
    strict: bool = False,
    words: list[str] | None = None,
    nodes: int | None = None,
    processes: int | None = None,
) -> Inputs:
    """The inputs of a command line.

    Raises:
        UsageError: a value is not NAME=VALUE, or there is no such target.
    """
    from modak_ansible.store.targets import target_file

    pairs = []
    for text in values or []:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise UsageError(f"--input {text} is not NAME=VALUE", hint="such as --input epochs=4")
        pairs.append((name, value))
    return Inputs(file, tuple(pairs), target_file(on) if on else None, strict, tuple(words or ()), nodes, processes)


def restated(
    blueprint: str,
    file: Path | None,
    values: list[str] | None,
    training: str | None,
    on: str | None,
    *,
    strict: bool = False,
    script_words: list[str] | None = None,
    nodes: int | None = None,
    processes: int | None = None,
) -> str:
    """What names the same plan again on a command line: the blueprint, and the options that were given."""
    words = [blueprint]
    words += ["--inputs", str(file)] if file else []
    for value in values or []:
        words += ["--input", value]
    words += ["--training", training] if training else []
    words += ["--on", on] if on else []
    words += ["--strict"] if strict else []
    words += ["--nodes", str(nodes)] if nodes else []
    words += ["--processes-per-node", str(processes)] if processes else []
    words += ["--", *script_words] if script_words else []
    return shlex.join(words)


def show_warnings(warnings: Iterable[Mistake]) -> None:
    """Tells people what was read otherwise, and which wishes are not kept; what is piped on stays clean."""
    for warning in warnings:
        typer.echo(f"{'note' if warning.rule == NOT_KEPT else 'warning'}: {warning}", err=True)


def as_data(mistakes: Iterable[Mistake]) -> list[dict[str, object]]:
    return [
        {
            "path": mistake.location.path, "line": mistake.location.line, "column": mistake.location.column,
            "rule": mistake.rule, "message": mistake.message, "hint": mistake.hint,
        }
        for mistake in mistakes
    ]  # fmt: skip
