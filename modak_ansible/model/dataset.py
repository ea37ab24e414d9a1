"""What a training reads."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from modak_ansible.model.base import Model


class DataFile(Model):
    """A file of a dataset; what is None is known only once the file is there."""

    name: str
    size: int | None = Field(default=None, description="bytes")
    sha256: str | None = None


class DataSource(Model):
    """A place that the files may come from; a plan has the addresses instead of ``published``."""

    kind: Literal["folder", "url", "published", "digits"]
    label: str = Field(default="", description="what the data is, for people")
    location: str = Field(default="", description="a folder of the controller, or the address of a folder")
    files: tuple[DataFile, ...] = Field(default=(), description="the files there; none for digits, which are drawn")


class Dataset(Model):
    """A dataset and the sources of it, in the order in which they are tried."""

    name: str
    format: str = "idx"
    sources: tuple[DataSource, ...]
    checksums: tuple[tuple[str, str], ...] = Field(
        default=(), description="file name and SHA-256, as the user gave them"
    )
    size: int | None = Field(default=None, description="bytes of all files")
    samples: int | None = Field(default=None, description="of an epoch, as the headers in the controller's folder say")
