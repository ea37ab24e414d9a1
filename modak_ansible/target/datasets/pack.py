"""A dataset of many files as one squashfs image: made once of its folder, verified, and shared by who reads it.

A parallel file system answers a few questions for each file that is opened, and few of them a second; of an image it is
asked once. The image lies beside the place of the folder and has its name, ends in .sqsh, and is sealed as containers'
images are.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypedDict, cast

from ...errors import ModakError
from ..core.background import Activity
from ..core.commands import TimedRun, find_program, full_environment
from ..core.files import NO_ROOM, lack_in, read_json, sha256_of, tail, write_json, write_whole
from ..core.plan import PlannedDataset
from ..core.seal import is_intact, write_seal
from ..core.workspace import Workspace

ENDING = ".sqsh"
_NEEDS = "have squashfs-tools installed, which Apptainer also needs to build images, or set pack: none"
# Stored as they are: photographs and archives become no smaller, and are packed in a fifth of the time. Small files
# share blocks of 128 KiB, which a file system that answers late hands over at once (benchmarks/findings.md).
_PLAIN = ("-noI", "-noD", "-noF", "-noX")
_LOOK_SECONDS = 1.0
_LISTING_SECONDS = 900.0
# -rw-r--r-- user/group   12345 2026-11-23 04:00 squashfs-root/a/b; a group may be called domain users
_LISTED = re.compile(r"-[rwxsStT-]{9} .+?\s(\d+) \d{4}-\d\d-\d\d \d\d:\d\d ", re.ASCII)


class Packed(TypedDict, total=False):
    """What an image holds, and how it was made."""

    files: int  # their number
    size: int  # their bytes
    of: str  # the digest of their names, sizes and dates
    packed: int  # bytes of the image
    sha256: str  # of the image
    seconds: float  # that it took
    made: str  # when, in UTC


class _Folder(NamedTuple):
    """Number and bytes of a folder's files, and a digest of their names, sizes and dates."""

    files: int
    size: int
    digest: str


