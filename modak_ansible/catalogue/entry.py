"""What the catalogue holds: builds of frameworks, the images that they begin with, and published datasets."""

import operator
import re
from functools import cache, cached_property
from typing import Literal

from packaging.version import InvalidVersion, Version
from pydantic import Field

from modak_ansible.errors import UsageError, nearest
from modak_ansible.model.base import Model, left_out
from modak_ansible.model.dataset import DataSource
from modak_ansible.model.measured.workload import Workload, WorkloadScript
from modak_ansible.model.plan import digest_of

ANY = "any"
PLAIN = "python"  # the framework of a script that needs none: nothing of ours acts in its code
_RELEASE = re.compile(r"\d+(\.\d+)*", re.ASCII)
_BOUND = re.compile(rf"([<>]=?)\s*({_RELEASE.pattern})", re.ASCII)
_COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


class Base(Model):
    """What an image begins with: a distribution with a Python."""

    name: str
    suite: str = Field(description="the Debian suite, for images that begin with debootstrap")
    docker: str = Field(description="the image on a hub, by its digest")
    python: str = Field(description="the version of its Python, as major.minor")
    packages: tuple[str, ...] = Field(description="Debian packages")
    licence: str
    mpi: str = Field(default="", description="how its MPI library wants to be started, as srun --mpi names it")
    provides: dict[str, str] = Field(default={}, description="versions of libraries that programs are linked with")
    remark: str = Field(default="", description="what a user should know, such as that the release left the mirrors")


class Entry(Model):
    """A build of a framework: where it comes from, what it needs, and how it is tried after the build."""

    name: str
    framework: str
    version: str
    origin: Literal["pip", "hub", "opt-build", "given"]
    compilers: tuple[str, ...] = ()
    architectures: tuple[str, ...] = Field(description="archspec names; a processor needs one of them or a descendant")
    features: tuple[str, ...] = Field(
        default=(), description="what the processor must have besides, as archspec names it"
    )
    accelerator: str | None = None
    on_processors: bool = left_out(
        False, "whether it serves without its accelerator, too, and was tried so; smaller builds go before it"
    )
    base: str = Field(default="", description="none for an image that is there already")
    source: str = Field(
        default="", description="the image, such as docker://tensorflow/tensorflow:1.14.0-py3, or its path on a target"
    )
    python: str = Field(default="", description="the interpreter in that image")
    address: str = left_out("", "of the target that an image lies on")
    checksum: str = left_out("", "the SHA-256 of an image that lies on a target")
    packages: tuple[str, ...] = Field(default=(), description="Debian packages besides the base's")
    links: dict[str, str] = Field(
        default={}, description="names in /opt/modak/lib that libraries of the image are looked up under besides"
    )
    libraries: tuple[str, ...] = Field(
        default=(), description="what is compiled for the target's processor: names of recipes/libraries"
    )
    requirements: tuple[str, ...] = Field(default=(), description="what pip installs, pinned")
    brings: tuple[str, ...] = left_out(
        (),
        "packages of Python among its libraries, which pip would compile in vain beside another build; "
        "scripts that use them get an entry that brings them, and others none that does",
    )
    index: str = Field(
        default="", description="the framework's own package index, asked when pip's configured ones have not got it"
    )
    allocators: tuple[str, ...] = ()
    preloads: dict[str, str] = left_out(
        {}, "the file of an allocator, where a given image has it under another name than bases"
    )
    thread_variables: tuple[str, ...] = Field(
        default=(), description="environment variables that hold the number of threads"
    )
    environment: dict[str, str] = Field(default={}, description="what a process needs to use it, such as a backend")
    probe: str = Field(description="Python that ends with success when the build works on the processor it runs on")
    refusals: dict[str, str] = Field(
        default={}, description="why its probe failed, by archspec name of the processor; plans take another there"
    )
    untried: str = Field(default="", description="why nobody has built it yet, where that is so")
    tools: tuple[str, ...] = left_out(
        (), "what compiles programs in it, such as mpicc; programs that are built get an entry that has some"
    )
    python_version: str = left_out("", "of a given image's Python, as major.minor")
    glibc: str = left_out("", "of a given image")
    provenance: str
    licence: str

    @property
    def digest(self) -> str:
        """What tells an entry from a later one of the same name."""
        return digest_of(self.model_dump(mode="json"))


