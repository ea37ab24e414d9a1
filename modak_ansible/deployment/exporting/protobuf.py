"""Messages of protobuf, as bytes."""

from __future__ import annotations

import struct


def varint(value: int) -> bytes:
    """A whole number; one below zero as its 64 bits."""
    value &= 0xFFFFFFFFFFFFFFFF
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def varint_field(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def delimited(field: int, value: str | bytes) -> bytes:
    """A text, or a message within a message."""
    data = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(data)) + data


def double(field: int, value: float) -> bytes:
    return varint(field << 3 | 1) + struct.pack("<d", value)


def single(field: int, value: float) -> bytes:
    """A number of 32 bits; one that these do not hold is infinite."""
    try:
        data = struct.pack("<f", value)
    except OverflowError:
        data = struct.pack("<f", float("inf") if value > 0 else float("-inf"))
    return varint(field << 3 | 5) + data
