"""What each kind of source says of itself: which words name it, what is there, and how it gets to the target."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, Protocol, cast
from urllib.parse import urlsplit

from modak_ansible.errors import ModakError, NotReached
from modak_ansible.model.dataset import DataFile, DataSource

if TYPE_CHECKING:
    from modak_ansible.target.core.plan import DataFile as PlannedFile
    from modak_ansible.target.datasets.listed import Access

Unpack = Literal["", "archive", "all"]

_UNSAFE = frozenset("\"'`$;\\<>| \t\r\n")


class SourceProblem(ValueError):
    """What is wrong with a source: the reason, what to write instead, and the rule that it breaks."""

    def __init__(self, reason: str, hint: str = "", rule: str = "dataset-source") -> None:
        super().__init__(reason)
        self.reason, self.hint, self.rule = reason, hint, rule
        self.number: int | None = None  # of the address among several


class Unreached(SourceProblem):
    """A source that does not answer, of which what it held before may be known."""


class SourceWarning(UserWarning):
    """What was found of a source before counts in place of its answer."""


class SourceSpec(NamedTuple):
    text: str  # the source, as it is written
    name: str  # the dataset's
    format: str = ""  # of its files; empty where nobody says it
    folder: Path = Path()  # what paths are relative to
    checksums: Mapping[str, str] = {}  # SHA-256 by file name
    unpack: bool | None = None  # whether packed files are unpacked; None for an archive alone
    size: int | None = None  # bytes of all files, as the user says

    def unpacks(self, *, is_archive: bool) -> Unpack:
        """What of it is unpacked."""
        if self.unpack is None:
            return "archive" if is_archive and self.format != "webdataset" else ""
        return "all" if self.unpack else ""


class Carrier(Protocol):
    """What a stage can do for a source that brings its files."""

    folder: Path  # of the blueprint
    downloads: Path  # a folder of this machine for what is on its way, while it is fetching

    def say(self, text: str) -> None:
        """Shows a line of progress."""

    def fetching(self) -> AbstractContextManager[bool]:
        """Makes the folder of downloads, and keeps others from it; it is removed when all of it has been sent.

        Tells whether there is anything to do: another deploy may have brought the dataset meanwhile.
        """

    def send(self, source: DataSource, root: Path, files: Sequence[DataFile]) -> None:
        """Sends files below a folder of this machine, and has them verified, unpacked and published there.

        Raises:
            ModakError: a file changed meanwhile, or there is no room.
        """

    def have_fetched(self, source: DataSource, access: Access | None = None) -> None:
        """Has the target fetch the files of a source by itself, which lists them all.

        Args:
            source: with addresses of its files, or the one that they lie below.

        Raises:
            NotReached: an address does not answer there.
            ModakError: it cannot for another reason.
        """

    def passing(self) -> AbstractContextManager[str]:
        """A temporary folder that is removed with the command that it serves."""

    @property
    def is_local(self) -> bool:
        """Whether the target is this machine."""


class Source:
    """A kind of source, of which there is one object."""

    kinds: ClassVar[tuple[str, ...]]
    order: ClassVar[int] = 50  # in which the kinds are asked for a text; the smallest first

    def knows(self, text: str) -> bool:
        """Whether a text names a source of this kind."""
        raise NotImplementedError

    def read(self, spec: SourceSpec) -> DataSource:
        """What is known of a source where the plan is made.

        Nothing is asked of any network but by :class:`modak_ansible.sources.listed.ListedSource`.

        Raises:
            SourceProblem: it is not there, or is not what it should be.
        """
        raise NotImplementedError

    def names(self, source: DataSource, folder: Path) -> list[str]:  # noqa: ARG002 - few have to look
        """The names of the files as they will lie on the target; empty where nobody knows them here."""
        return [file.name for file in source.files]

    def samples(self, source: DataSource, folder: Path, form: str) -> tuple[int | None, str]:  # noqa: ARG002
        """The samples that one epoch trains with, None where nobody can count them here; and the file that is not what
        its format says, so that they are not known, empty where none is found."""
        return None, ""

    def bring(self, source: DataSource, carrier: Carrier) -> None:
        """Brings the files to the target.

        Raises:
            ModakError: they are not there, or are not what the plan says.
        """
        raise NotImplementedError


def is_unsafe(text: str) -> bool:
    """Whether an address holds a sign that it would have to have as %20 or the like."""
    return bool(_UNSAFE & set(text)) or not text.isprintable()


def is_split(text: str) -> bool:
    """Whether an address has a host and a port that can be told."""
    try:
        _ = urlsplit(text).port
    except ValueError:
        return False
    return True


def fetch_here(source: DataSource, files: Sequence[DataFile], carrier: Carrier, access: Access | None = None) -> None:
    """Fetches files of a source to this machine, into the carrier's folder.

    Raises:
        ModakError: one cannot be had, or is another than was listed.
    """
    from modak_ansible.target.datasets.fetch import fetch_all  # noqa: PLC0415 - urllib is slow to import, and plans fetch nothing

    planned = [cast("PlannedFile", file.model_dump()) for file in files]
    fetch_all(planned, source.location, carrier.downloads, carrier.say, access)


def target_fetches(source: DataSource, carrier: Carrier, access: Access | None = None) -> bool:
    """Has the target fetch a source; says so and tells False where only this machine may reach it.

    Raises:
        ModakError: it fails for another reason, and this machine could do no better.
    """
    try:
        carrier.say(f"fetching {source.location} from the target")
        carrier.have_fetched(source, access)
    except NotReached as error:
        if carrier.is_local or source.location.startswith("file:"):
            raise
        carrier.say(f"{error.message}; fetching it from here")
        return False
    return True


@cache
def _all() -> tuple[Source, ...]:
    package = importlib.import_module("modak_ansible.sources")
    sources: list[Source] = []
    for module in pkgutil.iter_modules(package.__path__):
        if module.ispkg:
            continue
        imported = importlib.import_module(f"{package.__name__}.{module.name}")
        sources += [
            cls()
            for cls in vars(imported).values()
            if isinstance(cls, type)
            and issubclass(cls, Source)
            and cls.__module__ == imported.__name__
            and hasattr(cls, "kinds")
        ]
    return tuple(sorted(sources, key=lambda source: source.order))


def kind_of(source: DataSource) -> Source:
    """The module's object that knows a source of a plan.

    Raises:
        ModakError: the plan is of a version that knows more kinds.
    """
    for kind in _all():
        if source.kind in kind.kinds:
            return kind
    raise ModakError(f"the kind of source {source.kind} is not known here", hint="plan again")


def read_source(spec: SourceSpec) -> DataSource:
    """What a text names.

    Raises:
        SourceProblem: it names nothing that is there.
    """
    if not spec.text.strip():
        raise SourceProblem("nothing is named", "a file, folder, glob, archive or address")
    return next(kind for kind in _all() if kind.knows(spec.text)).read(spec)
