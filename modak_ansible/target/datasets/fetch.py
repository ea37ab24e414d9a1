"""Files of addresses: gone on with where an attempt ended, several at a time, and begun anew where they changed."""

from __future__ import annotations

import os
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Callable, Iterable

from ...errors import ModakError
from ..core.files import NO_ROOM, open_private, read_text, sha256_of, write_whole

STREAMS = 4  # files at a time
Note = Callable[[str], None]
_BLOCK = 1 << 20
_ATTEMPTS = 3
_VALIDATOR = ".validator"  # beside what is fetched: what the server called this state of the file


def fetch_all(files: Iterable[dict[str, Any]], location: str, folder: Path, note: Note) -> None:
    """Fetches files into a folder, several at a time; what is there with the right SHA-256 is not fetched again.

    Args:
        files: of a source of a plan.
        location: the address that they lie below, where they have none of their own.
        folder: that gets them.
        note: is told how far it is.

    Raises:
        ModakError: an address cannot be read, a file has another size or SHA-256, or there is no room.
    """
    progress = _Progress(note)
    with ThreadPoolExecutor(STREAMS) as pool:
        tasks = [pool.submit(_fetch_one, file, location, folder, progress) for file in files]
        try:
            for task in tasks:
                task.result()
        except BaseException:
            for task in tasks:
                task.cancel()
            raise


def address_of(file: dict[str, Any], location: str) -> str:
    """Where a file of a source is fetched."""
    return str(file.get("address") or f"{location.rstrip('/')}/{file['name']}")


def _fetch_one(file: dict[str, Any], location: str, folder: Path, progress: _Progress) -> None:
    path, address = folder / file["name"], address_of(file, location)
    if file["sha256"] and path.is_file() and sha256_of(path) == file["sha256"]:
        return
    fetch(address, path, progress.of(path.name), is_known=bool(file["sha256"]))
    found = path.stat().st_size
    if file["size"] is not None and found != file["size"]:
        path.unlink()
        raise ModakError(
            f"{address} has {found} bytes, and {file['size']} were said", hint="mend the size, or fetch later"
        )
    if file["sha256"]:
        digest = sha256_of(path)
        if digest != file["sha256"]:
            path.unlink()
            raise ModakError(
                f"{file['name']} arrived with the SHA-256 {digest}, not {file['sha256']}",
                hint="deploy again to fetch it anew; if it stays so, the source has other data",
            )


class _Progress:
    """One line about several files on their way."""

    def __init__(self, note: Note) -> None:
        self._note = note
        self._done: dict[str, float] = {}
        self._told = 0.0

    def of(self, name: str) -> Callable[[int, int], None]:
        def tell(done: int, total: int) -> None:
            self._done[name] = done
            if time.monotonic() - self._told > 1:
                self._told = time.monotonic()
                share = f" of {total / 1e6:.0f}" if total and len(self._done) == 1 else ""
                what = name if len(self._done) == 1 else f"{len(self._done)} files"
                self._note(f"fetching {what}, {sum(self._done.values()) / 1e6:.0f}{share} MB")

        return tell


def fetch(
    address: str, path: Path, tell: Callable[[int, int], None] = lambda *_: None, *, is_known: bool = True
) -> None:
    """Fetches a file, going on where an earlier attempt ended.

    Args:
        address: http, https or file.
        path: that it is written to.
        tell: gets the bytes that are there, and all of them where that is known, else 0.
        is_known: whether its digest is compared afterwards; a file of which nothing is known is gone on with only
            where the server says that it is still the same.

    Raises:
        ModakError: the address cannot be read, or the disk is full.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            _fetch_once(address, path, tell, is_known=is_known)
        except urllib.error.HTTPError as error:
            if error.code == 416 and path.stat().st_size:  # nothing is left to fetch
                return
            if error.code < 500 or attempt == _ATTEMPTS:
                raise ModakError(f"{address}: {error.code} {error.reason}", hint=_hint(error.code)) from error
            time.sleep(attempt)
        except OSError as error:
            if error.errno in NO_ROOM:
                raise ModakError(f"{NO_ROOM[error.errno]} at {path.parent}", hint="make room there") from error
            reason = getattr(error, "reason", None) or error
            reason = getattr(reason, "strerror", None) or reason
            if isinstance(error, urllib.error.URLError) or attempt == _ATTEMPTS:
                raise ModakError(f"{address}: {reason}") from error
            time.sleep(attempt)
        else:
            return


def _hint(code: int) -> str:
    if code in (401, 403):
        return "it asks for a login: fetch the file yourself, and give its path"
    return "look at the address in a browser" if code == 404 else ""


def _fetch_once(address: str, path: Path, tell: Callable[[int, int], None], *, is_known: bool) -> None:
    begin = path.stat().st_size if path.exists() else 0
    note = path.with_name(f".{path.name}{_VALIDATOR}")
    validator = read_text(note)
    if begin and not (is_known or validator):
        begin = 0
    headers = {"Range": f"bytes={begin}-"} if begin else {}
    if begin and validator:
        headers["If-Range"] = validator
    request = urllib.request.Request(address, headers=headers)  # noqa: S310
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - http(s) and file, as the blueprint says
        resumed = begin and answer.status == 206
        total = int(answer.headers.get("Content-Length") or 0) + (begin if resumed else 0)
        done = begin if resumed else 0
        etag = str(answer.headers.get("ETag") or "")
        if said := (etag if not etag.startswith("W/") else "") or str(answer.headers.get("Last-Modified") or ""):
            write_whole(note, said)
        with open_private(path, os.O_APPEND if resumed else os.O_TRUNC) as file:
            for block in iter(lambda: answer.read(_BLOCK), b""):
                file.write(block)
                done += len(block)
                tell(done, total)
    if total and done < total:
        raise OSError(f"the connection ended after {done} of {total} bytes")
    with suppress(OSError):
        note.unlink()
