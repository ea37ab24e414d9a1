"""What it costs to read a dataset, in seconds, from the numbers that a target gives of its storage."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil
from typing import NamedTuple

from modak_ansible.model.dataset import Dataset
from modak_ansible.model.target import Storage

# Seconds to open a file in an image that is mounted by FUSE: from no cache, and out of memory (benchmarks/findings.md).
FROM_IMAGE, FROM_IMAGE_AGAIN = 1e-4, 2.5e-5
# A node's memory keeps what it has read as long as that is no more than this part of it.
_KEPT = 0.5


class Data(NamedTuple):
    """What a node reads of a training's data."""

    size: int  # bytes
    files: int  # how many
    epochs: int  # how often
    # bytes of the node, which keeps files that fit there for the next epoch; None where that is not known
    memory: int | None = None

    @classmethod
    def of(cls, datasets: Iterable[Dataset], epochs: int | None, memory: int | None = None) -> Data | None:
        """Of some datasets together; None where a size, or how many files there are, is not known beforehand."""
        size = files = 0
        for dataset in datasets:
            if not dataset.files or not dataset.size:
                return None
            size, files = size + dataset.size, files + dataset.files
        return cls(size, files, epochs or 1, memory) if files else None

    def part(self, nodes: int) -> Data:
        """What each of several nodes reads, where they share it out."""
        return Data(ceil(self.size / nodes), ceil(self.files / nodes), self.epochs, self.memory)

    @property
    def is_kept(self) -> bool:
        return self.memory is not None and self.size <= _KEPT * self.memory


def first_epoch(storage: Storage | None, data: Data, *, packed: bool = False) -> float | None:
    """To read all files as they lie, or from one image; None where the numbers are not known."""
    if storage is None or not storage.read_bandwidth:
        return None
    read_seconds = data.size / 1e6 / storage.read_bandwidth
    if packed:
        return read_seconds + data.files * FROM_IMAGE
    return read_seconds + data.files / storage.file_rate if storage.file_rate else None


def later_epoch(storage: Storage | None, data: Data, *, packed: bool = False) -> float | None:
    """The same in another epoch: out of memory, where that keeps them and was measured."""
    if data.is_kept and storage is not None and storage.warm_file_rate:
        return data.files * FROM_IMAGE_AGAIN if packed else data.files / storage.warm_file_rate
    return first_epoch(storage, data, packed=packed)


def all_epochs(storage: Storage | None, data: Data, *, packed: bool) -> float | None:
    """All epochs."""
    first, later = first_epoch(storage, data, packed=packed), later_epoch(storage, data, packed=packed)
    return None if first is None or later is None else first + (data.epochs - 1) * later


def packing_seconds(storage: Storage | None, data: Data) -> float | None:
    """To make the image where the files lie."""
    read_seconds = first_epoch(storage, data)
    if read_seconds is None or storage is None or not storage.write_bandwidth:
        return None
    return read_seconds + data.size / 1e6 / storage.write_bandwidth


def copying_seconds(source: Storage | None, scratch: Storage | None, data: Data, *, packed: bool) -> float | None:
    """To copy the files, or their image, to another storage."""
    read_seconds = first_epoch(source, Data(data.size, 0, 1), packed=True) if packed else first_epoch(source, data)
    if read_seconds is None or scratch is None or not scratch.write_bandwidth:
        return None
    return read_seconds + data.size / 1e6 / scratch.write_bandwidth
