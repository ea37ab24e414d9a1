"""The IDX format, in which MNIST is published: a header of big-endian 32-bit integers, then the values.

The header's first integer is the magic number 0x000008NN: 08 for unsigned bytes, NN for the number of dimensions; one
integer for each dimension follows. Images are (count, rows, columns), labels (count). A file is plain or gzip.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SPLITS = ("train", "t10k")  # MNIST's own names for what is trained on and what is tested on
IMAGES = "images-idx3-ubyte"
LABELS = "labels-idx1-ubyte"

_UNSIGNED_BYTES = 0x0800
_GZIP_MAGIC = b"\x1f\x8b"
_STORED_BLOCK = 0xFFFF  # bytes; the longest block that deflate stores


def write(path: Path, values: NDArray[np.uint8]) -> None:
    """Writes unsigned bytes of any shape as an IDX file: gzip when the name ends in .gz.

    The same values give the same bytes on every machine.
    """
    header = struct.pack(f">I{values.ndim}I", _UNSIGNED_BYTES | values.ndim, *values.shape)
    content = header + values.tobytes()
    path.write_bytes(_stored(content) if path.suffix == ".gz" else content)


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
