"""What can be listed where it lies: a plan has the names, sizes and versions of its files, and is held to them.

A kind of such a source says how it is listed and how its files are fetched; the rest is here.
"""

from __future__ import annotations

import hashlib
import importlib
import re
import time
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import NamedTuple

from modak_ansible.errors import ModakError, nearest
from modak_ansible.model.dataset import DataFile, DataSource
from modak_ansible.sources.base import (
    Carrier,
    Source,
    SourceProblem,
    SourceSpec,
    SourceWarning,
    Unreached,
    fetch_here,
    is_unsafe,
    target_fetches,
)
from modak_ansible.sources.counting.formats import of_names
from modak_ansible.sources.manifest import LISTED, change_of, contents_of, is_glob
from modak_ansible.store.cache import cache_folder, keep_json
from modak_ansible.store.logins import take_logins
from modak_ansible.target.core.files import NO_ROOM, read_json, sha256_of
from modak_ansible.target.datasets.listed import Access, check
from modak_ansible.target.datasets.names import is_archive, name_problem

_KEPT = 60.0  # seconds that a listing serves the datasets of one command


class Listing(NamedTuple):
    """What was found where a text points."""

    location: str  # the same place, as exact as it can be said
    files: tuple[DataFile, ...]  # relative to it; with sizes, and a digest or version each
    samples: int | None = None  # of an epoch, where somebody says so there


