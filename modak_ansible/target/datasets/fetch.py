"""Files of addresses: gone on with where an attempt ended, several at a time, and begun anew where they changed."""

from __future__ import annotations

import os
import string
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any, Callable, Iterable, Mapping, NamedTuple
from urllib.parse import quote, urlsplit

from ...errors import ModakError, NotReached, unwrapped
from ..core.files import NO_ROOM, open_private, read_text, write_whole
from ..core.plan import DataFile
from .listed import GIT, LOGIN, STREAMS, Access, address_of, check, etag_of, is_page, is_there, known_digest

Note = Callable[[str], None]
_BLOCK = 1 << 20
_ATTEMPTS = 3
_LONGEST_WAIT = 60.0  # seconds, of what a server asks for that is asked too often
_VALIDATOR = ".validator"  # beside what is fetched: what the server called this state of the file


def fetch_all(files: Iterable[DataFile], location: str, folder: Path, note: Note, access: Access | None = None) -> None:
    """Fetches files into a folder, several at a time; what is there with the right digest is not fetched again.

    Args:
        files: of a source of a plan.
        location: the address that they lie below, where they have none of their own.

    Raises:
        NotReached: an address does not answer.
        ModakError: it cannot be read, a file has another size, digest or version, or there is no room.
    """
    progress = _Progress(note)
    with ThreadPoolExecutor(STREAMS) as pool:
        tasks = [pool.submit(_fetch_one, file, location, folder, progress, access or {}) for file in files]
        try:
            for task in tasks:
                task.result()
        except BaseException:
            for task in tasks:
                task.cancel()
            raise


def _fetch_one(file: DataFile, location: str, folder: Path, progress: _Progress, access: Access) -> None:
    path, address, version = folder / file["name"], address_of(file, location), file.get("version") or ""
    if is_there(file, path):
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fetch(
        address,
        path,
        progress.callback_for(path),
        is_known=bool(file["sha256"] or version),
        query=access.get("queries", {}).get(file["name"], ""),
        headers=access.get("headers"),
        version="" if version.startswith(GIT) else version,
    )
    if not known_digest(file) and is_page(path):
        path.unlink()
        raise ModakError(f"{address} returned a web page instead of {path.name}", hint=LOGIN)
    file_size = path.stat().st_size
    if not file_size and file["size"] is None and not file["sha256"]:
        path.unlink()
        raise ModakError(f"{address} returned 0 bytes", hint="open the address in a browser")
    if file["size"] is not None and file_size != file["size"]:
        path.unlink()
        raise ModakError(f"{address} has {file_size} bytes, not {file['size']}", hint="correct the size, or try later")
    check(file, path)


class _Progress:
    """One line about several files on their way."""

    def __init__(self, note: Note) -> None:
        self._note = note
        self._received: dict[Path, int] = {}
        self._last_note = 0.0

    def callback_for(self, path: Path) -> Callable[[int, int], None]:
        def tell(received: int, total: int) -> None:
            self._received[path] = received
            if time.monotonic() - self._last_note > 1:
                self._last_note = time.monotonic()
                share = f" of {total / 1e6:.0f}" if total and len(self._received) == 1 else ""
                subject = path.name if len(self._received) == 1 else f"{len(self._received)} files"
                self._note(f"fetching {subject}, {sum(self._received.values()) / 1e6:.0f}{share} MB")

        return tell


class _Source(NamedTuple):
    """What is asked of a server."""

    address: str  # as messages have it
    url: str  # as the server is asked
    headers: Mapping[str, str]  # that the server is shown
    version: str  # what the server must call the file; empty where that is not known


