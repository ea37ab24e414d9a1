"""modak package: a blueprint as one file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from modak_ansible.commands.options import Blueprint, InputsFile, InputValues, Json, On, given_inputs

EXAMPLES = "Example: modak package mine -i site.yaml -o mine.csar, and elsewhere: modak deploy mine.csar"


def command(
    blueprint: Blueprint,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="The archive; the blueprint's name.csar else.")
    ] = None,
    inputs: InputsFile = None,
    value: InputValues = None,
    on: On = None,
    as_json: Json = False,
) -> None:
    """Pack a blueprint with all that it needs into one archive (CSAR), for another machine or for opera.

    It holds the template, its types, playbooks and roles, and the files of its trainings; values that are given become
    the defaults of its inputs. The same files give the same bytes.
    """
    import hashlib
    from importlib.metadata import version

    from modak_ansible.commands.plan.packaging import package
    from modak_ansible.model.quantities import format_size
    from modak_ansible.store.project import find_blueprint
    from modak_ansible.target.core.files import write_whole

    path = find_blueprint(blueprint)
    content, names, left_behind = package(
        path, given_inputs(inputs, value, on), f"modak-ansible {version('modak-ansible')}"
    )
    output = output or Path(f"{path.parent.resolve().name}.csar")
    write_whole(output, content)
    if as_json:
        digest = hashlib.sha256(content).hexdigest()
        facts = {
            "file": str(output),
            "size": len(content),
            "sha256": digest,
            "left_behind": left_behind,
            "files": names,
        }
        typer.echo(json.dumps(facts, indent=2))
        return
    typer.echo(f"{output}: {len(names)} files, {format_size(len(content))}")
    for each in left_behind:
        typer.echo(f"warning: {each} stays here", err=True)
    typer.echo(f"to deploy it elsewhere: modak deploy {output}, or opera deploy {output}")
