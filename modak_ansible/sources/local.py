"""What lies on this machine: a file, a folder, the files that a pattern matches, or an archive."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, ClassVar

from modak_ansible.errors import NEAR, ModakError, nearest
from modak_ansible.model.dataset import IDX, DataFile, Dataset, DataSource
from modak_ansible.sources.base import Carrier, Source, SourceProblem, SourceSpec
from modak_ansible.sources.counting.formats import lacking, of_names
from modak_ansible.sources.manifest import (
    LISTED,
    change_of,
    contents_of,
    files_below,
    files_matching,
    files_of,
    is_glob,
    single_file,
)
from modak_ansible.sources.published import WORDS
from modak_ansible.store.cache import cache_folder, keep_json
from modak_ansible.target.core.files import expanded, read_json, real_path
from modak_ansible.target.datasets.names import is_archive

_IDX_FILES = "*-idx*-ubyte*"
POINTER, FETCH_IT = "is a pointer of Git LFS, not the file itself", "git lfs pull"
_POINTER_BYTES = range(100, 200)
_BRACES = re.compile(r"\{[^{}/]*\}")
_OF_SCP = re.compile(r"((?:[\w.-]+@)?[\w-]+\.[\w.-]+):(.+)", re.ASCII)


class Local(Source):
    """Files of this machine, which rsync sends."""

    kinds: ClassVar[tuple[str, ...]] = ("folder", "file", "glob", "archive")
    order = 100  # any other text is a path

    def knows(self, text: str) -> bool:  # noqa: ARG002
        return True

    def read(self, spec: SourceSpec) -> DataSource:
        pattern = _IDX_FILES if spec.format == IDX else ""
        kind, root, names = _resolved(spec.folder, spec.text, pattern)
        if not names:
            hint = "it must hold files such as train-images-idx3-ubyte.gz, or format: says what it is"
            raise SourceProblem(f"the folder {spec.text} holds no IDX files", hint)
        try:
            files = files_of(root, names)
        except OSError as error:
            raise SourceProblem(f"{spec.text} cannot be read: {error.strerror}", rule="file-unreadable") from error
        if not any(file.size for file in files):
            what = f"{spec.text} is empty" if kind == "file" else f"all files of {spec.text} are empty"
            raise SourceProblem(what, "0 bytes are not data: check what wrote it")
        if pointer := pointer_in(root, (file.name for file in files)):
            raise SourceProblem(f"{pointer} {POINTER}", FETCH_IT)
        _check_sums(spec, files)
        packs = kind == "file" and is_archive(names[0])
        unpack = spec.unpacks(is_archive=packs)
        source = DataSource(
            kind="archive" if packs and unpack else kind,
            label=f"{spec.name} from {spec.text}",
            location=spec.text,
            files=tuple(files) if len(files) <= LISTED else (),
            contents=contents_of(files),
            unpack=unpack,
            pattern=pattern if kind == "folder" else "",
        )
        if source.kind == "archive":
            source = source.model_copy(update={"unpacked": contents_of(_listed(root / names[0], files[0], spec.size))})
        return source

    def names(self, source: DataSource, folder: Path) -> list[str]:
        if source.kind == "archive":
            return list(read_json(_listing(source.files[0])) or ())  # as it was looked through when it was planned
        return _resolved(folder, source.location, source.pattern)[2]

    def samples(self, source: DataSource, folder: Path, form: str) -> tuple[int | None, str]:
        if source.unpack or source.contents is None:
            return of_names(self.names(source, folder), form) if source.kind == "archive" else None, ""
        counts = self._counted(source, source.contents.digest, folder, form)
        return counts["samples"], str(counts.get("damaged") or "")

    def _counted(self, source: DataSource, digest: str, folder: Path, form: str) -> dict[str, Any]:
        """What was found in the files, which are read once."""
        place = cache_folder() / "samples" / f"{digest}-{form}-4.json"
        counts = read_json(place)
        if counts is None:
            from modak_ansible.sources.counting import samples  # noqa: PLC0415 - it brings what reads archives

            _, root, names = _resolved(folder, source.location, source.pattern)
            number = samples.count(root, names, form)
            counts = {"samples": number, "damaged": samples.damaged(root, names, form) if number is None else ""}
            if lacking(form):  # until it is installed
                return counts
            keep_json(place, counts)
        return dict(counts)

    def bring(self, source: DataSource, carrier: Carrier) -> None:
        root, files = local_files(source, carrier.folder)
        if source.contents and contents_of(files) != source.contents:
            raise ModakError(change_of(source, files), hint="deploy again, which makes a new plan")
        carrier.send(source, root, files)
        current = local_files(source, carrier.folder)[1]
        if contents_of(current) != contents_of(files):
            carrier.say(f"{source.location} changed while it was sent: what it held before is on the target")


def local_files(source: DataSource, folder: Path) -> tuple[Path, list[DataFile]]:
    """The files of a source as they are now, and the folder that their names are relative to.

    Raises:
        ModakError: they are not there any more.
    """
    try:
        _, root, names = _resolved(folder, source.location, source.pattern)
        return root, files_of(root, names)
    except SourceProblem as problem:
        raise ModakError(problem.reason, hint=problem.hint or "plan again") from problem
    except OSError as error:
        raise ModakError(f"{source.location} cannot be read: {error.strerror}", hint="plan again") from error


def brought_files(datasets: Sequence[Dataset], folder: Path, here: Path) -> dict[Path, bool]:
    """What datasets bring of a script's folder, by its real path, and whether the script finds it in the same place.

    Args:
        datasets: of the script's training.
        folder: what their paths are relative to.
        here: the script's folder.
    """
    brought_paths = {}
    for dataset in datasets:
        mount = real_path(here / dataset.mount_as) if dataset.mount_as else None
        for source in dataset.sources:
            if source.kind not in Local.kinds:
                continue
            places = [folder / expanded(source.location)]
            if source.kind == "glob":
                _, root, names = _resolved(folder, source.location, source.pattern)
                places = [root / name for name in names]
            for place in map(real_path, places):
                if not real_path(here).is_relative_to(place):
                    brought_paths[place] = mount is not None and place.is_relative_to(mount)
    return brought_paths


def _resolved(folder: Path, text: str, pattern: str) -> tuple[str, Path, list[str]]:
    """What a path, relative to a folder, is; the folder that names are relative to, and the names of its files."""
    here = expanded(text)
    path = folder / here
    try:
        if path.is_dir():
            names = files_below(path, text)
            return "folder", path, [name for name in names if fnmatch(name, pattern or "*")]
        if path.exists() or path.is_symlink():
            return "file", path.parent, single_file(path, text)
        if is_glob(text):
            return "glob", *files_matching(folder, text)
    except OSError as error:
        raise SourceProblem(f"{text} cannot be read: {error.strerror}", rule="file-unreadable") from error
    hint = f"paths are relative to the file that names them; write {here.resolve()}" if here.exists() else ""
    beside: list[str] = []
    with suppress(OSError, ValueError):  # the folder above need not be there, nor be one that may be looked into
        beside = [entry.name for entry in path.parent.iterdir()]
    hint = (
        hint
        or _path_hint(text, nearest(text, (*WORDS, *beside)))
        or "a path is relative to the folder of the file that names it"
    )
    raise SourceProblem(f"there is no file or folder {text}", hint, "file-not-found")


def _path_hint(text: str, near: str) -> str:
    """What to say of a path that is not on this machine.

    Args:
        near: the hint with what is called so.
    """
    if _BRACES.search(text):
        return f"a pattern is written with * and ?: {_BRACES.sub('*', text)}"
    if matched := _OF_SCP.fullmatch(text):
        return f"sftp://{matched[1]}{matched[2] if matched[2].startswith('/') else f'/~/{matched[2]}'}"
    is_absolute = text.startswith(("/", "~", "$")) and not near.startswith(NEAR)
    return f"on_target: {text}, where the target has it" if is_absolute else near


def pointer_in(root: Path, names: Iterable[str]) -> str:
    """The first of some files that is a pointer of Git LFS, as a clone without it has them; empty where none is."""
    for path, name in ((root / name, name) for name in names):
        with suppress(OSError):
            if path.stat().st_size in _POINTER_BYTES and path.read_bytes().startswith(b"version https://git-lfs"):
                return name
    return ""


def _check_sums(spec: SourceSpec, files: list[DataFile]) -> None:
    files_by_name = {file.name: file for file in files}
    for name, expected in spec.checksums.items():
        file = files_by_name.get(name)
        if file is not None and file.sha256 != expected:
            reason = f"{name} has the SHA-256 {file.sha256}, not {expected}"
            raise SourceProblem(reason, "fetch the file again", "checksum")


def _listed(path: Path, archive: DataFile, stated_size: int | None) -> list[DataFile]:
    """The files that an archive holds, without digests; an archive is looked through once.

    Raises:
        SourceProblem: it is damaged, or holds what may not be unpacked.
    """
    place = _listing(archive)
    sizes = read_json(place)
    try:
        if sizes is None:
            from modak_ansible.target.datasets.archive import limit_of, members_of  # noqa: PLC0415 - slow to import

            members = members_of(path, limit_of(archive.size or 0, stated_size))
            sizes = {member.name: member.size for member in members}
            keep_json(place, sizes)
    except ModakError as error:
        raise SourceProblem(error.message, error.hint, "archive") from error
    except OSError as error:
        raise SourceProblem(f"{path} cannot be read: {error.strerror}", rule="file-unreadable") from error
    if not sizes:
        raise SourceProblem(f"{path.name} holds no files", "pack the data into it", "archive")
    if not any(sizes.values()):
        raise SourceProblem(
            f"all files of {path.name} are empty", "0 bytes are not data: check what made it", "archive"
        )
    return [DataFile(name=name, size=size) for name, size in sizes.items()]


def _listing(archive: DataFile) -> Path:
    return cache_folder() / "archives" / f"{archive.sha256}.json"