class KnownDataset(Model):
    """A published dataset: its files with their checksums, and the addresses of folders that hold them."""

    name: str
    format: str
    sources: tuple[DataSource, ...]
    size: int = Field(description="bytes of all files")
    samples: int | None = Field(default=None, description="training samples")
    is_drawn: bool = Field(default=False, description="whether digits can be drawn in its place")
    licence: str


class Catalogue(Model):
    """All that is known."""

    entries: tuple[Entry, ...]
    bases: dict[str, Base]
    datasets: dict[str, KnownDataset]
    broken: dict[str, str] = Field(
        default={}, description="what is wrong with entries of users and centres that cannot be taken, by their names"
    )

    @cached_property
    def brought(self) -> frozenset[str]:
        """The packages of Python that some entry brings."""
        return frozenset(name for entry in self.entries for name in entry.brings)

    def find(self, name: str) -> Entry | None:
        return next((entry for entry in self.entries if entry.name == name), None)

    def entry(self, name: str) -> Entry:
        """
        Raises:
            UsageError: there is no such entry.
        """
        if (entry := self.find(name)) is None:
            message, hint = self.why_none(name)
            raise UsageError(message, hint=hint)
        return entry

    def why_none(self, name: str) -> tuple[str, str]:
        """Why there is no entry of a name, and a hint."""
        if name in self.broken:
            return f"the entry {name} has mistakes", self.broken[name]
        names = [entry.name for entry in self.entries]
        return f"the catalogue has no entry {name}", nearest(name, names) or "modak catalogue lists its entries"

    def of_framework(self, framework: str) -> list[Entry]:
        """The builds of a framework, newest first."""
        entries = [entry for entry in self.entries if entry.framework == framework]
        return sorted(entries, key=lambda entry: (version_from(entry.version), entry.name), reverse=True)

    def accelerated(self, framework: str, version: str = "", vendor: str | None = None) -> list[Entry]:
        """Those for accelerators, of one maker or of any."""
        entries = [
            entry for entry in self.of_framework(framework) if entry.accelerator and satisfies(entry.version, version)
        ]
        return [entry for entry in entries if vendor in (None, entry.accelerator)]


@cache
def version_from(text: str) -> Version:
    """A version, of which the first comparison reads the text: a plan compares the same few hundreds of times.

    Raises:
        InvalidVersion: it is none as PEP 440 has them.
    """
    return Version(text)


def satisfies(version: str, constraint: str) -> bool:
    """Whether a version is the wanted one, lies in the wanted range, or begins with the wanted parts.

    ``2`` takes 2.13.0 and ``2.1`` does not; an empty preference takes any.
    """
    if not constraint:
        return True
    if constraint[0].isdigit():
        parts = constraint.split(".")
        return version.split("+", maxsplit=1)[0].split(".")[: len(parts)] == parts
    bounds = [_BOUND.fullmatch(bound.strip()) for bound in constraint.split(",")]
    if all(bounds) and _RELEASE.fullmatch(version):
        return all(_COMPARE[bound[1]](version_from(version), version_from(bound[2])) for bound in bounds if bound)
    from packaging.specifiers import SpecifierSet  # noqa: PLC0415 - slow to import, and plain bounds need none of it

    return Version(version) in SpecifierSet(constraint)


def is_version(text: str) -> bool:
    try:
        return bool(Version(text))
    except ValueError:  # InvalidVersion, and Python's own of a number of thousands of digits
        return False


def is_release(entry: Entry, version: str) -> bool:
    """Whether a version, as a process tells it, is an entry's own, whatever its label."""
    try:
        return Version(version).public == Version(entry.version).public
    except InvalidVersion:
        return version == entry.version


def fits(script: WorkloadScript, entry: Entry) -> bool:
    """Whether a workload's script is for a build's framework and version."""
    return script.framework in (entry.framework, ANY) and satisfies(entry.version, script.versions)


def script_for(workload: Workload, entry: Entry) -> WorkloadScript | None:
    """The script that does the work with an entry's framework; None where there is none."""
    return next((script for script in workload.scripts if fits(script, entry)), None)
