"""What it costs to read a dataset, in seconds, from the numbers that a target gives of its storage."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from modak_ansible.model.dataset import Dataset
from modak_ansible.model.target import Storage

# Seconds to open a file in an image that is mounted by FUSE, from no cache (benchmarks/findings.md).
FROM_IMAGE = 1e-4


@dataclass(frozen=True)
class Data:
    """What a training reads.

    Attributes:
        size: bytes.
        files: how many.
        epochs: how often.
    """

    size: int
    files: int
    epochs: int

    @classmethod
    def of(cls, datasets: Iterable[Dataset], epochs: int | None) -> Data | None:
        """Of some datasets together; None where a size, or how many files there are, is not known beforehand."""
        size = files = 0
        for dataset in datasets:
            if not dataset.files or not dataset.size:
                return None
            size, files = size + dataset.size, files + dataset.files
        return cls(size, files, epochs or 1) if files else None


def once(storage: Storage | None, data: Data) -> float | None:
    """To read all files as they lie; None where the numbers are not known."""
    if storage is None or not storage.read_bandwidth or not storage.file_rate:
        return None
    return data.size / 1e6 / storage.read_bandwidth + data.files / storage.file_rate


def in_image(storage: Storage | None, data: Data) -> float | None:
    """To read all files from one image."""
    if storage is None or not storage.read_bandwidth:
        return None
    return data.size / 1e6 / storage.read_bandwidth + data.files * FROM_IMAGE


def to_pack(storage: Storage | None, data: Data) -> float | None:
    """To make the image where the files lie."""
    reading = once(storage, data)
    if reading is None or storage is None or not storage.write_bandwidth:
        return None
    return reading + data.size / 1e6 / storage.write_bandwidth


def to_copy(source: Storage | None, scratch: Storage | None, data: Data, *, packed: bool) -> float | None:
    """To copy the files, or their image, to another storage."""
    reading = in_image(source, replace(data, files=0)) if packed else once(source, data)
    if reading is None or scratch is None or not scratch.write_bandwidth:
        return None
    return reading + data.size / 1e6 / scratch.write_bandwidth
