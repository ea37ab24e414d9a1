"""Files that a plan lists: where each is fetched, what tells one state of it from another, and whether it arrived."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Mapping, TypedDict
from urllib.parse import quote

from ...errors import ModakError
from ..core.files import sha256_of

if TYPE_CHECKING:  # planning reads this module, too, and makes nothing of that one
    from ..core.plan import DataFile

STREAMS = 4  # files that are fetched at a time
GIT = "git:"  # before a version that is what git calls a file's content
LOGIN = "usually one that asks for a login or for consent: fetch the file in a browser, and give its path"
_BLOCK = 1 << 20
_PAGES = (".html", ".htm", ".xhtml", ".shtml")


class Access(TypedDict, total=False):
    """What a server is shown for files that are not everybody's; it is written down nowhere."""

    headers: Dict[str, str]  # of each request; one that is led to another host goes there without ``Authorization``
    queries: Dict[str, str]  # by file name, what its address ends with: a signature


def address_of(file: DataFile, location: str) -> str:
    """Where a file is fetched; one without an address of its own, whose name may be any, lies below the location."""
    return str(file.get("address") or f"{location.rstrip('/')}/{quote(file['name'], safe='/%')}")


def origin_of(file: Mapping[str, Any]) -> str:
    """What two files have in common that are the same by what is known where they come from; empty where nothing is."""
    version = str(file.get("version") or "")
    return version if not version or version.startswith(GIT) else f"{version} {file.get('address', '')}"


def etag_of(text: str) -> str:
    """A server's name for a state of a file, without what says how exact it is."""
    return (text[2:] if text.startswith("W/") else text).strip('"')


def is_there(file: Mapping[str, Any], path: Path) -> bool:
    """Whether a file need not be fetched; what is as long as it should be and another is removed."""
    if not path.is_file():
        return False
    digest, is_whole = known_digest(file), path.stat().st_size == file["size"]
    if not digest:
        return bool(is_whole and file.get("version"))  # what is gone on with is of this version
    if _digest_of(path, digest) == digest:
        return True
    if is_whole:
        path.unlink()
    return False


def check(file: Mapping[str, Any], path: Path) -> None:
    """
    Raises:
        ModakError: what is there has not the digest that is known of it; it is removed.
    """
    expected = known_digest(file)
    if expected and (digest := _digest_of(path, expected)) != expected:
        hint = "deploy again to fetch it again; if that does not help, the source has different data"
        page_note = "is a web page, and " if is_page(path) else ""
        path.unlink()
        kind = "git's SHA-1" if expected.startswith(GIT) else "the SHA-256"
        raise ModakError(
            f"{file['name']} {page_note}arrived with {kind} {digest.replace(GIT, '')}, not {expected.replace(GIT, '')}",
            hint=LOGIN if page_note else hint,
        )


def is_page(path: Path) -> bool:
    """Whether a file is a web page, such as one that asks for a login, though its name says otherwise."""
    if path.name.lower().endswith(_PAGES) or not path.is_file():
        return False
    with path.open("rb") as file:
        begin = file.read(1024)
    begin = begin.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    is_wrapped = begin.startswith((b"<?xml", b"<!--")) and b"<html" in begin  # it says that it is XML, or a comment
    return is_wrapped or begin.startswith((b"<!doctype html", b"<html"))


def known_digest(file: Mapping[str, Any]) -> str:
    """The SHA-256 that is known of a file, or what git calls its content; empty where neither is."""
    version = str(file.get("version") or "")
    return str(file["sha256"] or "") or (version if version.startswith(GIT) else "")


def _digest_of(path: Path, expected: str) -> str:
    return git_digest(path) if expected.startswith(GIT) else sha256_of(path)


def git_digest(path: Path) -> str:
    """What git calls the content of a file: the SHA-1 of its length and bytes, behind ``git:``."""
    digest = hashlib.new("sha1")  # noqa: S324 - git's own
    digest.update(f"blob {path.stat().st_size}\0".encode())
    with path.open("rb") as file:
        for block in iter(lambda: file.read(_BLOCK), b""):
            digest.update(block)
    return GIT + digest.hexdigest()
