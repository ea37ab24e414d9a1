"""The dataset: there already, or brought from the first source that has it, verified before and after."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from modak_ansible.catalogue import digits
from modak_ansible.errors import ModakError
from modak_ansible.model.quantities import format_seconds, format_size
from modak_ansible.stages.base import LOOK_SECONDS, Outcome, Stage
from modak_ansible.target.core.files import Lock, expanded, make_private, sha256_of
from modak_ansible.target.datasets.dataset import fetch
from modak_ansible.transport.lifeline import passing_folder
from modak_ansible.transport.rsync import push


def ensure_dataset(stage: Stage) -> Outcome:
    """Makes sure that the plan's dataset is on the target.

    Raises:
        ModakError: no source has it, a checksum is wrong, or there is no room; with what each source said.
    """
    dataset = stage.plan["dataset"]
    if dataset is None:
        return Outcome(False, "none")
    answer = _call(stage, action="look")
    if answer["dataset"]:
        _note(stage, answer["dataset"])
        return Outcome(False, _message(answer["dataset"]), {"dataset": answer["dataset"]})
    if stage.check:
        return Outcome(True, f"would bring {dataset['name']}")
    if answer.get("damaged"):
        stage.say(f"{answer['damaged']} on the target is no longer what was staged: the data is brought anew")
    refusals: list[str] = []
    for source in dataset["sources"]:
        try:
            known = _bring(stage, source)
        except ModakError as error:
            name = source["location"] or source["kind"]
            refusal = error.message if name in error.message else f"{name}: {error.message}"
            if source is dataset["sources"][-1]:
                if not refusals:
                    raise
                raise ModakError(
                    f"no source has the dataset {dataset['name']}: {'; '.join([*refusals, refusal])}", hint=error.hint
                ) from error
            refusals.append(refusal)
            stage.say(refusal)
        else:
            _note(stage, known)
            return Outcome(True, _message(known), {"dataset": known, "refusals": refusals})
    raise ModakError(f"the dataset {dataset['name']} has no source")


def _note(stage: Stage, known: dict[str, Any]) -> None:
    """Has the record know which of the sources it was: what was predicted holds for the first."""
    if not stage.check:
        stage.record.update(data=known["label"])


def _call(stage: Stage, **arguments: Any) -> dict[str, Any]:
    target = stage.plan["target"]
    return stage.call(
        "modak_dataset",
        workspace=target["workspace"],
        deployment=stage.deployment,
        dataset=stage.plan["dataset"],
        site=target["site"],
        **arguments,
    )


def _message(known: dict[str, Any]) -> str:
    size = sum(file["size"] for file in known["files"])
    return f"{known['label']}, {format_size(size)} in {len(known['files'])} files"


def _bring(stage: Stage, source: dict[str, Any]) -> dict[str, Any]:
    if source["kind"] == "url":
        return _download(stage, source)
    if source["kind"] == "folder":
        return _push(stage, source, stage.blueprint_folder / expanded(source["location"]))
    with passing_folder("modak-digits-") as folder:
        stage.say("drawing digits: no MNIST is at hand, and these are not MNIST")
        files = [asdict(file) for file in digits.write(Path(folder))]
        return _push(stage, {**source, "files": files}, Path(folder))


def _push(stage: Stage, source: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Verifies files here, sends them, and has them verified there."""
    for file in source["files"]:
        path = folder / file["name"]
        if not path.is_file():
            raise ModakError(f"{path} is not there any more", hint="plan again")
        if sha256_of(path) != file["sha256"]:
            raise ModakError(f"{path} has changed since the plan was made", hint="deploy again")
    with Lock(_downloads(stage) / f".{stage.plan['dataset']['digest'][:12]}.lock"):
        known = _call(stage, action="look")["dataset"]  # another deploy may have brought it meanwhile
        if known:
            return dict(known)
        size = sum(file["size"] or 0 for file in source["files"])
        answer = _call(stage, action="prepare", size=size)
        stage.say(f"sending {format_size(size)} in {len(source['files'])} files")
        push(stage.connection, [folder / file["name"] for file in source["files"]], answer["folder"], stage.say)
        return dict(_call(stage, action="commit", source=source)["dataset"])


def _downloads(stage: Stage) -> Path:
    return stage.folder.parent.parent / "downloads"


def _download(stage: Stage, source: dict[str, Any]) -> dict[str, Any]:
    """Has the target fetch the files itself; where it reaches no network, they are fetched here and sent."""
    try:
        return _download_there(stage, source)
    except ModakError as error:
        if stage.connection.is_local or source["location"].startswith("file:"):
            raise
        stage.say(f"{error.message}; fetching it from here")
    folder = _downloads(stage) / stage.plan["dataset"]["digest"][:12]
    make_private(folder)
    for file in source["files"]:
        path = folder / file["name"]
        if not path.is_file() or sha256_of(path) != file["sha256"]:
            fetch(f"{source['location'].rstrip('/')}/{file['name']}", path)
        if sha256_of(path) != file["sha256"]:
            path.unlink()
            raise ModakError(
                f"{file['name']} from {source['location']} is not the file it should be: its SHA-256 differs"
            )
    return _push(stage, source, folder)


def _download_there(stage: Stage, source: dict[str, Any]) -> dict[str, Any]:
    stage.say(f"fetching {source['location']} from the target")
    _call(stage, action="download", source=source)
    step = ""
    while True:
        answer = _call(stage, action="wait", seconds=LOOK_SECONDS, seen=step)
        status = answer["status"]
        if status["state"] != "running":
            break
        step = status["step"]
        stage.say(f"{step}, {format_seconds(status['seconds'])}")
    if answer["dataset"]:
        return dict(answer["dataset"])
    if status["state"] != "failed":
        raise ModakError(
            f"fetching {source['location']} was cut short", hint="deploy again: it goes on where it stopped"
        )
    raise ModakError(status["message"], hint=status.get("hint", ""))
