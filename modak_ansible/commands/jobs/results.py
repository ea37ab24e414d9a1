"""modak results: brings back what a job has left, and lists it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from modak_ansible.commands.jobs.operate import Only, Which
from modak_ansible.commands.options import Json

EXAMPLES = "Example: modak results mnist-pytorch-slurm --to run-7"


def command(
    deployment: Which,
    training: Only = None,
    to: Annotated[Path | None, typer.Option(metavar="DIR", help="Copy them into this folder, too.")] = None,
    as_json: Json = False,
) -> None:
    """Fetch a deployment's metrics, logs and outputs, whatever has become of its job, and list them.

    What is here already is not fetched again, and what comes is compared with its checksum. A job that still runs gives
    what it has written so far. What earlier attempts left is below attempts/.
    """
    from modak_ansible.commands.jobs.log_text import fetch_results
    from modak_ansible.store.deployments import find_trainings
    from modak_ansible.target.core.files import read_json

    found = find_trainings(deployment, training)
    there = [each.folder for each in found if not each.record.get("undeployed")]
    if there:
        fetch_results(*there)
    if len(found) > 1:
        _print_all([each.folder for each in found], to, as_json=as_json)
        return
    folder, is_gone = found[0].folder, not there
    results = folder / "results"
    files = (read_json(results / "manifest.json") or {}).get("files", [])
    copied = _copy(results, files, to) if to else None
    record = read_json(folder / "state.json") or {}
    if as_json:
        typer.echo(json.dumps(_facts(folder, record, copied or results, files), indent=2))
        return
    _print(files, record, copied or results, is_gone=is_gone)


def _print_all(folders: list[Path], to: Path | None, *, as_json: bool) -> None:
    """Lists what came back of several deployments, a line each; it is copied into a folder for each of them."""
    from modak_ansible.target.core.files import read_json

    answers, lines = [], []
    for folder in folders:
        results, record = folder / "results", read_json(folder / "state.json") or {}
        files = (read_json(results / "manifest.json") or {}).get("files", [])
        place = _copy(results, files, to / folder.name) if to else results
        training = (read_json(folder / "plan.json") or {}).get("training", "")
        answers.append({"training": training, **_facts(folder, record, place, files)})
        missing = ", ".join(record.get("missing_outputs") or [])
        words = f"{len(files)} files" + (f"; no file fits {missing}" if missing else "")
        lines.append((training, _state(record), words, str(place)))
    if as_json:
        typer.echo(json.dumps(answers, indent=2))
        return
    widths = [max(len(line[column]) for line in lines) for column in range(3)]
    for line in lines:
        typer.echo("  ".join([*(f"{word:<{width}}" for word, width in zip(line, widths, strict=False)), line[3]]))


def _facts(folder: Path, record: dict[str, Any], place: Path, files: list[dict[str, Any]]) -> dict[str, Any]:
    facts = {"deployment": folder.name, "state": _state(record), "folder": str(place), "files": files}
    return {**facts, "missing": record.get("missing_outputs") or [], "unnamed": record.get("unnamed_outputs") or []}


def _copy(results: Path, files: list[dict[str, Any]], to: Path) -> Path:
    """Copies the files below a folder, each whole; one of the same name there is replaced.

    Raises:
        ModakError: a file here is not what came from the target.
    """
    from modak_ansible.errors import ModakError
    from modak_ansible.target.core.files import sha256_of

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
        typer.echo(f"no file fits {', '.join(record['missing_outputs'])}")
    if record.get("unnamed_outputs"):
        names = ", ".join(record["unnamed_outputs"])
        typer.echo(f"left on the target, as their names are not UTF-8: {names}")
