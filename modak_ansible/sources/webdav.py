"""Files of a server that speaks WebDAV, such as Nextcloud, dCache and most storage of centres.

The login is that of ``~/.netrc`` for the server's host, or of the file that ``NETRC`` names.
"""

from __future__ import annotations

import base64
import netrc
import os
import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, ClassVar, NamedTuple
from urllib.parse import quote, unquote, urljoin, urlsplit

from modak_ansible.errors import unwrapped
from modak_ansible.model.dataset import DataFile, DataSource
from modak_ansible.sources.base import SourceProblem, Unreached
from modak_ansible.sources.listed import ListedSource, Listing, nothing_in, path_not_found, root_of, select_names
from modak_ansible.target.core.files import expanded
from modak_ansible.target.datasets.listed import Access, etag_of

if TYPE_CHECKING:
    from urllib.error import HTTPError

_SCHEMES = {"webdav": "http", "webdavs": "https", "dav": "http", "davs": "https"}
_PLACE = re.compile(
    r"(?P<scheme>\w+)://(?P<host>(?:[A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9a-fA-F:]+\])(?::\d{1,5})?)(?P<path>/.*)?"
)
_FORM = "webdavs://HOST/FOLDER, a file or a pattern"
_SECONDS = 30
_ASKED = b"""<?xml version="1.0" encoding="utf-8"?>
<propfind xmlns="DAV:"><prop><resourcetype/><getcontentlength/><getetag/><getlastmodified/></prop></propfind>"""
_HERE = ("localhost", "127.0.0.1", "::1")


class _Entry(NamedTuple):
    """What a server says of a path; ``size`` is None for a folder."""

    path: str
    size: int | None
    version: str


class WebDav(ListedSource):
    """Fetched by the target itself, which is shown the login while it does; else from here."""

    kinds: ClassVar[tuple[str, ...]] = ("webdav",)
    order = 5

    def knows(self, text: str) -> bool:
        return text.partition("://")[0] in _SCHEMES and "://" in text

    def listing(self, text: str) -> Listing:
        server, path = _place(text)
        # the last part of what is no pattern may be a file, which is listed with the folder that it lies in
        root = root_of(path)
        files: dict[str, DataFile] = {}
        waiting, visited = [f"/{root}"], set()
        while waiting:
            folder = waiting.pop()
            visited.add(folder)
            for entry in _entries(server, folder, text):
                name = entry.path.strip("/")
                if entry.size is not None:
                    address = server + quote(entry.path, safe="/~")
                    files[name] = DataFile(name=name, size=entry.size, version=entry.version, address=address)
                elif f"/{name}" not in visited:
                    waiting.append(f"/{name}")
        if not files and _entries(server, f"/{root}", text):
            raise nothing_in(text)
        if not files:
            above = _entries(server, f"/{root.rpartition('/')[0]}", text)
            raise path_not_found(root, server, [PurePosixPath(entry.path).name for entry in above])
        names = select_names(files, path, server)
        return Listing(
            text, tuple(files[remote].model_copy(update={"name": name}) for name, remote in sorted(names.items()))
        )

    def fetched(self, source: DataSource, files: Sequence[DataFile]) -> tuple[list[DataFile], Access] | None:
        headers = _login(_place(source.location)[0])
        return list(files), {"headers": headers} if headers else {}


def _place(text: str) -> tuple[str, str]:
    """The server's address, and the path there without its first stroke, both as they are meant."""
    match = _PLACE.fullmatch(text)
    if not match:
        if re.search("://[^/]*@", text):  # what may be a password is not repeated
            raise SourceProblem("the address holds a login", "machine HOST login NAME password WORD, in ~/.netrc")
        raise SourceProblem(f"{text} names no server", _FORM)
    path = unquote((match["path"] or "").strip("/"))
    if ".." in path.split("/"):
        raise SourceProblem(f"{text} leads out of its folder", _FORM)
    return f"{_SCHEMES[match['scheme']]}://{match['host']}", path


