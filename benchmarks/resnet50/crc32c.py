"""CRC32C (RFC 3720, Castagnoli's polynomial), which TFRecord files carry; numpy makes it fast enough for images.

Python 2.7 must read it too.
"""

from __future__ import absolute_import, division, print_function

import numpy as np

_POLYNOMIAL = 0x82F63B78  # bit-reversed
_MASK_DELTA = 0xA282EAD8  # TFRecord's: a record that itself holds checksums is to have another one
_LANES = 1024  # parts of the data that are computed side by side; a power of two


def _byte_table():
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> np.uint32(1)) ^ np.uint32(_POLYNOMIAL), table >> np.uint32(1))
    return table.astype(np.uint32)


_TABLE = _byte_table()
_TABLE_LIST = _TABLE.tolist()


def crc32c(data):
    """Returns the CRC32C of bytes."""
    values = np.frombuffer(data, np.uint8)
    begin = len(values) % _LANES
    state = 0xFFFFFFFF
    for value in values[:begin].tolist():
        state = _TABLE_LIST[(state ^ value) & 255] ^ state >> 8
    return (_in_lanes(state, values[begin:]) if len(values) > begin else state) ^ 0xFFFFFFFF


def _in_lanes(begin, values):
    """Returns the state after values, a multiple of _LANES; the state before them is where the first lane starts."""
    lanes = values.astype(np.uint32).reshape(_LANES, -1)
    states = np.zeros(_LANES, np.uint32)
    states[0] = begin
    for column in np.ascontiguousarray(lanes.T):
        states = _after(states ^ column)
    # What a lane has come to is moved on over the length of the next one; so two lanes become one.
    shift = _shift_over(lanes.shape[1])
    while len(states) > 1:
        states = _apply(shift, states[0::2]) ^ states[1::2]
        shift = _apply(shift, shift)
    return int(states[0])


def masked_crc32c(data):
    """Returns the checksum as TFRecord files store it."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


def _after(states):
    """Returns the states one byte later."""
    return _TABLE[states & np.uint32(255)] ^ (states >> np.uint32(8))


def _shift_over(zeros):
    """Returns what each of the 32 bits of a state becomes after so many zero bytes."""
    states = np.left_shift(np.uint32(1), np.arange(32, dtype=np.uint32))
    for _ in range(zeros):
        states = _after(states)
    return states


def _apply(shift, states):
    moved = np.zeros_like(states)
    for bit in range(32):
        moved ^= np.where(states >> np.uint32(bit) & np.uint32(1), shift[bit], np.uint32(0))
    return moved
