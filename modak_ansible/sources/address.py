"""What is fetched over http: a file, an archive, a folder whose files are listed, or several files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar
from urllib.parse import unquote, urlsplit

from modak_ansible.model.dataset import DataFile, DataSource
from modak_ansible.model.quantities import some_of
from modak_ansible.sources.base import (
    Carrier,
    Source,
    SourceProblem,
    SourceSpec,
    fetch_here,
    is_split,
    is_unsafe,
    target_fetches,
)
from modak_ansible.target.datasets.names import is_archive, name_problem

_SCHEMES = ("http", "https", "file")


class Address(Source):
    """Fetched by the target itself; where it reaches no network, from here."""

    kinds: ClassVar[tuple[str, ...]] = ("url",)
    order = 10

    def knows(self, text: str) -> bool:
        return "://" in text

    def read(self, spec: SourceSpec) -> DataSource:
        text, checksums = spec.text, spec.checksums
        _check(text)
        name = _name_in(text)
        is_folder = text.endswith("/") or not name or (checksums and name not in checksums)
        if not is_folder:
            files: tuple[DataFile, ...] = (DataFile(name=name, sha256=checksums.get(name), address=text),)
            return _source(spec, [text], files)
        if not checksums:
            hint = "checksum: { file name: its SHA-256 }; or name the files themselves, under urls"
            raise SourceProblem(f"{text} is the address of a folder, and has no checksums", hint, "checksum")
        files = tuple(DataFile(name=name, sha256=digest) for name, digest in sorted(checksums.items()))
        return _source(spec, [text], files)

    def bring(self, source: DataSource, carrier: Carrier) -> None:
        if target_fetches(source, carrier):
            return
        with carrier.fetching() as is_wanted:
            if is_wanted:
                fetch_here(source, source.files, carrier)
                carrier.send(source, carrier.downloads, source.files)


def source_of_addresses(addresses: Sequence[str], spec: SourceSpec) -> DataSource:
    """The source of several files that are a dataset together.

    Raises:
        SourceProblem: an address is none, names no file, or two have one name; with its number as ``number``.
    """
    by_name: dict[str, DataFile] = {}
    for number, text in enumerate(addresses):
        try:
            _check(text)
            name = _name_in(text)
            if not name or text.endswith("/"):
                raise SourceProblem(f"{text} is the address of no file", "name each file")
            if name in by_name:
                raise SourceProblem(f"two addresses end in {name}", "give one of them as a dataset of its own")
        except SourceProblem as problem:
            problem.number = number
            raise
        by_name[name] = DataFile(name=name, sha256=spec.checksums.get(name), address=text)
    sorted_files = tuple(by_name[name] for name in sorted(by_name))
    return _source(spec, addresses, sorted_files)


def _source(spec: SourceSpec, addresses: Sequence[str], files: tuple[DataFile, ...]) -> DataSource:
    unpack = spec.unpacks(is_archive=len(files) == 1 and is_archive(files[0].name))
    label = f"{spec.name} from {some_of(addresses, 1)}"
    return DataSource(kind="url", label=label, location=addresses[0], files=files, unpack=unpack)


def _check(text: str) -> None:
    scheme, _, rest = text.partition("://")
    if scheme not in _SCHEMES or not rest or is_unsafe(text) or not is_split(text):
        hint = "or one of hf://datasets/OWNER/NAME, s3://BUCKET/FOLDER, webdavs://HOST/FOLDER and sftp://HOST/FOLDER"
        raise SourceProblem(f"{text!r} is not an http, https or file address", hint)


def _name_in(text: str) -> str:
    """The name of the file at an address; empty where there is none."""
    name = unquote(urlsplit(text).path.rpartition("/")[2])
    if problem := name_problem(name):
        raise SourceProblem(problem)
    return "" if name in (".", "..") else name.replace("/", "_")
