"""Scalars in TensorBoard's event files: records with a length and checksums, of which each is a message of protobuf.

``uint64 length, uint32 checksum of it, data, uint32 checksum of the data``, little-endian; the checksums are CRC-32C,
rotated. https://www.tensorflow.org/tutorials/load_data/tfrecord
"""

from __future__ import annotations

import os
import struct
from functools import lru_cache
from typing import BinaryIO, Dict, Iterator, List, Tuple

from .points import Point, Remarks

_HEAD = struct.Struct("<QI")
# Records above this many bytes are images and the like: they are passed over, and their checksums not looked at.
_LARGE, _CHECKED = 1 << 20, 1 << 12
_BLOCK = 1 << 18
_POLYNOMIAL = 0x82F63B78
# TensorFlow's numbers of types of scalars, with how they are packed.
_TYPES = {1: "<f", 2: "<d", 3: "<i", 9: "<q", 19: "<e"}
_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5


def points(file: BinaryIO, limit: int, remarks: Remarks) -> Iterator[Point]:
    """The scalars of an event file.

    Args:
        file: at its beginning.
        limit: bytes at its end that are read; 0 for all of it.
        remarks: gets what is wrong; a last record that is not whole is being written.
    """
    for data in records(file, limit, remarks):
        try:
            point = _event(data)
        except (ValueError, IndexError, struct.error, UnicodeDecodeError):
            remarks.add("has a record that is not an event")
            continue
        if point:
            yield point


def records(file: BinaryIO, limit: int, remarks: Remarks) -> Iterator[bytes]:
    """The records that are whole; behind a damaged one it goes on at the next."""
    size = os.fstat(file.fileno()).st_size
    place = max(0, size - limit) if limit else 0
    if place:
        place = _next_record(file, place, size)
    while place + _HEAD.size <= size:
        file.seek(place)
        head = file.read(_HEAD.size)
        if len(head) < _HEAD.size:
            return
        length, checksum = _HEAD.unpack(head)
        if masked(head[:8]) != checksum:
            remarks.add("is damaged, or not an event file of TensorBoard", f"byte {place}")
            place = _next_record(file, place + 1, size)
            continue
        end = place + _HEAD.size + length + 4
        if end > size:
            return
        if length <= _LARGE:
            data, check = file.read(length), file.read(4)
            if length <= _CHECKED and struct.pack("<I", masked(data)) != check:
                remarks.add("is damaged", f"byte {place}")
            else:
                yield data
        place = end


def _next_record(file: BinaryIO, place: int, size: int) -> int:
    """Where the next record of less than 16 MiB begins: its length has five bytes of zero."""
    while place < size:
        file.seek(place)
        block = file.read(_BLOCK)
        position = block.find(b"\0" * 5)
        while position >= 0:
            begin = position - 3
            head = block[begin : begin + _HEAD.size] if begin >= 0 else b""
            if len(head) == _HEAD.size and masked(head[:8]) == _HEAD.unpack(head)[1]:
                return place + begin
            position = block.find(b"\0" * 5, position + 1)
        if len(block) < _BLOCK:
            return size
        place += len(block) - _HEAD.size
    return size


def framed(data: bytes) -> bytes:
    """A record with its length and checksums."""
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked(length)) + data + struct.pack("<I", masked(data))


def masked(data: bytes) -> int:
    """The checksum of a record's part."""
    table, value = _table(), 0xFFFFFFFF
    for byte in data:
        value = table[(value ^ byte) & 0xFF] ^ (value >> 8)
    value ^= 0xFFFFFFFF
    return ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF


@lru_cache(maxsize=1)
def _table() -> List[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)  # noqa: PLW2901
        table.append(byte)
    return table


def _event(data: bytes) -> Point | None:
    """Of a message Event: wall_time = 1, step = 2, summary = 5, whose value = 1 is repeated."""
    time, step, values = None, 0, {}
    for number, kind, value in _fields(data):
        if number == 1 and kind == _EIGHT:
            (time,) = struct.unpack("<d", value)
        elif number == 2 and kind == _VARINT:
            step = _signed(value)
        elif number == 5 and kind == _BYTES:
            values.update(_scalars(value))
    return Point(values, float(step), None, time) if values else None


def _scalars(summary: bytes) -> Dict[str, float]:
    """Of a message Summary.Value: tag = 1, simple_value = 2, tensor = 8."""
    scalars = {}
    for number, kind, message in _fields(summary):
        if number != 1 or kind != _BYTES:
            continue
        tag, scalar = "", None
        for inner, wire, value in _fields(message):
            if inner == 1 and wire == _BYTES:
                tag = value.decode()
            elif inner == 2 and wire == _FOUR:
                (scalar,) = struct.unpack("<f", value)
            elif inner == 8 and wire == _BYTES:
                scalar = _tensor(value)
        if tag.isprintable() and tag and scalar is not None:
            scalars[tag] = float(scalar)
    return scalars


def _tensor(data: bytes) -> float | None:
    """The number of a TensorProto that has one: dtype = 1, tensor_shape = 2, tensor_content = 4, or values by type."""
    dtype, content = 0, b""
    packed = {5: "<f", 6: "<d"}
    numbers: List[float] = []
    for number, kind, value in _fields(data):
        if number == 1 and kind == _VARINT:
            dtype = _signed(value)
        elif number == 2 and kind == _BYTES and value:
            return None  # it has a shape, and is no scalar
        elif number == 4 and kind == _BYTES:
            content = value
        elif number in packed and kind in (_BYTES, _FOUR, _EIGHT):
            numbers += [item[0] for item in struct.iter_unpack(packed[number], value)]
        elif number in (7, 10) and kind == _VARINT:
            numbers.append(_signed(value))
        elif number in (7, 10) and kind == _BYTES:
            numbers.append(_signed(_varint(value, 0)[0].to_bytes(8, "little")))
    if content and dtype in _TYPES and len(content) == struct.calcsize(_TYPES[dtype]):
        return float(struct.unpack(_TYPES[dtype], content)[0])
    return float(numbers[0]) if len(numbers) == 1 else None


def _fields(data: bytes) -> Iterator[Tuple[int, int, bytes]]:
    """The fields of a message: number, wire type and bytes; a varint as eight of them, little-endian.

    Raises:
        ValueError, IndexError: it is no message.
    """
    place = 0
    while place < len(data):
        key, place = _varint(data, place)
        kind = key & 7
        if kind == _VARINT:
            number, place = _varint(data, place)
            value = number.to_bytes(8, "little")
        else:
            size = {_EIGHT: 8, _FOUR: 4}.get(kind)
            if kind == _BYTES:
                size, place = _varint(data, place)
            if size is None or place + size > len(data):
                raise ValueError("it is not a protobuf message")
            value = data[place : place + size]
            place += size
        yield key >> 3, kind, value


def _varint(data: bytes, place: int) -> Tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, place
        if shift > 63:
            raise ValueError("it is not a varint")


def _signed(value: bytes) -> int:
    return int(struct.unpack("<q", value)[0])
