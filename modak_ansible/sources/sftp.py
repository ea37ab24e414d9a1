"""Files behind SFTP, by OpenSSH: its configuration, keys, agent and connections that are there are used as they are.

What is asked of a server is version 3 of the protocol (draft-ietf-secsh-filexfer-02), which all of them speak.
"""

from __future__ import annotations

import os
import re
import stat
import struct
import subprocess
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO, ClassVar, NamedTuple
from urllib.parse import unquote

from modak_ansible.errors import last_line
from modak_ansible.model.dataset import DataFile, DataSource
from modak_ansible.sources.base import Carrier, SourceProblem, Unreached
from modak_ansible.sources.listed import ListedSource, Listing, nothing_in, path_not_found, root_of, select_names
from modak_ansible.target.core.files import open_private
from modak_ansible.target.datasets.listed import STREAMS, Access

_SCHEME = "sftp://"
_FORM = "sftp://[USER@]HOST[:PORT]/FOLDER, a file or a pattern; /~/ for the home there"
_PLACE = re.compile(
    r"(?:(?P<user>[A-Za-z0-9_][\w.-]*)@)?(?P<host>[A-Za-z0-9][\w.-]*|\[[0-9a-fA-F:]+\])(?::(?P<port>\d{1,5}))?(?P<path>/.*)?"
)
_DEEPEST = 64  # folders in each other: more are links that lead round
_BLOCK, _AHEAD = 32 * 1024, 64  # bytes of a request, and requests under way
_INIT, _VERSION, _OPEN, _CLOSE, _READ, _OPENDIR, _READDIR, _REALPATH, _STAT = 1, 2, 3, 4, 5, 11, 12, 16, 17
_STATUS, _HANDLE, _DATA, _NAME, _ATTRS = 101, 102, 103, 104, 105
_EOF, _NOT_THERE, _DENIED = 1, 2, 3


class _Place(NamedTuple):
    destination: str
    port: str
    path: str

    @property
    def server(self) -> str:
        return f"{_SCHEME}{self.destination}{':' if self.port else ''}{self.port}"


class _Attributes(NamedTuple):
    """What a server says of a path."""

    mode: int
    size: int
    changed: int

    @property
    def version(self) -> str:
        return f"changed {self.changed}"


class Sftp(ListedSource):
    """Fetched here, with the user's own ssh: the target has no key for that server."""

    kinds: ClassVar[tuple[str, ...]] = ("sftp",)
    order = 5

    def knows(self, text: str) -> bool:
        return text.startswith(_SCHEME)

    def listing(self, text: str) -> Listing:
        place = _place(text)
        with _session(place) as session:
            home, path = _home(session, place.path)
            root = root_of(path)
            attributes = {
                name[len(home) :].lstrip("/"): entry for name, entry in _below(session, f"{home}/{root}", place)
            }
            if not attributes and session.attributes_of(f"{home}/{root}"):
                raise nothing_in(text)
            if not attributes:
                above = f"{home}/{root.rpartition('/')[0]}"
                beside = [name for name, _ in session.entries(above)] if session.attributes_of(above) else []
                raise path_not_found(root, f"{place.server}{home}", beside)
        chosen_names = select_names(attributes, path, f"{place.server}{home}")
        files = [
            DataFile(
                name=name,
                size=attributes[remote_name].size,
                version=attributes[remote_name].version,
                address=f"{place.server}{home}/{remote_name}",
            )
            for name, remote_name in sorted(chosen_names.items())
        ]
        return Listing(text, tuple(files))

    def fetched(self, source: DataSource, files: Sequence[DataFile]) -> tuple[list[DataFile], Access] | None:  # noqa: ARG002
        return None

    def download(self, source: DataSource, files: Sequence[DataFile], carrier: Carrier) -> None:
        place = _place(source.location)
        carrier.say(f"fetching {source.location} to this machine")

        def fetch_share(number: int) -> None:
            with _session(place) as session:
                for file in files[number::STREAMS]:
                    _fetch(session, place, file, carrier)

        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - slow to import, and plans fetch nothing

        with ThreadPoolExecutor(STREAMS) as pool:
            for task in [pool.submit(fetch_share, number) for number in range(min(STREAMS, len(files)))]:
                task.result()


