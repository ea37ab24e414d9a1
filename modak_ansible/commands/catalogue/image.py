"""modak image: what is in an image?"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from modak_ansible.commands.options import Json, print_json

EXAMPLES = "Example: modak image ~/modak/images/*.sif --definition"


def command(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Image files of this machine.")],
    definition: Annotated[bool, typer.Option("--definition", help="Show the definition files too.")] = False,
    as_json: Json = False,
) -> None:
    """Show what images were built from: framework, version, compiler, processor, digests, licence."""
    from modak_ansible.commands.catalogue.image_labels import inspect_image

    facts = {str(path): inspect_image(path) for path in files}
    if as_json:
        print_json([{"path": path, **asdict(fact)} for path, fact in facts.items()])
        return
    for path, fact in facts.items():
        typer.echo(path)
        for name, value in fact.labels.items():
            typer.echo(f"  {name:<18}{value}")
        if not fact.labels:
            typer.echo("  no labels of modak's: another tool built it")
        if definition:
            typer.echo("".join(f"\n    {line}".rstrip(" ") for line in fact.definition.splitlines()) + "\n")