class ListedSource(Source):
    """A kind of source that is asked what it holds when the plan is made, and again when that is brought."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], tuple[float, Listing]] = {}  # by server and text

    def server(self) -> str:
        """The server that is asked, as far as the environment names another than the usual one."""
        return ""

    def listing(self, text: str) -> Listing:
        """Asks what is there.

        Raises:
            SourceProblem: the text is no such address, nothing is there, or it may not be read.
        """
        raise NotImplementedError

    def fetched(self, source: DataSource, files: Sequence[DataFile]) -> tuple[list[DataFile], Access] | None:
        """The files with their addresses, and what the server wants to see; None where only this machine gets them.

        Raises:
            SourceProblem: it cannot be told.
        """
        raise NotImplementedError

    def download(self, source: DataSource, files: Sequence[DataFile], carrier: Carrier) -> None:
        """Fetches the files to this machine, into the carrier's folder; one that is there whole is not fetched again.

        Raises:
            ModakError: a file cannot be had, or is another than was listed.
            SourceProblem: likewise.
        """
        answer = self.fetched(source, files)
        if answer:
            addressed, access = answer
            fetch_here(source, addressed, carrier, access)

    def read(self, spec: SourceSpec) -> DataSource:
        if is_unsafe(spec.text):
            raise SourceProblem(f"{spec.text!r} contains a character that an address cannot have", "write it as %20")
        listing = self._listing(spec.text)
        files = _with_checksums(listing.files, spec)
        kind = next(iter(self.kinds))
        return DataSource(
            kind=kind,
            label=f"{spec.name} from {listing.location}",
            location=listing.location,
            files=tuple(files) if len(files) <= LISTED else (),
            contents=contents_of(files),
            unpack=spec.unpacks(is_archive=len(files) == 1 and is_archive(files[0].name)),
        )

    def _listing(self, text: str) -> Listing:
        server = self.server()
        cached = self._kept.get((server, text))
        if cached and time.monotonic() - cached[0] < _KEPT:
            return cached[1]
        listing = self._now_or_before(text)
        self._kept[server, text] = self._kept[server, listing.location] = (time.monotonic(), listing)
        return listing

    def _now_or_before(self, text: str) -> Listing:
        """What is there, or what was when it was last asked, where it does not answer: bringing it asks again.

        Raises:
            SourceProblem: it cannot be told.
        """
        key = hashlib.sha256(f"{next(iter(self.kinds))} {self.server()} {text}".encode()).hexdigest()
        place = cache_folder() / "listed" / f"{key}.json"
        try:
            listing = self.listing(text)
        except Unreached as problem:
            earlier = read_json(place)
            if not earlier:
                hint = (
                    f"{problem.hint}; it has not been asked from here before, so its files and their sizes are not "
                    "known"
                )
                raise Unreached(problem.reason, hint, problem.rule) from problem
            listing = Listing(
                earlier["location"], tuple(DataFile(**file) for file in earlier["files"]), earlier["samples"]
            )
            message = (
                f"{problem.reason}; planned with what it held on {earlier['asked']}, and asked again when the data is "
                "fetched"
            )
            warnings.warn(message, SourceWarning, stacklevel=1)
            return listing
        _check_names(listing)
        files = [file.model_dump(mode="json") for file in listing.files]
        today = time.strftime("%Y-%m-%d", time.gmtime())
        keep_json(place, {"location": listing.location, "files": files, "samples": listing.samples, "asked": today})
        return listing

    def names(self, source: DataSource, folder: Path) -> list[str]:  # noqa: ARG002
        return [file.name for file in self._listing(source.location).files]

    def samples(self, source: DataSource, folder: Path, form: str) -> tuple[int | None, str]:
        listing = self._listing(source.location)
        count = None if source.unpack else listing.samples or of_names(self.names(source, folder), form)
        return count, ""

    def bring(self, source: DataSource, carrier: Carrier) -> None:
        try:
            self._bring(source, carrier)
        except SourceProblem as problem:
            raise ModakError(problem.reason, hint=problem.hint) from problem
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            raise ModakError(f"{NO_ROOM[error.errno]} at {carrier.downloads}", hint="make room there") from error

    def _bring(self, source: DataSource, carrier: Carrier) -> None:
        take_logins()
        digests = {file.name: file.sha256 for file in source.files}
        current_files = self.listing(source.location).files
        files = [file.model_copy(update={"sha256": file.sha256 or digests.get(file.name)}) for file in current_files]
        if contents_of(files) != source.contents:
            raise ModakError(change_of(source, files), hint="deploy again, which makes a new plan")
        if self._has_fetched(source, files, carrier):
            return
        with carrier.fetching() as is_wanted:
            if is_wanted:
                self.download(source, files, carrier)
                carrier.send(source, carrier.downloads, [_verified(file, carrier.downloads) for file in files])

    def _has_fetched(self, source: DataSource, files: Sequence[DataFile], carrier: Carrier) -> bool:
        answer = self.fetched(source, files)
        if answer is None:
            return False
        addressed, access = answer
        return target_fetches(source.model_copy(update={"files": tuple(addressed)}), carrier, access)


def _verified(file: DataFile, folder: Path) -> DataFile:
    """A file that was fetched, with its digest."""
    path = folder / file.name
    if not path.is_file() or path.stat().st_size != file.size:
        path.unlink(missing_ok=True)
        raise ModakError(f"{file.name} did not arrive whole", hint="deploy again: it continues where it stopped")
    check(file.model_dump(), path)
    return file.model_copy(update={"sha256": file.sha256 or sha256_of(path)})


def _with_checksums(files: Sequence[DataFile], spec: SourceSpec) -> list[DataFile]:
    checked = []
    for file in files:
        expected = spec.checksums.get(file.name)
        if expected and file.sha256 and expected != file.sha256:
            reason = f"{file.name} has the SHA-256 {file.sha256}, not {expected}"
            raise SourceProblem(reason, "it is not the file that checksum describes", "checksum")
        checked.append(file.model_copy(update={"sha256": file.sha256 or expected}))
    return checked


def _check_names(listing: Listing) -> None:
    """
    Raises:
        SourceProblem: there are no files, or one has a name that no folder can hold.
    """
    if not listing.files:
        raise nothing_in(listing.location)
    names = {file.name for file in listing.files}
    for name in names:
        path = PurePosixPath(name)
        problem = name_problem(name)
        if path.is_absolute() or ".." in path.parts or str(path) != name:
            problem = f"the name {name!r} leads out of a folder, or is not a name"
        above = next((str(parent) for parent in path.parents if str(parent) in names), "")
        if problem or above:
            reason = problem or f"{above} is a file, and {name} would be inside it"
            raise SourceProblem(f"{listing.location}: {reason}", "name the files that are meant")


def select_names(names: Iterable[str], path: str, place: str) -> dict[str, str]:
    """What a path means among the names below a place: a file, a folder or what a pattern matches.

    Args:
        names: of all files there.
        path: empty for all.
        place: as messages have it.

    Returns:
        By the name that a file gets, its name there. Files keep their folders below the first part without a sign.

    Raises:
        SourceProblem: nothing is meant.
    """
    all_names = list(names)
    path = path.strip("/")
    if not path:
        return {name: name for name in all_names}
    if path in all_names:
        return {PurePosixPath(path).name: path}
    below = [name for name in all_names if name.startswith(f"{path}/")]
    root = path
    if not below and is_glob(path):
        root = root_of(path)
        pattern = _pattern(path)
        below = [name for name in all_names if pattern.fullmatch(name)]
    if not below:
        if is_glob(path):
            raise SourceProblem(
                f"nothing matches {path} in {place}",
                "* matches within one folder, **/ across folders",
                "file-not-found",
            )
        near = {
            str(candidate) for name in all_names for candidate in (PurePosixPath(name), *PurePosixPath(name).parents)
        } - {"."}
        raise SourceProblem(f"there is no file or folder {path} in {place}", nearest(path, near), "file-not-found")
    start = len(root) + 1 if root else 0
    return {name[start:]: name for name in below}


def nothing_in(location: str) -> SourceProblem:
    """What is said of a folder without files."""
    return SourceProblem(f"there are no files in {location}", "put the data there")


def path_not_found(path: str, place: str, beside: Iterable[str]) -> SourceProblem:
    """What is said of a path that is not there, with the name beside it that it was mistyped from.

    Args:
        beside: the names in the folder above.
    """
    hint = nearest(PurePosixPath(path).name, beside)
    return SourceProblem(f"there is no file or folder {path} in {place}", hint, "file-not-found")


def root_of(path: str) -> str:
    """The folder above a pattern's signs; of what is no pattern, all of it."""
    parts = path.strip("/").split("/")
    plain = next((number for number, part in enumerate(parts) if is_glob(part)), len(parts))
    return "/".join(parts[:plain])


def _pattern(path: str) -> re.Pattern[str]:
    """What a pattern matches, and all below it; a ``*`` stays within a folder, ``**`` does not."""
    signs = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    expression = ""
    for part in re.split(r"(\*\*/|\*\*|\*|\?|\[!?\]?[^\]/]*\])", path):
        if part in signs:
            expression += signs[part]
        elif part.startswith("[") and part.endswith("]") and len(part) > 2:
            inner = part[1:-1].replace("\\", r"\\").replace("[", r"\[").replace("^", r"\^")
            expression += f"[{'^' + inner[1:] if inner.startswith('!') else inner}]"
        else:
            expression += re.escape(part)
    try:
        return re.compile(f"{expression}(?:/.*)?", re.DOTALL)
    except re.error as error:
        raise SourceProblem(f"{path!r} is not a valid pattern: {error.msg}", "such as **/*.parquet") from error


def import_extra(module: str, extra: str) -> ModuleType:
    """A library of an extra, which a machine without such data need not have.

    Raises:
        SourceProblem: it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        hint = f'pip install "modak-ansible[{extra}]", where modak runs'
        name = module.partition(".")[0]
        raise SourceProblem(f"such a source needs {name}, which is not installed", hint) from error
