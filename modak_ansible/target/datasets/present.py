"""Data that was on the target before: looked at and never copied, and looked at again by the job.

The fingerprint of a folder is taken within a bounded time, whatever lies there. At most so many entries are looked at,
in the order of their names; of the files among them, some that lie evenly between the first and the last are the
sample, each with its size and its first bytes. The job compares the sizes of the sample as its node sees them.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from pathlib import Path
from typing import Iterator

from ...errors import ModakError
from ..core.files import read_json, write_json, write_whole
from ..core.plan import PlannedDataset
from ..core.workspace import Workspace, manifest_of, resolved
from .dataset import Staged

MOST_ENTRIES = 200_000
SECONDS = 20.0
SAMPLE = 64  # files
HEAD = 4096  # bytes of each
VIEW = ".view"


class PresentData:
    """A path on the target that a plan names.

    Args:
        workspace: that keeps what was found of it.
        dataset: a dataset of a plan.
    """

    def __init__(self, workspace: Workspace, dataset: PlannedDataset) -> None:
        self._dataset = dataset
        self._workspace = workspace
        self._known = workspace.place(dataset["path"])

    def look(self, *, keep: bool) -> Staged:
        """Looks at the path: kind, number and bytes of the files, a fingerprint, and whether all were counted.

        Args:
            keep: whether what is found is kept, for the job to compare its own view with.

        Raises:
            ModakError: there is no such path, it cannot be read, or nothing is in it.
        """
        location = self._dataset["sources"][0]["location"]
        path = resolved(location)
        try:
            facts, sample = _fingerprint(path)
        except OSError as error:
            culprit = error.filename or path
            raise ModakError(
                f"the dataset {self._dataset['name']}: {os.fsdecode(culprit)} on the target: {error.strerror}",
                hint="on_target must be a path on the front end; give source: for data on this machine",
            ) from error
        if facts["is_whole"] and not facts["files"]:
            raise ModakError(f"the dataset {self._dataset['name']}: nothing is in {path} on the target")
        previous = read_json(manifest_of(self._known)) or {}
        comparable = facts["is_whole"] and previous.get("is_whole", False)
        facts["changed"] = bool(comparable and previous["fingerprint"] != facts["fingerprint"])
        if keep:
            self._workspace.create()
            view = [str(path), *(word for name, size in sample for word in (str(size), name))]
            write_whole(
                self._known.with_name(self._known.name + VIEW), b"".join(os.fsencode(word) + b"\0" for word in view)
            )
            write_json(manifest_of(self._known), {key: value for key, value in facts.items() if key != "changed"})
        return facts


def _fingerprint(path: Path) -> tuple[Staged, list[tuple[str, int]]]:
    began = time.monotonic()
    files: list[tuple[str, int]] = []
    is_whole = True
    if stat.S_ISDIR(path.stat().st_mode):
        for entries, (name, size) in enumerate(_walk(path, "")):
            if size >= 0:
                files.append((name, size))
            if entries >= MOST_ENTRIES or time.monotonic() - began > SECONDS:
                is_whole = False
                break
    else:
        files = [("", path.stat().st_size)]
    indices = sorted({number * (len(files) - 1) // max(1, SAMPLE - 1) for number in range(SAMPLE)}) if files else []
    sample = [files[number] for number in indices]
    digest = hashlib.sha256(f"{len(files)} {sum(size for _, size in files)}".encode())
    for name, size in sample:
        digest.update(os.fsencode(f"\0{size} {name}\0"))
        with open(os.fsdecode(os.fsencode(str(path)) + os.fsencode(name)), "rb") as file:
            digest.update(file.read(HEAD))
    facts: Staged = {
        "path": str(path),
        "files": len(files),
        "size": sum(size for _, size in files),
        "is_whole": is_whole,
        "sample": len(sample),
        "fingerprint": digest.hexdigest(),
    }
    return facts, sample


def _walk(folder: Path, prefix: str) -> Iterator[tuple[str, int]]:
    """The entries below a folder in order: a file with its size, anything else with -1; links to folders are not
    followed, so that none leads round in a circle."""
    with os.scandir(folder) as scan:
        entries = sorted(scan, key=lambda entry: entry.name)
    for entry in entries:
        name = f"{prefix}/{entry.name}"
        if entry.is_dir(follow_symlinks=False):
            yield name, -1
            yield from _walk(Path(entry.path), name)
        elif entry.is_file():
            yield name, entry.stat().st_size
        else:
            yield name, -1
