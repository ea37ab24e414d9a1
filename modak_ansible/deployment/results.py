"""What deployments have left: fetched, listed, copied."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from modak_ansible.deployment.fetching import fetch_results
from modak_ansible.errors import ModakError, TargetUnreachable, UsageError
from modak_ansible.reading.blueprint.forms.text_rules import pattern_problem
from modak_ansible.store.deployment import DeploymentStore, ResultFile
from modak_ansible.store.forecasts import forecasts_of
from modak_ansible.store.project import COPIED
from modak_ansible.store.record import DeploymentRecord, EnergyNote
from modak_ansible.target.core.files import sha256_of
from modak_ansible.target.jobs.situation import LeftFiles


class ResultsWarning(UserWarning):
    """A target cannot be asked now, and need not be: its jobs have ended, and all that they left is here."""


@dataclass(frozen=True)
class Results:
    """The results of a deployment.

    Attributes:
        deployment: its name.
        training: of the blueprint.
        state: of its job; UNDEPLOYED, or NONE where there was none.
        folder: where the files are.
        files: metrics, logs and declared outputs.
        missing: declared outputs that no file matches.
        unnamed: files that were left out because of their names.
        left: what the job wrote and no output names; None if that is nothing, or unknown.
        energy: the energy that its nodes used, if known.
        starts: when the job was expected to begin and did, in words.
        is_gone: whether it was undeployed, and nothing more can come.
    """

    deployment: str
    training: str
    state: str
    folder: Path
    files: tuple[ResultFile, ...]
    missing: tuple[str, ...]
    unnamed: tuple[str, ...]
    left: LeftFiles | None
    energy: EnergyNote | None
    starts: tuple[str, ...]
    is_gone: bool


def results_of(stores: list[DeploymentStore], to: Path | None = None, also: Sequence[str] = ()) -> list[Results]:
    """Fetches what deployments have left, and lists it; what is here already is not fetched again.

    Args:
        to: a folder that the files are copied to, too; with a folder for each of several.
        also: patterns of files that no output names, below the folder of the user's code; from now on they come, too.

    Raises:
        UsageError: a pattern leads elsewhere.
        ModakError: the target cannot be asked, and not all is here; or a file here is not what came from the target.
    """
    for pattern in also:
        if problem := pattern_problem(pattern):
            raise UsageError(f"--also: {problem}")
    deployed = [store for store in stores if not store.record.get("undeployed")]
    for store in deployed if also else ():
        before = store.record_now().get("more_outputs") or []
        DeploymentRecord(store.folder).update(more_outputs=list(dict.fromkeys([*before, *also])))
    try:
        if deployed:
            fetch_results(*deployed)
    except TargetUnreachable as error:
        if also or not all(store.is_brought for store in deployed):
            raise
        warnings.warn(f"{error.message}; what it had left so far is here", ResultsWarning, stacklevel=2)
    all_results = [_results(store, to / store.name if to and len(stores) > 1 else to) for store in stores]
    for store, results in zip(stores, all_results, strict=True):
        if patterns := store.record_now().get("more_outputs"):  # what fitted nothing of all there is, is not told again
            DeploymentRecord(store.folder).update(
                more_outputs=[pattern for pattern in patterns if pattern not in results.missing]
            )
    return all_results


def _results(store: DeploymentStore, to: Path | None) -> Results:
    record = store.record_now()
    files = store.files
    is_gone = bool(record.get("undeployed"))
    return Results(
        deployment=store.name,
        training=store.plan.get("training", ""),
        state="UNDEPLOYED" if is_gone else str((record.get("job") or {}).get("state", "NONE")),
        folder=_copied(store.results, files, to) if to else store.results,
        files=files,
        missing=tuple(record.get("missing_outputs") or ()),
        unnamed=tuple(record.get("unnamed_outputs") or ()),
        left=left if (left := record.get("left")) and left["count"] else None,
        energy=record.get("energy"),
        starts=tuple(forecast.words for forecast in forecasts_of(record) if forecast.was_wrong),
        is_gone=is_gone,
    )


def _copied(results: Path, files: tuple[ResultFile, ...], to: Path) -> Path:
    """Copies files below a folder, each whole; one of the same name there is replaced.

    Raises:
        ModakError: a file here is not what came from the target.
    """
    if files and not (to.exists() and any(to.iterdir())):  # with files of the user's own it may be part of a script's
        to.mkdir(parents=True, exist_ok=True)
        (to / COPIED).touch()
    for file in files:
        source, place = results / file.path, to / file.path
        if not source.is_file() or sha256_of(source) != file.sha256:
            hint = "remove it, and fetch the results again" if source.exists() else "fetch the results again"
            raise ModakError(f"{source} has changed since it came from the target", hint=hint)
        place.parent.mkdir(parents=True, exist_ok=True)
        part = place.with_name(f".{place.name}.part")
        try:
            shutil.copyfile(source, part)
            part.replace(place)
        finally:
            part.unlink(missing_ok=True)
    return to
