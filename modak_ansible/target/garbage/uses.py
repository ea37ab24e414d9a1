"""What of a workspace is in use: by the deployments that lie there, and by those that are under way to it."""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import Iterable, cast

from ...errors import ModakError
from ..core.container import IMAGE_ENDINGS
from ..core.files import Lock, changed_at, read_json, write_json
from ..core.plan import Plan
from ..core.staging import PLAN, SCRIPT, STATE, datasets_of
from ..core.workspace import COMPLETE, Workspace, manifest_of
from ..datasets.pack import ENDING, about_of

# How long what a deployment found or made waits for the deployment's folder, which then says what it uses; in seconds.
RESERVED = 86400.0
_NAMED = re.compile(r"(?:images|datasets)/[A-Za-z0-9_.-]+")


class Uses:
    """Who uses which image and dataset of a workspace.

    Several projects and people may share the workspace, so nothing but what lies in it is asked: the plans of its
    deployments, and reservations, which deployments leave from their first look at an image or a dataset until they
    have a folder of their own.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def lock(self) -> Lock:
        """Held by whoever reserves, and by whoever decides what is removed."""
        return Lock(self._workspace.path / ".uses.lock")

    def reserve(self, deployment: str, paths: Iterable[str]) -> None:
        """Keeps images and datasets for a deployment that is on its way, whether they are there yet or not."""
        self._workspace.create()
        file = self._reservation(deployment)
        with self.lock():
            reserved = (read_json(file) or {}).get("paths", [])
            write_json(file, {"deployment": deployment, "paths": sorted({*reserved, *paths})})
            self.mark(paths)

    def mark(self, paths: Iterable[str]) -> None:
        """Notes that what is there of some images and datasets was used now."""
        for path in paths:
            with suppress(OSError):
                os.utime(used_mark(self._workspace.place(path)))

    def forget(self, deployment: str) -> None:
        """A deployment that is undone needs nothing any more."""
        self._reservation(deployment).unlink(missing_ok=True)

    def users(self) -> dict[Path, list[str]]:
        """The names of the deployments that use an image or a dataset, by its path."""
        by_path: dict[Path, list[str]] = {}
        for name, paths in [*((folder.name, _named_by(folder)) for folder in self._folders()), *self._reserved_paths()]:
            for path in paths:
                with suppress(ModakError):  # it lies where a variable said that has no value any more, and so not here
                    users = by_path.setdefault(self._workspace.place(path), [])
                    if name not in users:
                        users.append(name)
        return by_path

    def unreadable(self) -> list[Path]:
        """The folders of deployments that do not tell what they use."""
        return [folder for folder in self._folders() if not _texts(folder)]

    def brought(self) -> list[Path]:
        """The folders of deployments of other hosts, whose ranks run here or did, and were not removed by their end."""
        states = [folder / STATE for folder in self._folders()]
        return [state.parent for state in states if (state / "brought").exists() and not (state / "claim").exists()]

    def stale_reservations(self) -> list[Path]:
        """Reservations of deployments that have a folder by now, or never came."""
        names = {folder.name for folder in self._folders()}
        return [
            file
            for file in self._reservations()
            if _is_old(file) or (read_json(file) or {}).get("deployment", "") in names
        ]

    def _reserved_paths(self) -> list[tuple[str, list[str]]]:
        reservations = [read_json(file) or {} for file in self._reservations() if not _is_old(file)]
        return [
            (str(reservation.get("deployment", "")), list(reservation.get("paths", []))) for reservation in reservations
        ]

    def _folders(self) -> list[Path]:
        return [path for path in _entries(self._workspace.deployments) if path.is_dir() and path.name[0] != "."]

    def _reservations(self) -> list[Path]:
        return [path for path in _entries(self._workspace.deployments) if path.name.endswith(".uses.json")]

    def _reservation(self, deployment: str) -> Path:
        return self._workspace.deployments / f".{deployment}.uses.json"


def used_mark(path: Path) -> Path:
    """The file whose date says when an image or a dataset was used last, given its path."""
    if path.suffix in IMAGE_ENDINGS:
        return path.with_suffix(".json")
    if path.suffix == ENDING:
        return about_of(path)
    return path / COMPLETE if path.suffix == ".venv" else manifest_of(path)


def is_at_work(workspace: Workspace, folder: Path) -> bool:
    """Whether a process is of a deployment's folder, or one of rsync's brings anything to its workspace."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is another user's
            words = (process / "cmdline").read_bytes().split(b"\0")
            texts = [*words, *(process / "environ").read_bytes().split(b"\0")]
            if any(os.fsencode(folder) + b"/" in text + b"/" for text in texts):
                return True
            if words[0].endswith(b"rsync") and any(os.fsencode(workspace.path) in word for word in words):
                return True
    return False


def paths_of(plan: Plan) -> list[str]:
    """The images and datasets of a plan, as it has them.

    Raises:
        KeyError, TypeError: it is no plan.
    """
    paths = [layer["path"] for layer in plan["image"]["layers"]]
    datasets = datasets_of(plan)
    return paths + [dataset["path"] + (ENDING if dataset.get("pack") == "squashfs" else "") for dataset in datasets]


def _named_by(folder: Path) -> list[str]:
    """What a deployment uses, by its plan; where that is damaged, all that its files name."""
    plan = cast(Plan, read_json(folder / PLAN) or {})
    try:
        return paths_of(plan)
    except (KeyError, TypeError):
        return sorted(set(_NAMED.findall(_texts(folder))))


def _texts(folder: Path) -> str:
    texts = []
    for name in (PLAN, SCRIPT):
        with suppress(OSError):
            texts.append((folder / name).read_text(encoding="utf-8", errors="replace"))
    return "\n".join(texts)


def _is_old(reservation: Path) -> bool:
    date = changed_at(reservation)
    return date is None or time.time() - date > RESERVED


def _entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []
