"""Datasets on the target: verified, whole or absent, one copy for all trainings."""

from __future__ import annotations

import os
import shutil
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...errors import ModakError
from ..core.background import Activity
from ..core.files import NO_ROOM, open_private, read_json, sha256_of, write_json
from ..core.seal import stamp_of
from ..core.site import read_site
from ..core.workspace import Workspace

DESCRIPTION = "dataset.json"
_BLOCK = 1 << 20
_ATTEMPTS = 3


class DatasetStore:
    """One dataset of a workspace.

    Args:
        workspace: where it lies.
        dataset: the ``dataset`` of a plan.
    """

    def __init__(self, workspace: Workspace, dataset: dict[str, Any]) -> None:
        self._workspace = workspace
        self._dataset = dataset
        self.path = workspace.place(dataset["path"])
        self.partial = self.path.with_name(f".{self.path.name}.part")
        self.activity = Activity(workspace.datasets, self.path.name)
        self.damaged = ""  # the file that is not what was staged, as the last description found it

    def description(self) -> dict[str, Any] | None:
        """What lies there: source, label, files with sizes and digests; None when it is not there as it was staged.

        A file whose stamp is not the one that it was staged with is read and compared; see the seals of images.
        """
        self.damaged = ""
        if not self.path.is_dir():
            return None
        known = read_json(self.path / DESCRIPTION)
        try:
            files = [] if known is None else [dict(file) for file in known["files"]]
            damaged = next((file["name"] for file in files if not self._is_intact(file)), "")
        except (KeyError, TypeError, ValueError):
            known, damaged = None, ""
        if known is None or damaged:
            self.damaged = damaged or DESCRIPTION
            return None
        if files != known["files"]:
            known = {**known, "files": files}
            with suppress(OSError):
                write_json(self.path / DESCRIPTION, known)
        return known

    def _is_intact(self, file: dict[str, Any]) -> bool:
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

    def prepare(self, size: int | None) -> Path:
        """A folder to bring the files to; what an interrupted transfer left is still in it.

        Raises:
            ModakError: there is no room for the data.
        """
        self._workspace.create()
        self.partial.mkdir(mode=0o700, exist_ok=True)
        have = sum(path.stat().st_size for path in self.partial.iterdir() if path.is_file())
        self._workspace.require_space(max(0, (size or 0) - have), f"the dataset {self._dataset['name']}")
        return self.partial

    def commit(self, source: dict[str, Any]) -> dict[str, Any]:
        """Verifies what was brought, and makes it the dataset in one step.

        Args:
            source: the source it came from, with the files that it must have.

        Raises:
            ModakError: a file is missing or is not what it should be; it is removed, so that it is fetched again.
        """
        files = []
        for file in source["files"]:
            path = self.partial / file["name"]
            if not path.is_file():
                raise ModakError(f"{file['name']} has not arrived at {self.partial}")
            stamp, digest = stamp_of(path), sha256_of(path)
            if file["sha256"] and digest != file["sha256"]:
                path.unlink()
                raise ModakError(
                    f"{file['name']} arrived with the SHA-256 {digest}, not {file['sha256']}",
                    hint="deploy again to fetch it anew; if it stays so, the source has other data",
                )
            files.append({"name": file["name"], "size": path.stat().st_size, "sha256": digest, "stamp": stamp})
        wanted = {file["name"] for file in files}
        for path in self.partial.iterdir():
            if path.name not in wanted:
                path.unlink()
        known = {
            "name": self._dataset["name"],
            "format": self._dataset["format"],
            "source": source["kind"],
            "label": source["label"],
            "location": source["location"],
            "files": files,
            "staged": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        write_json(self.partial / DESCRIPTION, known)
        if self.path.exists():
            shutil.rmtree(self.path)
        self.partial.rename(self.path)
        return known

    def start_download(self, source: dict[str, Any], site: dict[str, Any]) -> bool:
        """Begins to fetch the files of a source from here; False when that is going on already."""
        self._apply_site(site)
        return self.activity.start(lambda activity: self._download(source, activity))

    # --- in the background

    def _download(self, source: dict[str, Any], activity: Activity) -> None:
        folder = self.prepare(sum(file["size"] or 0 for file in source["files"]))
        for file in source["files"]:
            path = folder / file["name"]
            if path.is_file() and sha256_of(path) == file["sha256"]:
                continue
            fetch(source["location"].rstrip("/") + "/" + file["name"], path, activity)
        self.commit(source)

    @staticmethod
    def _apply_site(site: dict[str, Any]) -> None:
        bundle = read_site(site).bundle
        if bundle:
            os.environ.setdefault("SSL_CERT_FILE", bundle)


def fetch(address: str, path: Path, activity: Activity | None = None) -> None:
    """Fetches a file, going on where an earlier attempt ended.

    Raises:
        ModakError: the address cannot be read, or the disk is full.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            _fetch_once(address, path, activity)
        except urllib.error.HTTPError as error:
            if error.code == 416 and path.stat().st_size:  # nothing is left to fetch
                return
            raise ModakError(f"{address}: {error.code} {error.reason}") from error
        except OSError as error:
            if error.errno in NO_ROOM:
                raise ModakError(f"{NO_ROOM[error.errno]} at {path.parent}", hint="make room there") from error
            reason = getattr(error, "reason", None) or error
            reason = getattr(reason, "strerror", None) or reason
            refused = isinstance(error, urllib.error.URLError)
            if refused or attempt == _ATTEMPTS:
                raise ModakError(f"{address}: {reason}") from error
            time.sleep(attempt)
        else:
            return


def _fetch_once(address: str, path: Path, activity: Activity | None) -> None:
    begin = path.stat().st_size if path.exists() else 0
    request = urllib.request.Request(address, headers={"Range": f"bytes={begin}-"} if begin else {})  # noqa: S310
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - http(s) and file, as the blueprint says
        resumed = begin and answer.status == 206
        total = int(answer.headers.get("Content-Length") or 0) + (begin if resumed else 0)
        done = begin if resumed else 0
        with open_private(path, os.O_APPEND if resumed else os.O_TRUNC) as file:
            while True:
                block = answer.read(_BLOCK)
                if not block:
                    break
                file.write(block)
                done += len(block)
                if activity:
                    share = f" of {total / 1e6:.0f}" if total else ""
                    activity.note(f"fetching {path.name}, {done / 1e6:.0f}{share} MB")
    if total and done < total:
        raise OSError(f"the connection ended after {done} of {total} bytes")
