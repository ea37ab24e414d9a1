"""The IDX format, in which MNIST is published: a header of big-endian 32-bit integers, then the values.

The header's first integer is the magic number 0x000008NN: 08 for unsigned bytes, NN for the number of dimensions; one
integer for each dimension follows. Images are (count, rows, columns), labels (count). A file is plain or gzip.
"""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from modak_ansible.errors import Location, ModakError

SPLITS = ("train", "t10k")  # MNIST's own names for what is trained on and what is tested on
IMAGES = "images-idx3-ubyte"
LABELS = "labels-idx1-ubyte"

_UNSIGNED_BYTES = 0x0800
_GZIP_MAGIC = b"\x1f\x8b"
_STORED_BLOCK = 0xFFFF  # bytes; the longest block that deflate stores


class IdxError(ModakError, ValueError):
    """A file or a folder is not what the IDX format, or MNIST's way of naming its files, asks for."""

    def __init__(self, path: Path, message: str, *, hint: str = "") -> None:
        super().__init__(message, location=Location(str(path)), hint=hint)


@dataclass(frozen=True)
class Split:
    """The images and the labels of one part of a data set.

    `shape` is (rows, columns) of one image, in pixels.
    """

    name: str
    images: Path
    labels: Path
    count: int
    shape: tuple[int, int]


def read(path: Path) -> NDArray[np.uint8]:
    """Returns the values of an IDX file, plain or gzip, in the shape that its header states."""
    content = _content(path)
    if len(content) < 4:
        raise IdxError(path, f"the file is truncated: {len(content)} bytes, too short for the IDX header")
    (magic,) = struct.unpack_from(">I", content)
    dimensions = magic & 0xFF
    if magic & ~0xFF != _UNSIGNED_BYTES or not dimensions:
        hint = "the file is compressed: its name should end in .gz" if content.startswith(_GZIP_MAGIC) else ""
        raise IdxError(path, f"not an IDX file of unsigned bytes: it starts with {content[:4].hex()}", hint=hint)
    header = 4 + 4 * dimensions
    if len(content) < header:
        raise IdxError(path, f"the file is truncated: {len(content)} bytes, too short for the IDX header")
    shape = struct.unpack_from(f">{dimensions}I", content, 4)
    promised, found = math.prod(shape), len(content) - header
    if found != promised:
        fault = "is truncated" if found < promised else "has bytes to spare"
        raise IdxError(path, f"the file {fault}: {found} values where its header states {_text(shape)} = {promised}")
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)


def write(path: Path, values: NDArray[np.uint8]) -> None:
    """Writes unsigned bytes of any shape as an IDX file: gzip when the name ends in .gz.

    The same values give the same bytes on every machine.
    """
    header = struct.pack(f">I{values.ndim}I", _UNSIGNED_BYTES | values.ndim, *values.shape)
    content = header + values.tobytes()
    path.write_bytes(_stored(content) if path.suffix == ".gz" else content)


def check(folder: Path) -> tuple[Split, ...]:
    """Returns the splits that a folder holds, in the order of SPLITS; reads every file to its end."""
    if not folder.is_dir():
        raise IdxError(folder, "no such folder")
    splits = tuple(split for split in (_split(folder, name) for name in SPLITS) if split)
    if not splits:
        names = " or ".join(f"{name}-{IMAGES}" for name in SPLITS)
        raise IdxError(folder, "the folder holds no data set in IDX form", hint=f"expected {names}, plain or .gz")
    return splits


def _split(folder: Path, name: str) -> Split | None:
    images, labels = _find(folder, f"{name}-{IMAGES}"), _find(folder, f"{name}-{LABELS}")
    if images is None and labels is None:
        return None
    if images is None or labels is None:
        present, missing = (images, LABELS) if images else (labels, IMAGES)
        raise IdxError(folder, f"there is {present and present.name} but no {name}-{missing}, plain or .gz")
    pixels, classes = read(images), read(labels)
    if pixels.ndim != 3:
        raise IdxError(images, f"images have 3 dimensions (count, rows, columns); this file has {pixels.ndim}")
    if classes.ndim != 1:
        raise IdxError(labels, f"labels have 1 dimension; this file has {classes.ndim}")
    if len(pixels) != len(classes):
        raise IdxError(folder, f"{images.name} holds {len(pixels)} images, {labels.name} {len(classes)} labels")
    return Split(name, images, labels, len(pixels), (pixels.shape[1], pixels.shape[2]))


def _find(folder: Path, name: str) -> Path | None:
    candidates = (folder / name, folder / f"{name}.gz")
    return next((path for path in candidates if path.is_file()), None)


def _content(path: Path) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise IdxError(path, f"the file cannot be read: {error.strerror}") from error
    if path.suffix != ".gz":
        return content
    try:
        return gzip.decompress(content)
    except gzip.BadGzipFile as error:
        raise IdxError(path, f"not a gzip file, or a damaged one: {error}") from error
    except EOFError as error:
        raise IdxError(path, "the gzip file is truncated") from error
    except zlib.error as error:
        raise IdxError(path, f"the gzip file is damaged: {error}") from error


def _stored(content: bytes) -> bytes:
    """Returns a gzip file (RFC 1952) that stores its content without compressing it.

    What compression gives depends on the zlib at hand (zlib and zlib-ng differ), and a digest must not.
    """
    blocks = [content[start : start + _STORED_BLOCK] for start in range(0, len(content), _STORED_BLOCK)]
    body = b"".join(
        struct.pack("<BHH", number == len(blocks), len(block), len(block) ^ 0xFFFF) + block
        for number, block in enumerate(blocks, start=1)
    )
    header = _GZIP_MAGIC + b"\x08" + bytes(6) + b"\xff"  # deflate; no flags, no time; no operating system
    return header + body + struct.pack("<II", zlib.crc32(content), len(content))


def _text(shape: tuple[int, ...]) -> str:
    return " x ".join(str(length) for length in shape)
