"""TOSCA's archives: written with the same bytes for the same files, and read without trusting them."""

from __future__ import annotations

import hashlib
import io
import lzma
import re
import shutil
import stat
import tempfile
import uuid
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from modak_ansible.errors import INVALID_BLUEPRINT, Location, ModakError
from modak_ansible.store.cache import UNPACKED, packages_folder

_META = "TOSCA-Metadata/TOSCA.meta"
_USUAL = "service.yaml"
# What no name holds: what moves a cursor, and what stands for bytes that are no UTF-8.
_NO_TEXT = re.compile("[\x00-\x1f\ud800-\udfff]")
# Longest ago that a ZIP archive can tell.
_DATE = (1980, 1, 1, 0, 0, 0)
_MAX_BYTES = 2 * 10**9
_MAX_FILES = 50_000
# What zipfile raises at a damaged archive, besides an OSError without a number.
_UNREADABLE = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, RuntimeError, UnicodeDecodeError,
)  # fmt: skip


class InvalidPackage(ModakError):
    """A file that is no archive of TOSCA's, or one that nobody should unpack."""

    exit_code = INVALID_BLUEPRINT


def archive(entry: str, files: Mapping[str, tuple[bytes, bool]], creator: str) -> bytes:
    """An archive, whose bytes depend on nothing but what is given.

    Args:
        entry: the name of the service template, at the root.
        files: content and whether it is executable, by the path in the archive.
    """
    meta = f"TOSCA-Meta-File-Version: 1.1\nCSAR-Version: 1.1\nCreated-By: {creator}\nEntry-Definitions: {entry}\n"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as file:
        for name, (content, executable) in sorted({**files, _META: (meta.encode(), False)}.items()):
            member = zipfile.ZipInfo(name, _DATE)
            member.create_system = 3  # Unix, wherever it is made
            member.external_attr = (stat.S_IFREG | (0o755 if executable else 0o644)) << 16
            member.compress_type = zipfile.ZIP_DEFLATED
            file.writestr(member, content)
    return buffer.getvalue()


def unpack(path: Path) -> Path:
    """The service template of an archive, unpacked in a folder that its content names.

    What is there already is compared with the archive, and unpacked anew where it differs.

    Raises:
        InvalidPackage: it cannot be read, has no service template, or reaches out of its folder.
    """
    place = Location(str(path))
    try:
        with path.open("rb") as file, zipfile.ZipFile(file) as package:
            members = _checked_members(package, place)
            entry = _entry(package, members, place)
            file.seek(0)
            folder = packages_folder() / hashlib.file_digest(file, "sha256").hexdigest()[:32]
            UNPACKED[str(folder)] = str(path)
            if not _is_there(folder, members):
                _extract(package, members, folder)
            return folder / entry
    except (*_UNREADABLE, OSError) as error:
        if isinstance(error, OSError) and error.errno:  # the system's, and no word of bzip2's on damaged data
            raise
        raise InvalidPackage(f"this is not a readable archive: {error}", location=place) from error


def is_member_name(name: str) -> bool:
    """Whether a name stands for a file below the folder that an archive is unpacked in, on whichever system."""
    parts = PurePosixPath(name).parts
    is_outside = name.startswith("/") or ".." in parts or "\\" in name or re.match(r"[A-Za-z]:", name)
    return bool(parts) and not is_outside and not _NO_TEXT.search(name)


def _checked_members(package: zipfile.ZipFile, place: Location) -> list[zipfile.ZipInfo]:
    """The files of an archive, all of them plain and below its folder."""
    members = package.infolist()
    if len(members) > _MAX_FILES or sum(member.file_size for member in members) > _MAX_BYTES:
        raise InvalidPackage(
            "it holds more than 50,000 files or 2 GB, which is too large for a blueprint", location=place
        )
    paths: set[PurePosixPath] = set()
    for member in members:
        name = member.filename
        kind = stat.S_IFMT(member.external_attr >> 16)
        if not is_member_name(name):
            hint = "an archive has / between the names of folders" if "\\" in name else ""
            raise InvalidPackage(f"it holds {name!r}, which is not below its folder", location=place, hint=hint)
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise InvalidPackage(f"it holds {name}, which is a link or a device", location=place)
        if member.flag_bits & 1:
            raise InvalidPackage(f"it holds {name}, which is encrypted", location=place)
        path = PurePosixPath(name)
        if path in paths:
            raise InvalidPackage(f"it holds {path} twice", location=place)
        paths.add(path)
    files = [member for member in members if not member.is_dir()]
    file_paths = {PurePosixPath(member.filename) for member in files}
    for path in sorted(paths):
        if parent := next((folder for folder in path.parents if folder in file_paths), None):
            raise InvalidPackage(f"it holds {path}, and {parent} is a file", location=place)
    return files


def _entry(package: zipfile.ZipFile, members: list[zipfile.ZipInfo], place: Location) -> str:
    names = [member.filename for member in members]
    if _META in names:
        text = package.read(_META).decode("utf-8", errors="replace")
        entry = re.search(r"^Entry-Definitions:\s*(\S.*?)\s*$", text, re.MULTILINE)
        if entry and PurePosixPath(entry.group(1)) in map(PurePosixPath, names):
            return str(PurePosixPath(entry.group(1)))
        if entry:
            raise InvalidPackage(f"{_META} names {entry.group(1)}, which it does not hold", location=place)
    templates = [name for name in names if "/" not in name and name.endswith((".yaml", ".yml"))]
    if len(templates) > 1 and _USUAL in templates:  # with values for its inputs beside it
        return _USUAL
    if len(templates) != 1:
        hint = f"put one YAML file at its root, or name one in {_META}: modak package makes such archives"
        raise InvalidPackage("it does not say which file is the service template", location=place, hint=hint)
    return templates[0]


def _is_there(folder: Path, members: list[zipfile.ZipInfo]) -> bool:
    try:
        return all(zlib.crc32((folder / member.filename).read_bytes()) == member.CRC for member in members)
    except OSError:
        return False


def _extract(package: zipfile.ZipFile, members: list[zipfile.ZipInfo], folder: Path) -> None:
    """Unpacks beside the folder, and puts it in its place in one step."""
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=".part-", dir=folder.parent))
    try:
        for member in members:
            path = part / member.filename
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(package.read(member))
            path.chmod(0o700 if member.external_attr >> 16 & 0o100 else 0o600)
        if folder.exists():
            folder.rename(part.with_name(f".old-{uuid.uuid4().hex}"))
        part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
        for old in folder.parent.glob(".old-*"):
            shutil.rmtree(old, ignore_errors=True)
