"""What a training reads."""

from typing import Literal, NamedTuple, get_args

from pydantic import Field

from modak_ansible.model.base import Model, left_out

IDX = "idx"  # MNIST's form; what stages it leaves a description among its files, which our own workloads read
# What data may be made of: known to the performance model, and to nothing else.
FORMATS = (IDX, "image-folder", "text", "csv", "parquet", "npy", "hdf5", "webdataset", "tfrecord")
# What a file of is a part of the samples that a reader takes or leaves as a whole.
SHARDS = ("webdataset", "tfrecord", "parquet")
Pack = Literal["auto", "squashfs", "shards", "none"]
PACKS: tuple[Pack, ...] = get_args(Pack)
Kind = Literal["name", "format", "addresses", "path", "mount", "truth", "checksums", "size", "pack"]


class Property(NamedTuple):
    """What a user may say of a dataset.

    The form of requests and the TOSCA type (tosca/types) follow from it, by ``make generate``.
    """

    meaning: str  # what it says, for users
    kind: Kind  # how it is written


PROPERTIES = {
    "name": Property(
        "The dataset's name; for mnist, the addresses and checksums of its published files are known.", "name"
    ),
    "format": Property("The data's format, for the performance model; by default its files tell.", "format"),
    "source": Property(
        "Where the data comes from, tried in order: a file, a folder, a glob or an archive of this machine; the "
        "address of a file, an archive, or a folder whose files checksum lists; hf://datasets/OWNER/NAME@REVISION, "
        "s3://BUCKET/FOLDER, webdavs://HOST/FOLDER or sftp://HOST/FOLDER; published (the addresses known for this "
        "name); or digits (drawn in place of MNIST).",
        "addresses",
    ),
    "urls": Property("Instead of source: the addresses of several files that form the dataset.", "addresses"),
    "on_target": Property(
        "Instead of source: a path that is already on the target, which may begin with ~ or $NAME; nothing is copied.",
        "path",
    ),
    "unpack": Property(
        "Whether to unpack packed files; by default an archive that is named is unpacked, unless it "
        "is in webdataset's format, and files in a folder stay as they are.",
        "truth",
    ),
    "mount_as": Property(
        "Where the script looks for it, relative to the script's folder, such as data/MNIST/raw; for "
        "a dataset of one file, the file itself if this ends with its name.",
        "mount",
    ),
    "pack": Property(
        "Whether its files become one squashfs image on the target, which the container mounts in "
        "place of the folder; shards: they become tar shards, for a script that reads format "
        "webdataset; auto chooses what the plan finds faster.",
        "pack",
    ),
    "checksum": Property("The SHA-256 of files, by file name; a folder's address needs them.", "checksums"),
    "size": Property("The size of all files, if it is not known otherwise.", "size"),
}  # fmt: skip


# Digits that are drawn where MNIST is not to be had, and how many there are to train with.
DIGITS_LABEL = "drawn digits, not MNIST"
DIGITS_SAMPLES = 6000


class DataFile(Model):
    """A file of a dataset; what is None is known only once the file is there."""

    name: str
    size: int | None = Field(default=None, description="bytes")
    sha256: str | None = None
    address: str = left_out("", "where it is fetched; empty below the source's own")
    version: str = left_out("", "what its source calls this state of it: git: and git's SHA-1, an ETag, or a moment")


class Contents(Model):
    """All files of a source that can be listed, of which a plan lists none but a few."""

    digest: str = Field(description="SHA-256 of the files' names, sizes and digests or versions")
    files: int
    size: int = Field(description="bytes")


class DataSource(Model):
    """A place that the files may come from; a plan has the addresses instead of ``published``."""

    kind: str = Field(description="the module of modak_ansible/sources that knows it has it as one of its kinds")
    label: str = Field(default="", description="what the data is, for people")
    location: str = Field(default="", description="a path of the controller or the target, or an address")
    files: tuple[DataFile, ...] = Field(default=(), description="the files there; none where they are many, or drawn")
    contents: Contents | None = left_out(None, "of what can be listed when the plan is made")
    unpack: Literal["", "archive", "all"] = left_out(
        "", "what is unpacked on the target: nothing, the one archive, or every packed file"
    )
    unpacked: Contents | None = left_out(None, "what the archive holds, where that is known")

    pattern: str = left_out("", "which files of a folder are meant; all without it")

    @property
    def bytes_there(self) -> int | None:
        """Bytes that it takes on the target; None where that is not known."""
        content = self.unpacked or (None if self.unpack else self.contents)
        if content:
            return content.size
        sizes = [file.size for file in self.files]
        return sum(size for size in sizes if size) if sizes and all(size is not None for size in sizes) else None


class Dataset(Model):
    """A dataset and the sources of it, in the order in which they are tried."""

    name: str
    format: str = ""
    sources: tuple[DataSource, ...]
    size: int | None = Field(default=None, description="bytes of all files")
    samples: int | None = Field(default=None, description="of an epoch, as the files of the controller say")
    damaged: str = Field(
        default="", description="a file that is not what its format says, so that nobody counts samples"
    )
    mount_as: str = Field(default="", description="where the script looks for it, relative to its folder")
    pack: Pack = Field(
        default="auto",
        description="whether its files become one image, or shards, on the target; auto leaves it to the plan",
    )

    @property
    def is_shards(self) -> bool:
        """Whether its files are parts that a reader takes as a whole, one rank this one and another that one."""
        return self.format in SHARDS and self.pack in ("auto", "none", "shards")

    @property
    def files(self) -> int | None:
        """How many files it has; None where that is not known before they are there."""
        source = self.sources[0]
        content = source.unpacked or (None if source.unpack else source.contents)
        return content.files if content else (None if source.unpack else len(source.files) or None)


def field_of(number: int) -> str:
    """What a refusal calls a training's dataset, by its number from 0."""
    return f"dataset.{number}" if number else "dataset"
