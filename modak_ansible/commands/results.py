"""modak results: brings back what a job has left, and lists it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from modak_ansible.commands.acting import Which
from modak_ansible.commands.options import Json

EXAMPLES = "Example: modak results mnist-pytorch-slurm --to run-7"


def command(
    deployment: Which,
    to: Annotated[Path | None, typer.Option(metavar="DIR", help="Copy them into this folder, too.")] = None,
    as_json: Json = False,
) -> None:
    """Fetch a deployment's metrics, logs and outputs, whatever has become of its job, and list them.

    What is here already is not fetched again, and what comes is compared with its checksum. A job that still runs gives
    what it has written so far. What earlier attempts left is below attempts/.
    """
    from modak_ansible.commands.deployments import find_deployment
    from modak_ansible.commands.log_texts import fetch_results
    from modak_ansible.target.files import read_json

    folder = find_deployment(deployment)
    is_gone = bool((read_json(folder / "state.json") or {}).get("undeployed"))
    if not is_gone:
        fetch_results(folder)
    results = folder / "results"
    files = (read_json(results / "manifest.json") or {}).get("files", [])
    copied = _copy(results, files, to) if to else None
    record = read_json(folder / "state.json") or {}
    if as_json:
        place = str(copied or results)
        facts = {"deployment": folder.name, "state": _state(record), "folder": place, "files": files}
        typer.echo(json.dumps({**facts, "missing": record.get("missing_outputs") or []}, indent=2))
        return
    _print(files, record, copied or results, is_gone=is_gone)


def _copy(results: Path, files: list[dict[str, Any]], to: Path) -> Path:
    """Copies the files below a folder, each whole; one of the same name there is replaced.

    Raises:
        ModakError: a file here is not what came from the target.
    """
    from modak_ansible.errors import ModakError
    from modak_ansible.target.files import sha256_of

    for file in files:
        source, place = results / file["path"], to / file["path"]
        if not source.is_file() or sha256_of(source) != file["sha256"]:
            hint = "remove it, and fetch the results again" if source.exists() else "fetch the results again"
            raise ModakError(f"{source} is not as it came from the target", hint=hint)
        place.parent.mkdir(parents=True, exist_ok=True)
        _copy_whole(source, place)
    return to


def _copy_whole(source: Path, place: Path) -> None:
    import shutil

    part = place.with_name(f".{place.name}.part")
    try:
        shutil.copyfile(source, part)
        part.replace(place)
    finally:
        part.unlink(missing_ok=True)


def _state(record: dict[str, Any]) -> str:
    return "UNDEPLOYED" if record.get("undeployed") else str((record.get("job") or {}).get("state", "NONE"))


def _print(files: list[dict[str, Any]], record: dict[str, Any], place: Path, *, is_gone: bool) -> None:
    from modak_ansible.model.quantities import format_size

    if not files:
        typer.echo("nothing has come back: no job has written anything" if not is_gone else "nothing had come back")
        return
    width = max(len(format_size(each["size"])) for each in files)
    for each in files:
        typer.echo(f"{format_size(each['size']):>{width}}  {each['path']}")
    typer.echo(f"\n{len(files)} files in {place}")
    if record.get("missing_outputs"):
        typer.echo(f"nothing fits {', '.join(record['missing_outputs'])}")