class PackedData:
    """The image of a dataset.

    Args:
        workspace: where it lies.
        dataset: a dataset of a plan.
    """

    def __init__(self, workspace: Workspace, dataset: PlannedDataset) -> None:
        self._workspace = workspace
        self._name = dataset["name"]
        self.folder = workspace.place(dataset["path"])
        self.image = packed(self.folder)
        self._seal = self.image.with_name(f"{self.image.name}.seal")
        self._about = about_of(self.image)
        self.activity = Activity(workspace.datasets, self.image.name)

    def description(self) -> Packed | None:
        """What was packed.

        None where the image is not there, or is no longer the one that was made.
        """
        record = read_json(self._about)
        if record is None or not self.image.is_file() or not is_intact(self.image, self._seal):
            return None
        return cast(Packed, record)

    def start(self) -> bool:
        """Begins to pack the folder; False when that is going on already."""
        return self.activity.start(self.make)

    def make(self, activity: Activity) -> None:
        """Packs the folder, whole or not at all.

        Raises:
            ModakError: there is no mksquashfs, no room, or the folder changes meanwhile.
        """
        part = self.image.with_name(f".{self.image.name}.part")
        began = time.time()
        part.unlink(missing_ok=True)  # what a killed packing left
        try:
            record = self._pack(part, activity)
            activity.note("checking the image")
            digest = sha256_of(part)
            write_whole(self._seal, f"{digest} unknown\n")  # a job that begins meanwhile reads all of the image
            record.update({"packed": part.stat().st_size, "sha256": digest, "seconds": round(time.time() - began, 1)})
            record["made"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            write_json(self._about, record)
            part.replace(self.image)
            write_seal(self._seal, self.image, digest)
        except OSError as error:
            if error.errno in NO_ROOM:
                raise _no_room(NO_ROOM[error.errno], self.image) from error
            raise
        finally:
            part.unlink(missing_ok=True)

    def _pack(self, part: Path, activity: Activity) -> Packed:
        program = find_program("mksquashfs")
        if program is None:
            raise ModakError(f"mksquashfs, which packs the dataset {self._name}, is not on the target", hint=_NEEDS)
        activity.note("counting files")
        contents = held(self.folder)
        self._workspace.require_space(contents.size, f"the image of the dataset {self._name}")
        words = [program, str(self.folder), str(part), "-noappend", "-no-progress", "-no-xattrs", *_PLAIN]
        with subprocess.Popen(words, stdin=subprocess.DEVNULL, env={**full_environment(), "LC_ALL": "C"}) as process:
            while process.poll() is None:
                with suppress(FileNotFoundError):
                    written, total = part.stat().st_size / 1e6, contents.size / 1e6
                    activity.note(f"packing {contents.files} files, {written:.0f} of {total:.0f} MB")
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_LOOK_SECONDS)
        if process.returncode:
            sys.stdout.flush()
            lines = [line for line in tail(activity.log, 20) if line.strip()]
            lack = lack_in("\n".join(lines))
            if lack:
                raise _no_room(lack, self.image)
            message = lines[-1] if lines else f"it ended with {process.returncode}"
            raise ModakError(f"mksquashfs could not pack {self.folder}: {message}", hint=f"see {activity.log}")
        if held(self.folder) != contents:
            raise ModakError(
                f"{self.folder} changed while it was being packed", hint="deploy again when nothing writes there"
            )
        self._check(part, contents)
        return {"files": contents.files, "size": contents.size, "of": contents.digest}

    def _check(self, part: Path, contents: _Folder) -> None:
        """Compares what the image says that it holds with what was to be packed."""
        program = find_program("unsquashfs")
        if program is None:
            raise ModakError("unsquashfs, which checks what was packed, is not on the target", hint=_NEEDS)
        listing = TimedRun(timeout=_LISTING_SECONDS)([program, "-lls", str(part)])
        sizes = [int(match.group(1)) for match in map(_LISTED.match, listing.out.splitlines()) if match]
        if listing.code or (len(sizes), sum(sizes)) != (contents.files, contents.size):
            reason = listing.message if listing.code else f"{len(sizes)} files of {sum(sizes)} bytes"
            raise ModakError(
                f"the image of {self.folder} does not hold its {contents.files} files: {reason}", hint="deploy again"
            )

    def drop_folder(self) -> bool:
        """Removes the folder, which the image stands for; tells whether it was there.

        To be called by who knows that nobody else uses it, and keeps others from it meanwhile.
        """
        if not self.folder.is_dir() or self.description() is None:
            return False
        trash = self.folder.with_name(f".{self.folder.name}.part")
        shutil.rmtree(trash, ignore_errors=True)
        self.folder.rename(trash)
        shutil.rmtree(trash, ignore_errors=True)
        return True


def packed(folder: Path) -> Path:
    return folder.with_name(folder.name + ENDING)


def about_of(image: Path) -> Path:
    """What is written of an image; its date says when the image was used last."""
    return image.with_name(f"{image.name}.json")


def held(folder: Path) -> _Folder:
    """What a folder holds.

    Raises:
        OSError: it cannot be read.
    """
    count = size = 0
    digest = hashlib.sha256()
    for parent, folders, names in os.walk(folder, onerror=_raise):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(parent, name)
            status = os.lstat(path)
            digest.update(os.fsencode(f"{path[len(str(folder)) :]}\0{status.st_size} {status.st_mtime_ns}\0"))
            if not os.path.islink(path):
                count, size = count + 1, size + status.st_size
    return _Folder(count, size, digest.hexdigest())


def _raise(error: OSError) -> None:
    raise error


def _no_room(lack: str, image: Path) -> ModakError:
    return ModakError(
        f"{lack} at {image.parent}: the image of {image.stem} does not fit", hint="make room there, or set pack: none"
    )
