"""modak package: a blueprint as one file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from modak_ansible.commands.options import NOTHING_ASKED, Blueprint, Json, PlanOptions, Words, print_json, takes
from modak_ansible.errors import UsageError
from modak_ansible.store.project import SUFFIXES, find_blueprint
from modak_ansible.target.core.files import write_whole

EXAMPLES = "Example: modak package mine -i site.yaml -o mine.csar, and elsewhere: modak deploy mine.csar"


@takes("inputs", "value", "on")
def command(
    blueprint: Blueprint,
    words: Words = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE|FOLDER/",
            help="The archive, a .csar or a .zip, or, with a slash at the end, a new folder. Default: the "
            "blueprint's name with .csar.",
        ),
    ] = None,
    asked: PlanOptions = NOTHING_ASKED,
    as_json: Json = False,
) -> None:
    """Pack a blueprint with all it needs into one archive (CSAR). For another machine, or for opera.

    It contains the template, its types, playbooks and roles, and the files of its trainings; values that you give
    become the defaults of its inputs. The same files give the same bytes.
    """
    import hashlib
    import shlex
    from importlib.metadata import version

    from modak_ansible.commands.plan.packaging import contents, lay_out, package
    from modak_ansible.model.quantities import format_size

    output = output or ""
    is_folder = output.endswith("/")
    if output and not is_folder and Path(output).suffix not in SUFFIXES:  # by which modak deploy knows one
        raise UsageError(f"{output} is not an archive's name", hint=f"{output}.csar; or for a folder: {output}/")
    path = find_blueprint(blueprint)
    inputs = asked._replace(words=words).all_inputs
    if is_folder:
        files, left_behind = contents(path, inputs)
        names, size, digest = sorted(files), sum(len(content) for content, _ in files.values()), ""
        lay_out(files, Path(output))
    else:
        content, names, left_behind = package(path, inputs, f"modak-ansible {version('modak-ansible')}")
        output = output or f"{path.parent.resolve().name}.csar"
        size, digest = len(content), hashlib.sha256(content).hexdigest()
        write_whole(Path(output), content)
    if as_json:
        facts = {"file": output, "size": size, "sha256": digest, "left_behind": left_behind, "files": names}
        print_json(facts)
        return
    typer.echo(f"{output}: {len(names)} files, {format_size(size)}")
    for item in left_behind:
        typer.echo(f"warning: {item} stays here", err=True)
    typed = shlex.quote(output)
    opera = f"in {typed}: opera deploy service.yaml" if is_folder else f"opera deploy {typed}"
    typer.echo(f"to deploy it elsewhere: modak deploy {typed}, or {opera}")
