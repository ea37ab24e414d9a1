"""Writes what benchmarks/resnet50 reads: shards by formats of their own, so that the reader is not tested by itself."""

import io
import struct
import tarfile
from pathlib import Path

FOLDER = Path(__file__).parents[3] / "benchmarks/resnet50"
JPEG = bytes.fromhex("ffd8ffe0") + b"pixels"


def crc32c(content: bytes) -> int:
    state = 0xFFFFFFFF
    for byte in content:
        state ^= byte
        for _ in range(8):
            state = state >> 1 ^ (0x82F63B78 if state & 1 else 0)
    return state ^ 0xFFFFFFFF


def masked(content: bytes) -> bytes:
    crc = crc32c(content)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def varint(value: int) -> bytes:
    value %= 2**64
    digits = bytearray()
    while value > 127:
        digits.append(value & 127 | 128)
        value >>= 7
    return bytes([*digits, value])


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def example(image: bytes | None = JPEG, label: int | None = 0, packed: bool = True) -> bytes:
    features = {b"image/height": field(3, field(1, varint(480)))}
    if image is not None:
        features[b"image/encoded"] = field(1, field(1, image))
    if label is not None:
        value = field(1, varint(label)) if packed else varint(1 << 3) + varint(label)
        features[b"image/class/label"] = field(3, value)
    entries = [field(1, field(1, name) + field(2, feature)) for name, feature in features.items()]
    return field(1, b"".join(entries))


def record(content: bytes) -> bytes:
    length = struct.pack("<Q", len(content))
    return length + masked(length) + content + masked(content)


def write_tar(path: Path, members: list[tuple[str, bytes]]) -> None:
    with tarfile.open(path, "w") as shard:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            shard.addfile(member, io.BytesIO(content))


def samples(labels: list[int]) -> list[tuple[str, bytes]]:
    """Members of a WebDataset shard."""
    return [
        pair
        for n, label in enumerate(labels)
        for pair in ((f"{n:04}.jpg", JPEG + bytes([n])), (f"{n:04}.cls", str(label).encode()))
    ]