def _login(server: str) -> dict[str, str]:
    """
    Raises:
        SourceProblem: the file with the logins is damaged, or anybody could read the login on its way.
    """
    host = urlsplit(server).hostname or ""
    path = expanded(os.environ.get("NETRC") or "~/.netrc")
    if not path.is_file():
        return {}
    try:
        credentials = netrc.netrc(str(path)).authenticators(host)
    except (OSError, UnicodeDecodeError, netrc.NetrcParseError) as error:
        # the parser's own words may hold what stands there
        line = getattr(error, "lineno", None)
        where = f"{path}:{line}" if line else str(path)
        raise SourceProblem(
            f"the logins in {where} cannot be read", f"machine {host} login NAME password WORD"
        ) from None
    if not credentials:
        return {}
    if server.startswith("http:") and host not in _HERE:
        reason = f"the login for {host} is not sent to webdav://, where anybody on the way could read it"
        raise SourceProblem(reason, "webdavs://")
    word = base64.b64encode(f"{credentials[0]}:{credentials[2]}".encode()).decode()
    return {"Authorization": f"Basic {word}"}


def _entries(server: str, folder: str, text: str) -> list[_Entry]:
    """What lies in a folder; of a file, itself.

    Raises:
        SourceProblem: it is not there, may not be listed, or the server does not speak WebDAV.
    """
    url = server + quote(folder if folder == "/" else f"{folder}/", safe="/~")
    answer = _propfind(server, url, text)
    if answer is None and folder != "/":
        url = server + quote(folder, safe="/~")  # a file, which some servers do not know with a stroke behind it
        answer = _propfind(server, url, text)
    if answer is None:
        return []
    from xml.etree import ElementTree as Xml  # noqa: PLC0415 - a plan without WebDAV needs none

    try:
        root = Xml.fromstring(answer)  # noqa: S314 - expat bounds what entities grow to
    except Xml.ParseError as error:
        raise SourceProblem(f"{url} does not answer as a WebDAV server", _FORM) from error
    entries = []
    for response in root.iter("{DAV:}response"):
        href = urlsplit(urljoin(url, response.findtext("{DAV:}href") or ""))
        path = unquote(href.path)
        is_within = path.rstrip("/").startswith(folder.rstrip("/")) and ".." not in path.split("/")
        props = [prop for prop in response.iter("{DAV:}prop") if len(prop)]
        if not is_within or not props:
            continue
        if any(prop.find("{DAV:}resourcetype/{DAV:}collection") is not None for prop in props):
            entries.append(_Entry(path, None, ""))
            continue
        properties = {child.tag: child.text or "" for prop in props for child in prop if child.text}
        size = properties.get("{DAV:}getcontentlength", "")
        if not size.isdigit():
            raise SourceProblem(f"{server} does not say how large {path} is", "fetch it yourself")
        version = etag_of(properties.get("{DAV:}getetag", "")) or properties.get("{DAV:}getlastmodified", "")
        entries.append(_Entry(path, int(size), version))
    return entries


def _propfind(server: str, url: str, text: str) -> bytes | None:
    """The answer of a server; None where nothing is there."""
    # what asks a server is slow to import, and a plan without WebDAV asks none
    from urllib.error import HTTPError  # noqa: PLC0415
    from urllib.request import Request, build_opener  # noqa: PLC0415

    from modak_ansible.target.datasets.fetch import Redirects  # noqa: PLC0415

    headers = {"Depth": "1", "Content-Type": "application/xml", **_login(server)}
    request = Request(url, data=_ASKED, headers=headers, method="PROPFIND")  # noqa: S310
    try:
        with build_opener(Redirects).open(request, timeout=_SECONDS) as answer:
            if answer.status != 207:
                raise SourceProblem(f"{url} does not speak WebDAV", "an https:// address fetches files")
            return bytes(answer.read())
    except HTTPError as error:
        if error.code == 404:
            return None
        raise _refused(server, url, error) from error
    except OSError as error:
        hint = "the name of the host, and the network of this machine; or fetch it, and give its path"
        raise Unreached(f"{text} cannot be asked: {unwrapped(error)}", hint) from error


def _refused(server: str, url: str, error: HTTPError) -> SourceProblem:
    host = urlsplit(server).hostname
    if error.code in (401, 403):
        where = os.environ.get("NETRC") or "~/.netrc"
        hint = f"machine {host} login NAME password WORD, there; chmod 600"
        if _login(server):
            return SourceProblem(f"{url} refuses the login in {where}", hint)
        return SourceProblem(f"{url} requires a login, and there is none in {where}", hint)
    if error.code in (301, 302, 307, 308):
        return SourceProblem(f"{url} redirects to {error.headers.get('Location')}", "use that address")
    if error.code in (405, 501):
        return SourceProblem(f"{url} does not speak WebDAV", "an https:// address fetches files")
    return SourceProblem(f"{url}: {error.code} {error.reason}", "try again later")