def _place(text: str) -> _Place:
    place_text = text.removeprefix(_SCHEME)
    match = _PLACE.fullmatch(place_text)
    if not match:
        # what may be a password is not repeated
        reason = "the address holds a password" if re.search(":.*@", place_text) else f"{text} names no host"
        raise SourceProblem(reason, _FORM)
    path = unquote(match["path"] or "/")
    if ".." in path.split("/") or "\0" in path:
        raise SourceProblem(f"{text} leads out of its folder", _FORM)
    user = f"{match['user']}@" if match["user"] else ""
    return _Place(user + match["host"].strip("[]"), match["port"] or "", path)


def _home(session: Session, path: str) -> tuple[str, str]:
    """Where a path begins, and the rest of it."""
    if path == "/~" or path.startswith("/~/"):
        return session.real("."), path[3:].strip("/")
    return "", path.strip("/")


def _below(session: Session, path: str, place: _Place, depth: int = 0) -> Iterator[tuple[str, _Attributes]]:
    """The files below a folder, links followed; of a file, itself."""
    attributes = session.attributes_of(path)
    if attributes is None:
        return
    if stat.S_ISREG(attributes.mode):
        yield path, attributes
    if not stat.S_ISDIR(attributes.mode):
        return
    if depth > _DEEPEST:
        raise SourceProblem(f"{place.server}{path} is a link that leads back to itself", "remove that link")
    for name, entry in session.entries(path):
        below = f"{path.rstrip('/')}/{name}"
        if stat.S_ISREG(entry.mode):
            yield below, entry
        elif stat.S_ISDIR(entry.mode) or stat.S_ISLNK(entry.mode):
            yield from _below(session, below, place, depth + 1)


def _fetch(session: Session, place: _Place, file: DataFile, carrier: Carrier) -> None:
    path, remote_path = carrier.downloads / file.name, file.address.removeprefix(place.server)
    begin = path.stat().st_size if path.exists() else 0
    if begin == file.size:
        return
    attributes = session.attributes_of(remote_path)
    if attributes is None or (attributes.size, attributes.version) != (file.size, file.version):
        reason = f"{file.address} has changed since the plan was made"
        raise SourceProblem(reason, "deploy again, which makes a new plan")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open_private(path, os.O_APPEND if begin else os.O_TRUNC) as out:
        session.read(remote_path, begin, attributes.size, out.write)


# --- the protocol


@contextmanager
def _session(place: _Place) -> Iterator[Session]:
    """A session with a server, by ssh.

    Raises:
        SourceProblem: ssh cannot enter it, or it ends.
    """
    command = ["ssh", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "-o", "ConnectTimeout=20"]
    command += [*(["-p", place.port] if place.port else []), "-s", "--", place.destination, "sftp"]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
        if process.stdin is None or process.stdout is None:
            raise AssertionError
        try:
            yield Session(process.stdin, process.stdout, place)
        except (EOFError, BrokenPipeError, struct.error) as error:
            process.kill()
            process.wait()
            errors.seek(0)
            raise _ended(place, errors.read().decode(errors="replace")) from error
        finally:
            with suppress(BrokenPipeError):
                process.stdin.close()
            process.stdout.close()
            process.kill()
            process.wait()


