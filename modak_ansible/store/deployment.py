"""What this machine keeps of a deployment, in a folder of its own; nothing else knows the names of its files."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypedDict

from modak_ansible.model.quantities import some_of
from modak_ansible.store.record import NAME, DeploymentRecord, JobNote, RecordData, run_of
from modak_ansible.store.shapes import fitted, read_whole
from modak_ansible.target.core.files import changed_at, make_private, open_private, read_json, write_json, write_whole
from modak_ansible.target.core.plan import Plan
from modak_ansible.target.jobs.situation import LIVING, UNKNOWN

# Folders in a project's state folder.
FOLDER, BUILDS = "deployments", "builds"  # the latter of plans that are carried out for their image alone
_SAVED = "saved"
# What tells one way to a target, and one queue there, from another.
_QUEUE = ("address", "username", "port", "identity_file", "local", "workspace")


class Origin(TypedDict, total=False):
    # blueprint, state, testbed: paths, as planning.service.Planned has them
    blueprint: str
    state: str
    testbed: str
    # node, parallel: as it has them; not there for a request
    node: str
    parallel: int | None
    queue: str  # as queue_of
    aside: bool  # whether it stands beside the blueprint's trainings: a trace of one, its tuning, a notebook


def queue_of(plan: Plan, blueprint: str) -> str:
    """The digest of the way to a plan's target and of its scheduler: deployments with the same are asked for together.

    Args:
        plan: a plan's JSON.
        blueprint: the service template's path; a key beside it is found from there.

    Raises:
        KeyError, TypeError, AttributeError: it is none.
    """
    target = plan["target"]
    base = blueprint if target.get("identity_file") else ""
    way = [plan["job"]["scheduler"], base, *(target.get(name) for name in _QUEUE)]
    return hashlib.sha256(json.dumps(way).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class ResultFile:
    """A file that came back; its path is relative to the folder of the results, its size in bytes."""

    path: str
    size: int
    sha256: str


class _ManifestEntry(TypedDict):
    """The same, in the manifest."""

    path: str
    size: int
    sha256: str


class _Manifest(TypedDict):
    files: list[_ManifestEntry]


class DeploymentStore:
    """The files of a deployment on this machine.

    Args:
        folder: they are in.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def plan_file(self) -> Path:
        return self.folder / "plan.json"

    @property
    def results(self) -> Path:
        """The folder of what came back."""
        return self.folder / "results"

    @property
    def is_there(self) -> bool:
        return self.plan_file.exists() or self.has_record

    @property
    def has_record(self) -> bool:
        """Whether there is a record, be it damaged."""
        return (self.folder / NAME).exists()

    @cached_property
    def plan(self) -> Plan:
        """Empty where it cannot be read; reading those of a thousand deployments takes half a second."""
        return read_whole(self.plan_file, Plan) or Plan()

    @cached_property
    def record(self) -> RecordData:
        """The record as it was when it was first asked for; empty where there is none, or it is damaged."""
        return self._read[0]

    @cached_property
    def _read(self) -> tuple[RecordData, list[str]]:
        fields: list[str] = []
        return DeploymentRecord(self.folder).read(fields), fields

    def record_now(self) -> RecordData:
        return DeploymentRecord(self.folder).read()

    @property
    def job(self) -> JobNote:
        """What is known of the job now; empty where none was submitted."""
        return self.record_now().get("job") or {}

    @property
    def has_ended(self) -> bool:
        """Whether its job is known to have ended, or was undeployed."""
        record = self.record_now()
        return bool(record.get("undeployed")) or (record.get("job") or {}).get("state", LIVING[0]) not in LIVING

    @property
    def is_brought(self) -> bool:
        """Whether all that its job left is here: what was brought while it ran may be a part.

        An earlier version's record does not tell; there it is whether anything is.
        """
        record = self.record_now()
        brought_run = record.get("brought") or ("" if "brought" in record or not self.results.is_dir() else None)
        return self.has_ended and brought_run in (None, run_of(record.get("job") or {}))

    @property
    def is_in_doubt(self) -> bool:
        """Whether its target was asked for its job, and could not tell."""
        return bool(self.job.get("state") == UNKNOWN)

    @cached_property
    def origin(self) -> Origin:
        """Empty where it cannot be read."""
        return read_whole(self.folder / "origin.json", Origin) or Origin()

    @property
    def queue(self) -> str:
        """As ``queue_of``; an earlier version's origin does not tell.

        Raises:
            KeyError, TypeError, AttributeError: the plan, or what is beside it, is none.
        """
        return str(self.origin.get("queue") or queue_of(self.plan, str(self.origin.get("blueprint"))))

    @property
    def is_aside(self) -> bool:
        """Whether it is none of its blueprint's trainings, but a trace of one, its tuning or a notebook."""
        return bool(self.origin.get("aside"))

    @property
    def manifest(self) -> Path:
        """The list of what came back."""
        return self.results / "manifest.json"

    @property
    def has_old_results(self) -> bool:
        """Whether what is here is of another run of its job, such as one that was undeployed."""
        try:
            run = (read_json(self.manifest) or {}).get("run")
        except (ValueError, AttributeError):  # it is damaged
            return False
        job = self.job
        return bool(run and job.get("job_id")) and run != run_of(job)

    @property
    def files(self) -> tuple[ResultFile, ...]:
        """What came back, by the manifest."""
        return self._files([])

    def _files(self, fields: list[str]) -> tuple[ResultFile, ...]:
        try:
            entries = fitted(read_json(self.manifest), _Manifest, fields)["files"]
        except ValueError:
            if self.manifest.exists():
                fields[:] = ["files"]
            return ()
        return tuple(ResultFile(file["path"], file["size"], file["sha256"]) for file in entries)

    @property
    def unread(self) -> list[str]:
        """What its record was found to hold in another form than it is written with, in words."""
        return _damage(self.folder / NAME, self._read[1], "deploy")

    @property
    def unlisted(self) -> list[str]:
        """The same of its manifest."""
        fields: list[str] = []
        self._files(fields)
        return _damage(self.manifest, fields, "results")

    @property
    def damage(self) -> list[str]:
        return [*self.unread, *self.unlisted]

    @property
    def saved(self) -> float:
        """When its plan was last deployed; whoever only looks at it does not change that."""
        try:
            return float((self.folder / _SAVED).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return changed_at(self.plan_file) or 0.0

    @property
    def updated(self) -> float:
        """When the record was last written, in seconds since the epoch; 0 where it does not say."""
        return float(self.record.get("updated", 0))

    @property
    def drafted(self) -> Path:
        """The blueprint that was made of a script which was deployed without one."""
        return self.folder / "service.yaml"

    def save(self, plan: Plan, origin: Origin, drafted: str = "") -> None:
        """Keeps a plan, where it comes from, and its blueprint where that is in no file; it is the newest one of its
        blueprint then, even where another one was deployed since it was first kept."""
        make_private(self.folder)
        if drafted and (not self.drafted.exists() or self.drafted.read_text(encoding="utf-8") != drafted):
            write_whole(self.drafted, drafted)
        for path, value in ((self.plan_file, plan), (self.folder / "origin.json", origin)):
            if read_json(path) != value:  # writing waits for the disk, and most of two hundred plans are there before
                write_json(path, value)
        with open_private(self.folder / _SAVED) as file:
            file.write(f"{time.time():.3f}\n".encode())


def _damage(path: Path, fields: list[str], command: str) -> list[str]:
    return (
        [f"{path} is damaged: no {some_of(fields, 3)} is read from it (modak {command} writes it anew)"]
        if fields
        else []
    )