def fetch(
    address: str,
    path: Path,
    tell: Callable[[int, int], None] = lambda *_: None,
    *,
    is_known: bool = True,
    query: str = "",
    headers: Mapping[str, str] | None = None,
    version: str = "",
) -> None:
    """Fetches a file, going on where an earlier attempt ended.

    Args:
        address: http, https or file.
        tell: gets the bytes that are there, and all of them where that is known, else 0.
        is_known: whether its digest is compared afterwards; a file of which nothing is known is gone on with only
            where the server says that it is still the same.
        query: what the address ends with, which no message has.
        version: what the server must call the file; empty where that is not known.

    Raises:
        NotReached: the address does not answer.
        ModakError: it cannot be read, has another version, or the disk is full.
    """
    url = _encoded(address)
    source = _Source(address, f"{url}?{query}" if query else url, headers or {}, version)
    attempt = 0  # of those in a row that brought nothing
    while True:
        start = path.stat().st_size if path.exists() else 0
        attempt += 1
        try:
            _fetch_once(source, path, tell, is_known=is_known)
        except urllib.error.HTTPError as error:
            if error.code == 416 and path.stat().st_size:  # nothing is left to fetch
                return
            is_passing = error.code >= 500 or error.code in (408, 429)
            if not is_passing or attempt == _ATTEMPTS:
                reason = str(error.reason).partition("\n")[0]
                raise ModakError(f"{address}: {error.code} {reason}", hint=_hint(error.code, reason)) from error
            time.sleep(_wait_of(error, attempt))
        except (OSError, HTTPException) as error:
            number = getattr(error, "errno", None)
            if number in NO_ROOM:
                raise ModakError(f"{NO_ROOM[number]} at {path.parent}", hint="make room there") from error
            if path.exists() and path.stat().st_size > start:
                attempt = 1
            if attempt == _ATTEMPTS:
                raise _final_error(address, error) from error
            time.sleep(attempt)
        else:
            return


def _encoded(address: str) -> str:
    """An address as its server is asked for it: browsers show letters in it that no request may hold."""
    scheme, _, rest = address.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host}{slash}{quote(path, safe=string.punctuation)}"


def _wait_of(error: urllib.error.HTTPError, attempt: int) -> float:
    """The seconds that a server asks to be left alone, within bounds."""
    delay = str(error.headers.get("Retry-After") or "")
    return min(float(delay), _LONGEST_WAIT) if delay.isdigit() else attempt


_NO_WAY = "check the address, and the network there and here; or fetch the file yourself, and give its path"


def _final_error(address: str, error: Exception) -> ModakError:
    reason = unwrapped(error)
    if isinstance(error, (urllib.error.URLError, ConnectionError)):
        return NotReached(f"{address}: {reason}", hint=_NO_WAY)
    return ModakError(f"{address}: {reason}", hint=_NO_WAY)


def _hint(code: int, reason: str) -> str:
    if code in (401, 403):
        return "it asks for a login: fetch the file yourself, and give its path"
    if code // 100 == 3 and "not allowed" in reason:
        return "it redirects to something that is not a web address: fetch the file yourself, and give its path"
    if code // 100 == 3:
        return "it redirects to itself: open the address in a browser"
    if code == 429:
        return "its server gets too many requests: deploy again later, and it continues where it stopped"
    if code >= 500:
        return "its server fails: deploy again later, and it continues where it stopped"
    return "open the address in a browser" if code in (404, 410) else ""


class Redirects(urllib.request.HTTPRedirectHandler):
    """Keeps a login to the host that it is for."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        request = super().redirect_request(req, fp, code, msg, headers, newurl)
        if request is not None and urlsplit(newurl)[:2] != urlsplit(req.full_url)[:2]:
            request.remove_header("Authorization")
        return request


def _fetch_once(source: _Source, path: Path, tell: Callable[[int, int], None], *, is_known: bool) -> None:
    begin = path.stat().st_size if path.exists() else 0
    note = path.with_name(f".{path.name}{_VALIDATOR}")
    validator = read_text(note)
    if begin and not (is_known or validator):
        begin = 0
    headers = {**source.headers, **({"Range": f"bytes={begin}-"} if begin else {})}
    if begin and validator:
        headers["If-Range"] = validator
    request = urllib.request.Request(source.url, headers=headers)  # noqa: S310
    opener = urllib.request.build_opener(Redirects)  # http(s) and file, as the blueprint says
    with opener.open(request, timeout=30) as answer:
        is_resumed = begin and answer.status == 206
        total = int(answer.headers.get("Content-Length") or 0) + (begin if is_resumed else 0)
        received = begin if is_resumed else 0
        etag, last_modified = (str(answer.headers.get(name) or "") for name in ("ETag", "Last-Modified"))
        if source.version and (etag or last_modified) and source.version not in (etag_of(etag), last_modified):
            raise ModakError(
                f"{source.address} has changed since the plan was made", hint="deploy again, which makes a new plan"
            )
        if new_validator := (etag if not etag.startswith("W/") else "") or last_modified:
            with suppress(OSError):  # beside the longest of names there is room for no other
                write_whole(note, new_validator)
        with open_private(path, os.O_APPEND if is_resumed else os.O_TRUNC) as file:
            for block in iter(lambda: answer.read(_BLOCK), b""):
                file.write(block)
                received += len(block)
                tell(received, total)
    if total and received < total:
        raise OSError(f"the connection ended after {received} of {total} bytes")
    with suppress(OSError):
        note.unlink()
