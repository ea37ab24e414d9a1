"""Datasets on the target: verified, whole or absent, one copy for all trainings.

Beside the folder of a dataset lies its manifest, with the size, the SHA-256 and the stamp of each file.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Mapping, Sequence, TypedDict, cast

from ...errors import ModakError
from ..core.background import Activity
from ..core.files import NO_ROOM, files_below, lack_of, link_or_copy, read_json, sha256_of, write_json
from ..core.plan import DataFile, DataSource, PlannedDataset
from ..core.seal import stamp_of
from ..core.site import read_site
from ..core.workspace import MANIFEST, Workspace, manifest_of
from .archive import limit_of, unpack
from .fetch import Note, fetch_all
from .listed import Access, origin_of
from .names import check_case, is_archive, is_packed
from .shards import make_shards

# What our own workloads read of MNIST and the like, among its files.
DESCRIPTION = "dataset.json"
_DESCRIBED = "idx"
_READ_ONLY = 0o400


class StagedFile(TypedDict, total=False):
    """A file of a manifest: its path below the dataset, bytes, and what tells that nobody has changed it since."""

    name: str
    size: int
    sha256: str
    stamp: Any
    origin: str


class Staged(TypedDict, total=False):
    """What lies at the place of a dataset."""

    name: str
    format: str
    source: str
    label: str
    location: str
    staged: str  # when, in UTC
    # files, size: the number and the bytes of its files
    files: int
    size: int
    # path, is_whole, sample, fingerprint, changed: of data that was on the target before, as PresentData finds it
    path: str
    is_whole: bool
    sample: int
    fingerprint: str
    changed: bool


class DatasetStore:
    """One dataset of a workspace.

    Args:
        workspace: where it lies.
        dataset: a dataset of a plan.
    """

    def __init__(self, workspace: Workspace, dataset: PlannedDataset) -> None:
        self._workspace = workspace
        self._dataset = dataset
        self.path = workspace.place(dataset["path"])
        self.partial = self.path.with_name(f".{self.path.name}.part")
        self.wanted = self.path.with_name(f".{self.path.name}.wanted.json")
        # each front end has its own: where their file system shares no locks, two may be at work
        host = re.sub(r"\W", "_", os.uname().nodename, flags=re.ASCII)
        self._unpacked = self.path.with_name(f".{self.path.name}.unpacked.{host}.part")
        self._shards = self.path.with_name(f".{self.path.name}.shards.{host}.part")
        self.activity = Activity(workspace.datasets, self.path.name)
        self.damaged = ""  # the file that is not what was staged, as the last description found it

    def description(self) -> Staged | None:
        """What lies there: source, label, number and bytes of the files; None when it is not there as it was staged.

        A file whose stamp is not the one that it was staged with is read and compared; see the seals of images.
        """
        self.damaged = ""
        if not self.path.is_dir():
            return None
        manifest = manifest_of(self.path)
        record = read_json(manifest)
        try:
            files = [] if record is None else [cast(StagedFile, dict(file)) for file in record["files"]]
            damaged_file = next((file["name"] for file in files if not self._is_intact(file)), "")
        except (KeyError, TypeError, ValueError):
            record, damaged_file = None, ""
        if record is None or damaged_file:
            self.damaged = damaged_file or manifest.name
            return None
        if files != record["files"]:
            with suppress(OSError):
                write_json(manifest, {**record, "files": files})
        return _summary(record, files)

    def _is_intact(self, file: StagedFile) -> bool:
        """Whether a file is the one that was staged; the stamp of one that was only touched or copied is renewed."""
        path = self.path / file["name"]
        try:
            stamp = stamp_of(path)
            if file.get("stamp") != stamp:
                if path.stat().st_size != file["size"] or sha256_of(path) != file["sha256"]:
                    return False
                file["stamp"] = stamp
        except OSError:
            return False
        return True

    def prepare(self, size: int | None, files: Sequence[DataFile] = ()) -> int:
        """Makes a folder to bring the files to; what an interrupted transfer left is still in it.

        Of what is wanted, files that another dataset has are taken over from there.

        Args:
            files: that are wanted, where no manifest of them was brought.

        Returns:
            The number of files that need not be brought.

        Raises:
            ModakError: there is no room for the data.
        """
        self._workspace.create()
        self.partial.mkdir(mode=0o700, exist_ok=True)
        wanted_files = {file["name"]: file for file in (read_json(self.wanted) or {}).get("files", files)}
        present_bytes = 0
        for path in files_below(self.partial):
            file = wanted_files.get(path.relative_to(self.partial).as_posix())
            file_size = path.lstat().st_size
            if wanted_files and (file is None or file_size > file["size"]):
                path.unlink()
            else:
                present_bytes += file_size
        names = self._take_over(wanted_files)
        present_bytes += sum(wanted_files[name]["size"] for name in names)
        self._workspace.require_space(max(0, (size or 0) - present_bytes), f"the dataset {self._dataset['name']}")
        return len(names)

    def _take_over(self, wanted_files: dict[str, DataFile]) -> list[str]:
        """Gives files of other datasets a second name here; it is a change of theirs, which their manifests note."""
        keys = {name: [key for key in (file["sha256"], origin_of(file)) if key] for name, file in wanted_files.items()}
        missing_names = {key: name for name in wanted_files if not (self.partial / name).exists() for key in keys[name]}
        names = []
        for manifest in sorted(self._workspace.datasets.glob(f"*{MANIFEST}")) if missing_names else []:
            folder = manifest.with_name(manifest.name[: -len(MANIFEST)])
            record = read_json(manifest) or {}
            files = record.get("files")
            linked_names = []
            for file in files if isinstance(files, list) else []:  # of what was on the target before, their number
                name = missing_names.get(file.get("sha256")) or missing_names.get(file.get("origin"))
                with suppress(OSError, KeyError):
                    if name and stamp_of(folder / file["name"]) == file["stamp"]:
                        place = self.partial / name
                        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                        os.link(folder / file["name"], place)
                        file["stamp"] = stamp_of(place)
                        linked_names.append(name)
                        for key in keys[name]:
                            missing_names.pop(key, None)
            if linked_names:
                write_json(manifest, record)
                names += linked_names
        return names

    def start_commit(self, source: DataSource) -> bool:
        """Begins to verify and to unpack what was brought; False when that is going on already."""
        if not self.partial.exists() and self.description():
            return False  # whoever asks lost the answer of the first time
        return self.activity.start(lambda activity: _with_room(lambda: self.commit(source, activity), self.path))

    def start_download(self, source: DataSource, site: Mapping[str, Any], access: Access | None = None) -> bool:
        """Begins to fetch the files of a source from here; False when that is going on already."""
        bundle = read_site(site).bundle
        if bundle:
            os.environ["SSL_CERT_FILE"] = bundle
        return self.activity.start(
            lambda activity: _with_room(lambda: self._download(source, access, activity), self.path)
        )

    def _download(self, source: DataSource, access: Access | None, activity: Activity) -> None:
        files = source["files"]
        is_listed = all(file["size"] is not None for file in files)
        self.prepare(sum(file["size"] or 0 for file in files), files if is_listed else ())
        fetch_all(files, source["location"], self.partial, activity.note, access)
        self.commit(source, activity)

    def commit(self, source: DataSource, activity: Activity | None = None) -> Staged:
        """Verifies what was brought, and makes it the dataset in one step.

        Args:
            source: the source it came from, with the files that it must have where no manifest of them was brought.

        Raises:
            ModakError: a file is missing or is not what it should be; it is removed, so that it is fetched again. Or an
                archive cannot be unpacked.
        """
        note = activity.note if activity else lambda _: None
        wanted_files = (read_json(self.wanted) or {}).get("files") or source["files"]
        if not wanted_files:
            raise ModakError(f"nothing of {self._dataset['name']} has arrived", hint="deploy again")
        self._check_case([file["name"] for file in wanted_files])
        files = []
        for number, file in enumerate(wanted_files):
            if number % 500 == 0:
                note(f"verifying {number} of {len(wanted_files)} files")
            files.append(self._verify(file))
        names = {file["name"] for file in files}
        for path in files_below(self.partial):
            if path.relative_to(self.partial).as_posix() not in names:
                path.unlink()
        folder = self.partial
        if source.get("unpack"):
            folder, sizes = self._unpack(source, files, note)
            files = [_entry(folder, path) for path in files_below(folder)]
            self._check_unpacked(files, sizes)
        if self._dataset.get("pack") == "shards":
            folder = self._make_shards(folder, files, note)
            files = [_entry(folder, path) for path in files_below(folder)]
        return self._publish(source, files, folder)

    def _check_case(self, names: list[str]) -> None:
        by_casefold: dict[str, list[str]] = {}
        for name in names:
            by_casefold.setdefault(name.casefold(), []).append(name)
        for twins in by_casefold.values():
            existing = [name for name in twins if (self.partial / name).is_file()]
            if len(existing) > 1:
                check_case(self.partial, existing, f"the dataset {self._dataset['name']}")

    def _verify(self, file: DataFile) -> StagedFile:
        path = self.partial / file["name"]
        if not path.is_file():
            raise ModakError(f"{file['name']} has not arrived at {self.partial}", hint="deploy again: it continues")
        entry = _entry(self.partial, path)
        if origin := origin_of(file):
            entry["origin"] = origin
        if file["sha256"] and entry["sha256"] != file["sha256"]:
            path.unlink()
            raise ModakError(
                f"{file['name']} arrived with the SHA-256 {entry['sha256']}, not {file['sha256']}",
                hint="it changed while it was sent, or on the way: deploy again",
            )
        return entry

    def _unpack(self, source: DataSource, files: list[StagedFile], note: Note) -> tuple[Path, dict[str, int]]:
        """Unpacks what was brought into a folder of its own, which gets the other files, too.

        Returns:
            The folder, and the files that were put there, with their bytes.
        """
        shutil.rmtree(self._unpacked, ignore_errors=True)
        self._unpacked.mkdir(mode=0o700)
        try:
            return self._unpacked, self._unpack_files(source, files, note)
        except BaseException:
            shutil.rmtree(self._unpacked, ignore_errors=True)  # which may be much, and nothing goes on with it
            raise

    def _unpack_files(self, source: DataSource, files: list[StagedFile], note: Note) -> dict[str, int]:
        contents = source.get("unpacked") or {}
        sizes: dict[str, int] = {}
        for file in files:
            path, place = self.partial / file["name"], self._unpacked / file["name"]
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if is_archive(path.name) if source["unpack"] == "archive" else is_packed(path.name):
                limit = limit_of(file["size"], max(contents.get("size") or 0, self._dataset.get("size") or 0))
                folder = os.path.dirname(file["name"])
                members = unpack(path, place.parent, limit, note)
                sizes.update({os.path.join(folder, name): size for name, size in members.items()})
            else:
                link_or_copy(path, place)
                sizes[file["name"]] = file["size"]
        return sizes

    def _check_unpacked(self, files: list[StagedFile], sizes: dict[str, int]) -> None:
        """Makes sure that nobody has removed or changed any of it meanwhile."""
        actual, expected = (len(files), sum(file["size"] for file in files)), (len(sizes), sum(sizes.values()))
        if actual != expected:
            raise ModakError(
                f"{actual[0]} files with {actual[1]} bytes are in {self._unpacked}, where {expected[0]} with "
                f"{expected[1]} were unpacked: something else is writing there",
                hint="deploy again when nothing else is using this workspace",
            )

    def _make_shards(self, folder: Path, files: list[StagedFile], note: Note) -> Path:
        """Packs what was brought into shards, in a folder of their own."""
        shutil.rmtree(self._shards, ignore_errors=True)
        size = sum(file["size"] for file in files)
        self._workspace.require_space(size, f"the shards of the dataset {self._dataset['name']}")
        self._shards.mkdir(mode=0o700)
        make_shards(folder, [file["name"] for file in files], self._shards, note)
        return self._shards

    def _publish(self, source: DataSource, files: list[StagedFile], folder: Path) -> Staged:
        record = {
            "name": self._dataset["name"],
            "format": self._dataset["format"],
            "source": source["kind"],
            "label": source["label"],
            "location": source["location"],
            "staged": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        if self._dataset["format"] == _DESCRIBED and not (folder / DESCRIPTION).exists():
            write_json(folder / DESCRIPTION, record)
        if self.path.exists():
            shutil.rmtree(self.path)
        write_json(manifest_of(self.path), {**record, "files": files})
        folder.rename(self.path)
        for leftover in (self.partial, self._unpacked, self._shards):
            shutil.rmtree(leftover, ignore_errors=True)
        self.wanted.unlink(missing_ok=True)
        return _summary(record, files)


def _entry(folder: Path, path: Path) -> StagedFile:
    """What a manifest says of a file, which nobody is to write any more."""
    if path.stat().st_mode & 0o777 != _READ_ONLY:
        path.chmod(_READ_ONLY)
    stamp, digest = stamp_of(path), sha256_of(path)
    name = path.relative_to(folder).as_posix()
    return {"name": name, "size": path.stat().st_size, "sha256": digest, "stamp": stamp}


def _summary(record: Mapping[str, Any], files: list[StagedFile]) -> Staged:
    return cast(Staged, {**record, "files": len(files), "size": sum(file["size"] for file in files)})


def _with_room(work: Any, path: Path) -> None:
    """Does work that writes.

    Raises:
        ModakError: there is no room for it.
    """
    try:
        work()
    except OSError as error:
        if error.errno in NO_ROOM:
            hint = "make room there, and deploy again: it continues where it stopped"
            raise ModakError(f"{lack_of(error, path.parent)} at {path.parent}", hint=hint) from error
        raise
