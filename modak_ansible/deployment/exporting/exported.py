"""A run as every tool is given it, and how it comes to lie in a folder: whole, or as it was before."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from modak_ansible.deployment.comparison import ComparedRun, run_of
from modak_ansible.errors import ModakError
from modak_ansible.store.deployment import DeploymentStore
from modak_ansible.target.core.files import mend_of, write_whole
from modak_ansible.target.jobs.situation import LIVING

Folders = Mapping[str, Mapping[str, bytes]]
TOOLS = ("mlflow", "tensorboard", "wandb")


@dataclass(frozen=True)
class Exported:
    """A run with what tools ask of it."""

    run: ComparedRun
    project: str  # the name of its blueprint or request
    digest: str  # of its plan
    # began, ended: seconds since the epoch; 0 and None where nobody knows
    began: float
    ended: float | None

    @property
    def is_over(self) -> bool:
        return self.run.state not in LIVING

    @property
    def identity(self) -> str:
        """64 hexadecimal digits that are this run's alone."""
        return hashlib.sha256(self.run.deployment.encode()).hexdigest()

    def points(self) -> list[tuple[str, int, float, float]]:
        """Name, step, seconds since the epoch and value of all points, by name and step.

        Places that are no whole numbers, such as 0.5 of an epoch, are counted.
        """
        points = []
        for name in sorted({*self.run.curves.by_name, *self.run.numbers}):
            curve = self.run.curve(name)
            places = list(curve.points) if curve else []
            counts = all(float(place).is_integer() and abs(place) < 2**62 for place in places)
            for number, place in enumerate(places):
                if curve:
                    time = curve.times.get(place, self.began)
                    points.append((name, int(place) if counts else number, time, curve.points[place]))
        return points


def exported_of(store: DeploymentStore) -> Exported:
    plan, job = store.plan, store.job
    return Exported(
        run_of(store),
        str(plan.get("name", "")) or store.name,
        str(plan.get("digest", "")),
        float(job.get("started") or 0.0),
        job.get("ended"),
    )


def export(tool: str, stores: Sequence[DeploymentStore], to: Path) -> tuple[int, int]:
    """Writes runs for a tool; gives how many there are, and how many of them were not there as they are now.

    Args:
        tool: one of TOOLS.
        to: the tool's folder, in which other runs may lie.

    Raises:
        ModakError: the folder cannot be written.
    """
    module = import_module(f"modak_ansible.deployment.exporting.{tool}")
    folders: Callable[[Exported], Folders] = module.folders
    beside: Callable[[Exported], Mapping[str, bytes]] = getattr(module, "beside", lambda _: {})
    count = changed = 0
    for run in map(exported_of, stores):
        if not run.points():
            continue
        try:
            news = [_placed(to / name, files) for name, files in folders(run).items()]
            for name, data in beside(run).items():
                if not (to / name).exists():  # a user may have changed it with the tool
                    write_whole(to / name, data)
        except OSError as error:
            words = f"{error.filename or to} cannot be written: {error.strerror}"
            raise ModakError(words, hint=mend_of(error)) from error
        count, changed = count + 1, changed + any(news)
    return count, changed


def _placed(folder: Path, files: Mapping[str, bytes]) -> bool:
    """Puts a folder in its place at once, unless it is there with these files; tells whether it was not."""
    if folder.is_dir() and _contents(folder) == {name: data for name, data in files.items() if name[-1] != "/"}:
        return False
    part = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    old = folder.with_name(f".{folder.name}.{os.getpid()}.old")
    try:
        for name, data in files.items():
            (part / name if name.endswith("/") else (part / name).parent).mkdir(parents=True, exist_ok=True)
            if not name.endswith("/"):
                (part / name).write_bytes(data)
        if folder.exists():
            folder.replace(old)
        part.replace(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
    return True


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
