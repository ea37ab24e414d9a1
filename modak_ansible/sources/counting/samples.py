"""How many samples files of a known format give to train with, from their headers."""

from __future__ import annotations

import ast
import gzip
import importlib
import importlib.util
import re
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from math import prod
from pathlib import Path
from typing import IO

from modak_ansible.sources.counting.formats import ENDINGS, images, is_about, lacking, training_names
from modak_ansible.target.datasets.names import key_of

_LONGEST_HEADER = 1 << 20  # bytes of what stands before an array
_UNSIGNED_BYTES = 0x08  # what an IDX file of bytes begins with, before the number of its dimensions
# What readers of damaged files end with; a count that is not known is no reason to stop.
_DAMAGE = (
    OSError, EOFError, ValueError, LookupError, TypeError, ArithmeticError, RuntimeError, MemoryError, SyntaxError,
    struct.error, zlib.error, tarfile.TarError, zipfile.BadZipFile,
)  # fmt: skip
_MOST_READ = 2 * 10**9  # bytes that are read to count lines or records


def count(root: Path, names: Sequence[str], form: str) -> int | None:
    """The samples of an epoch: those of a part named train, or of all files where no part has a name of its own.

    Args:
        root: that the names are relative to.
        form: one of the known formats.

    Returns:
        None where the format does not say it, or a file is not what it should be.
    """
    if form == "idx":
        return samples_in(root, names)
    counting = _COUNTING.get(form)
    if counting is None:
        return None
    try:
        number = counting(root, training_names(names))
    except _DAMAGE:
        return None
    return number if number and number > 0 else None


def damaged(root: Path, names: Sequence[str], form: str) -> str:
    """The first file that is not what the format says, for which reason :func:`count` knows nothing; empty for none."""
    counting = _COUNTING.get(form)
    for name in training_names(names) if counting else ():
        try:
            if counting and name.lower().endswith(ENDINGS.get(form, ())):
                counting(root, [name])
        except _DAMAGE:
            return name
    return ""


def samples_in(folder: Path, names: Sequence[str]) -> int | None:
    """How many samples IDX files give to train with: those of ``train``, or of the only split that is there.

    Args:
        names: of the files, plain or gzip.

    Returns:
        None where there are several other splits, or no header says it.
    """
    labels = {name.partition("-")[0]: folder / name for name in sorted(names) if "-labels-idx1-ubyte" in name}
    path = labels.get("train", next(iter(labels.values())) if len(labels) == 1 else None)
    return _length_of(path) if path else None


def _length_of(path: Path) -> int | None:
    """The first length in the header of an IDX file; the rest of the file is not read."""
    try:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
            magic, length = struct.unpack(">II", file.read(8))
    except (OSError, EOFError, zlib.error, struct.error):
        return None
    return length if magic >> 8 == _UNSIGNED_BYTES and length else None


def _rows_of_csv(root: Path, names: Sequence[str]) -> int | None:
    tables = [root / name for name in names if name.lower().endswith(ENDINGS["csv"])]
    if sum(table.stat().st_size for table in tables) > _MOST_READ:
        return None
    return sum(_lines(table) - 1 for table in tables)