def _ended(place: _Place, error_text: str) -> SourceProblem:
    """Why a session ended, by what ssh wrote: a login or a key that is refused, or else a server out of reach."""
    port = f"-P {place.port} " if place.port else ""
    by_hand = f"sftp {port}{place.destination}"
    if "HAS CHANGED" in error_text:
        offending = re.search(r"Offending .*? in (\S+)", error_text)
        forget = re.search(r"ssh-keygen .*-R .*", error_text)
        reason = f"a different host key from the one in {offending[1] if offending else 'known_hosts'}"
        hint = f"if the change is expected: {forget[0].strip() if forget else 'remove that line'}; then {by_hand}"
        return SourceProblem(f"{place.server} has {reason}: it may be another machine", hint)
    if "host key" in error_text.lower():
        hint = f"log in once by hand, and compare the key: {by_hand}"
        return SourceProblem(f"{place.server} has a host key that is not known here", hint)
    if denied := re.search(r"(\S+): Permission denied \(([\w,.@-]+)\)|Too many authentication failures", error_text):
        reason, hint = _denied(place, denied[1] or place.destination, denied[2] or "publickey")
        unread = [f"{match[0]}; " for match in _UNREAD.finditer(error_text)]
        return SourceProblem(reason, f"{''.join(unread)}{hint}: {by_hand}")
    if "kex_exchange_identification" in error_text:
        hint = f"after logins that failed, an sshd does so for a while: try again in a minute, by hand: {by_hand}"
        return Unreached(f"{place.server} closes connections before the login", hint)
    hint = f"the address, and the network of this machine; try it by hand: {by_hand}"
    return Unreached(f"{place.server}: {last_line(error_text, 'the connection ended')}", hint)


# Of a key that ssh was to offer, why it could not.
_UNREAD = re.compile(r"no such identity: [^\r\n:]+|Load key .*?(?=\r|\n|$)")


def _denied(place: _Place, who: str, ways: str) -> tuple[str, str]:
    """Of a login that is refused, the reason and what to do: nothing answers for a password or a code here."""
    if "publickey" in ways.split(","):
        keys = "ssh-add a key that it accepts, or name one as IdentityFile in ~/.ssh/config"
        return f"{place.server} accepts none of the keys that ssh has here for {who}", f"the user's name; {keys}"
    stays = "keep a connection open (ControlMaster and ControlPath in ~/.ssh/config), which is then used"
    return f"{place.server} accepts no keys for {who}, only {ways}, which cannot be answered here", stays


