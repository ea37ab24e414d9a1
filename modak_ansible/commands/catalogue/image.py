"""modak image: what is in an image? The only file that knows spython."""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from modak_ansible.commands.options import Json, print_json
from modak_ansible.errors import ModakError, last_line
from modak_ansible.target.core.files import is_file

_LABEL = "modak."
EXAMPLES = "Example: modak image ~/modak/images/*.sif --definition"


def command(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Image files on this machine.")],
    definition: Annotated[bool, typer.Option("--definition", help="Also show the definition files.")] = False,
    as_json: Json = False,
) -> None:
    """Show what images were built from. Lists framework, version, compiler, processor, digests and licence."""
    facts = {str(path): inspect_image(path) for path in files}
    if as_json:
        print_json([{"path": path, **asdict(fact)} for path, fact in facts.items()])
        return
    for path, fact in facts.items():
        typer.echo(path)
        for name, value in fact.labels.items():
            typer.echo(f"  {name:<18}{value}")
        if not fact.labels:
            typer.echo("  no modak labels: another tool built it")
        if definition:
            typer.echo("".join(f"\n    {line}".rstrip(" ") for line in fact.definition.splitlines()) + "\n")


@dataclass(frozen=True)
class ImageFacts:
    # those that the build wrote, without their prefix: framework, version, compiler, target, licence,
    # definition-digest, base-digest, build-date; empty for an image of somebody else's
    labels: dict[str, str]
    definition: str  # the definition file that it was built from
    test: str  # its test script


def inspect_image(path: Path) -> ImageFacts:
    """Reads an image file.

    Raises:
        ModakError: there is no such image, or no Singularity to read it with.
    """
    if not is_file(path):
        raise ModakError(f"the image {path} is not there", hint="give the path of a .sif file of this machine")
    if shutil.which("singularity") is None:
        raise ModakError("singularity is not on this machine", hint="install apptainer, which includes it")
    from spython.main import get_client

    answer = get_client().inspect(str(path))
    attributes = answer.get("attributes")
    if attributes is None:
        why = last_line("".join(answer.get("message") or ()))
        raise ModakError(f"{path} cannot be read: {why}", hint="is it an image?")
    labels = sorted(attributes.get("labels", {}).items())
    return ImageFacts(
        labels={name.removeprefix(_LABEL): str(value) for name, value in labels if name.startswith(_LABEL)},
        definition=attributes.get("deffile") or "",
        test=attributes.get("test") or "",
    )