def _lines(path: Path) -> int:
    """Lines of a table; a line break between quotes is part of a value, but in TSV, which has no quotes."""
    breaks, last, quoted = 0, b"\n", 0
    has_quotes = path.suffix.lower() != ".tsv"
    with path.open("rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            parts = block.split(b'"') if has_quotes else [block]
            breaks += sum(part.count(b"\n") for part in parts[quoted::2])
            quoted = (quoted + len(parts) - 1) % 2
            last = block[-1:]
    if quoted:
        raise ValueError("a quote is left open, so that its lines cannot be told apart")
    return breaks + (last != b"\n")


def _rows_of_npy(root: Path, names: Sequence[str]) -> int:
    """The first length of the largest array; of parts, whose names differ by numbers alone, all together."""
    arrays: dict[tuple[str, object], list[tuple[int, int]]] = {}
    for name, size, file in _arrays(root, names):
        if file.read(6) != b"\x93NUMPY":
            raise ValueError("no array of NumPy")
        wide = file.read(2)[0] > 1
        length = struct.unpack("<I" if wide else "<H", file.read(4 if wide else 2))[0]
        shape = ast.literal_eval(file.read(min(length, _LONGEST_HEADER)).decode("latin-1"))["shape"]
        if shape:
            arrays.setdefault((re.sub(r"\d+", "0", name), shape[1:]), []).append((size, int(shape[0])))
    largest = max(arrays.values(), key=lambda parts: sum(size for size, _ in parts))
    return sum(rows for _, rows in largest)


def _arrays(root: Path, names: Sequence[str]) -> Iterator[tuple[str, int, IO[bytes]]]:
    """Name, bytes and file of each array, those in .npz among them."""
    for name in names:
        path = root / name
        if name.endswith(".npy"):
            with path.open("rb") as file:
                yield name, path.stat().st_size, file
        elif name.endswith(".npz"):
            with zipfile.ZipFile(path) as arrays:
                for member in arrays.infolist():
                    with arrays.open(member) as file:
                        yield f"{name}/{member.filename}", member.file_size, file


def _rows_of_hdf5(root: Path, names: Sequence[str]) -> int | None:
    """The first length of each file's largest dataset; None where h5py is not installed."""
    if lacking("hdf5"):
        return None
    h5py = importlib.import_module("h5py")
    total = 0
    for name in names:
        if not name.lower().endswith(ENDINGS["hdf5"]):
            continue
        with h5py.File(root / name, "r") as file:
            shapes: list[tuple[int, ...]] = []
            file.visititems(lambda _, item, shapes=shapes: shapes.append(getattr(item, "shape", ())))
        total += max((shape for shape in shapes if shape), key=prod)[0]
    return total


def _records(root: Path, names: Sequence[str]) -> int | None:
    """Of tfrecord files: each record is its length in 8 bytes, 4 of a checksum, the data, and 4 more."""
    records = 0
    for name in names:
        if is_about(name):
            continue
        path = root / name
        place, size = 0, path.stat().st_size
        with path.open("rb") as file:
            while place < size:
                file.seek(place)
                place += struct.unpack("<Q", file.read(8))[0] + 16
                records += 1
        if place != size:
            raise EOFError(f"{name} ends within a record")
    return records


def _keys_of_shards(root: Path, names: Sequence[str]) -> int | None:
    """Of webdataset's shards, or of files for them: a sample is the files of one name, whatever their endings."""
    shards = [root / name for name in names if name.endswith(".tar")]
    if not shards:
        return len({key_of(name) for name in names} - {""})
    if sum(shard.stat().st_size for shard in shards) > _MOST_READ:
        return None
    total = 0
    for shard in shards:
        with tarfile.open(shard, "r:") as tar:
            total += len({key_of(member.name) for member in tar if member.isfile()} - {""})
    return total


def _rows_of_parquet(root: Path, names: Sequence[str]) -> int:
    return sum(_rows_in_footer(root / name) for name in names if name.lower().endswith(".parquet"))


def _rows_in_footer(path: Path) -> int:
    """The third field of a Parquet file's metadata, in Thrift's compact form, behind the version and the schema."""
    with path.open("rb") as file:
        file.seek(-8, 2)
        length, magic = struct.unpack("<I4s", file.read(8))
        if magic != b"PAR1":
            raise ValueError("no Parquet file")
        file.seek(-8 - length, 2)
        data = file.read(length)
    reader = _Compact(data)
    return next(reader.varint_signed() for field, kind in reader.fields() if field == 3 and kind in (5, 6))


class _Compact:
    """As much of Thrift's compact protocol as it takes to pass over what stands before a field."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0

    def _byte(self) -> int:
        self._place += 1
        return self._data[self._place - 1]

    def _skip(self, count: int) -> None:
        """Passes over bytes; where they are not there, a list of as many things as one likes would never end."""
        self._place += count
        if self._place > len(self._data):
            raise EOFError

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
            if shift > 63:
                raise ValueError("a number of more than 64 bits")

    def varint_signed(self) -> int:
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def fields(self) -> Iterator[tuple[int, int]]:
        """Each field of a structure with its kind, until its end; what the caller does not read is passed over."""
        field = 0
        while True:
            head = self._byte()
            if not head:
                return
            field = field + (head >> 4) if head >> 4 else self.varint_signed()
            before = self._place
            yield field, head & 15
            if self._place == before:
                self._pass(head & 15)

    def _pass(self, kind: int) -> None:
        if kind == 3:
            self._skip(1)
        elif kind in (4, 5, 6):
            self.varint()
        elif kind == 7:
            self._skip(8)
        elif kind == 8:
            self._skip(self.varint())
        elif kind in (9, 10):
            head = self._byte()
            for _ in range(head >> 4 if head >> 4 < 15 else self.varint()):
                self._pass(3 if head & 15 in (1, 2) else head & 15)
        elif kind == 12:
            for _ in self.fields():
                pass
        elif kind not in (1, 2):
            raise ValueError(f"Thrift's kind {kind}")


_COUNTING: dict[str, Callable[[Path, Sequence[str]], int | None]] = {
    "image-folder": lambda _, names: images(names),
    "csv": _rows_of_csv,
    "npy": _rows_of_npy,
    "hdf5": _rows_of_hdf5,
    "tfrecord": _records,
    "webdataset": _keys_of_shards,
    "parquet": _rows_of_parquet,
}