class Session:
    """Requests to a server that has been entered.

    Args:
        to: what the server reads.
        back: what it writes.
        place: for messages.

    Raises:
        EOFError: it ends.
    """

    def __init__(self, to: IO[bytes], back: IO[bytes], place: _Place) -> None:
        self._to, self._back, self._place = to, back, place
        self._number = 0
        self._answers: dict[int, tuple[int, bytes]] = {}
        self._send(_INIT, struct.pack(">I", 3))
        if self._receive()[0] != _VERSION:
            raise EOFError

    def attributes_of(self, path: str) -> _Attributes | None:
        """What a path is, links followed; None where nothing is, or a link leads nowhere."""
        kind, body = self._ask(_STAT, _text(path))
        if kind == _ATTRS:
            return _attributes(_Reader(body))
        self._check(kind, body, path, fine=_NOT_THERE)
        return None

    def real(self, path: str) -> str:
        """A path from the root on."""
        kind, body = self._ask(_REALPATH, _text(path))
        if kind != _NAME:
            self._check(kind, body, path)
        reader = _Reader(body)
        reader.number()
        return reader.text()

    def entries(self, path: str) -> list[tuple[str, _Attributes]]:
        """What lies in a folder, in order; links as what they are."""
        handle = self._handle(_OPENDIR, _text(path), path)
        entries = []
        while True:
            kind, body = self._ask(_READDIR, handle)
            if kind != _NAME:
                self._check(kind, body, path, fine=_EOF)
                break
            reader = _Reader(body)
            for _ in range(reader.number()):
                name = reader.text()
                reader.text()  # a line for people
                attributes = _attributes(reader)
                if name not in (".", "..") and "/" not in name:
                    entries.append((name, attributes))
        self._ask(_CLOSE, handle)
        return sorted(entries)

    def read(self, path: str, begin: int, end: int, write: Callable[[bytes], object]) -> None:
        """Reads a file from a place on, several blocks under way at a time."""
        handle = self._handle(_OPEN, _text(path) + struct.pack(">II", 1, 0), path)
        waiting: deque[tuple[int, int, int]] = deque()
        place = begin
        while place < end or waiting:
            while place < end and len(waiting) < _AHEAD:
                length = min(_BLOCK, end - place)
                waiting.append((self._request(_READ, handle + struct.pack(">QI", place, length)), place, length))
                place += length
            number, start, length = waiting.popleft()
            kind, body = self._answer(number)
            if kind != _DATA:
                self._check(kind, body, path, fine=_EOF)
                raise EOFError  # it is shorter than it was
            data = _Reader(body).bytes()
            write(data)
            if len(data) < length:
                start, length = start + len(data), length - len(data)
                retry = self._request(_READ, handle + struct.pack(">QI", start, length))
                waiting.appendleft((retry, start, length))
        self._ask(_CLOSE, handle)

    def _handle(self, kind: int, body: bytes, path: str) -> bytes:
        answer, content = self._ask(kind, body)
        if answer != _HANDLE:
            self._check(answer, content, path)
        return content

    def _check(self, kind: int, body: bytes, path: str, fine: int = -1) -> None:
        """
        Raises:
            SourceProblem: the server refuses what was asked.
        """
        code = _Reader(body).number() if kind == _STATUS else -1
        if code == fine:
            return
        why = {_NOT_THERE: "it is not there", _DENIED: "permission denied"}.get(code, f"the server answers {code}")
        hint = "its permissions there, and the user's name" if code == _DENIED else "look at it with sftp"
        raise SourceProblem(f"{self._place.server}{path}: {why}", hint)

    def _ask(self, kind: int, body: bytes) -> tuple[int, bytes]:
        return self._answer(self._request(kind, body))

    def _request(self, kind: int, body: bytes) -> int:
        self._number += 1
        self._send(kind, struct.pack(">I", self._number) + body)
        return self._number

    def _answer(self, number: int) -> tuple[int, bytes]:
        while number not in self._answers:
            kind, body = self._receive()
            self._answers[_Reader(body).number()] = (kind, body[4:])
        return self._answers.pop(number)

    def _send(self, kind: int, body: bytes) -> None:
        self._to.write(struct.pack(">IB", len(body) + 1, kind) + body)
        self._to.flush()

    def _receive(self) -> tuple[int, bytes]:
        length, kind = struct.unpack(">IB", self._exactly(5))
        return kind, self._exactly(length - 1)

    def _exactly(self, length: int) -> bytes:
        content = self._back.read(length)
        if len(content) < length:
            raise EOFError
        return content


class _Reader:
    """What stands in an answer, one thing after another."""

    def __init__(self, body: bytes) -> None:
        self._body, self._place = body, 0

    def number(self, form: str = ">I") -> int:
        value: int = struct.unpack_from(form, self._body, self._place)[0]
        self._place += struct.calcsize(form)
        return value

    def bytes(self) -> bytes:
        length = self.number()
        self._place += length
        return self._body[self._place - length : self._place]

    def text(self) -> str:
        return self.bytes().decode(errors="surrogateescape")


def _text(path: str) -> bytes:
    encoded = (path or "/").encode(errors="surrogateescape")
    return struct.pack(">I", len(encoded)) + encoded


def _attributes(reader: _Reader) -> _Attributes:
    flags = reader.number()
    size = reader.number(">Q") if flags & 1 else 0
    if flags & 2:
        reader.number(">Q")
    mode = reader.number() if flags & 4 else 0
    changed = reader.number(">Q") & 0xFFFFFFFF if flags & 8 else 0
    for _ in range(2 * reader.number() if flags & 0x80000000 else 0):
        reader.bytes()
    return _Attributes(mode, size, changed)
