"""Reads TFRecord files of JPEG images: their framing, and of each tf.train.Example the three fields that matter here.

A record is its length (8 bytes, little-endian), the length's masked CRC32C, the content, and the content's. The content
is a protocol-buffer message, Example{features: 1}, Features{map: 1}, entry{key: 1, value: 2}, Feature{bytes_list: 1,
int64_list: 3}, each list {value: 1}. Needs numpy only; Python 2.7 must read it too.
"""

from __future__ import absolute_import, division, print_function

import os
import struct

from crc32c import masked_crc32c
from dataset import DataError

IMAGE, LABEL = b"image/encoded", b"image/class/label"
_HEADER, _FOOTER = 12, 4  # bytes


def index(path, limit=None):
    """Returns the offsets of the records of a file, of the first `limit` only.

    Raises:
        DataError: the framing is damaged or the file truncated; it names the file and the record, counted from 1.
    """
    offsets, offset, size = [], 0, os.path.getsize(path)
    with open(path, "rb") as file:
        while offset < size and len(offsets) != limit:
            file.seek(offset)
            length = _length(file.read(_HEADER), path, len(offsets) + 1)
            offsets.append(offset)
            offset += _HEADER + length + _FOOTER
            if offset > size:
                raise DataError("%s: record %s is truncated" % (path, len(offsets)))
    return offsets


def read(path, offset, number):
    """Returns the JPEG and the label of the record at an offset; its number is for messages.

    Raises:
        DataError: the checksum is wrong, or the record lacks one of the two fields.
    """
    with open(path, "rb") as file:
        file.seek(offset)
        length = _length(file.read(_HEADER), path, number)
        content, footer = file.read(length), file.read(_FOOTER)
    if len(content) < length or len(footer) < _FOOTER:
        raise DataError("%s: record %s is truncated" % (path, number))
    if struct.unpack("<I", footer)[0] != masked_crc32c(content):
        raise DataError("%s: record %s has a wrong checksum" % (path, number))
    try:
        return example(content)
    except ValueError as error:
        raise DataError("%s: record %s: %s" % (path, number, error))


def _length(header, path, number):
    if len(header) < _HEADER:
        raise DataError("%s: record %s is truncated" % (path, number))
    length, checksum = struct.unpack("<QI", header)
    if checksum != masked_crc32c(header[:8]):
        raise DataError("%s: record %s has a wrong checksum of its length" % (path, number))
    return length


def example(content):
    """Returns the JPEG (bytes) and the label (int) of a serialised tf.train.Example.

    Raises:
        ValueError: it is not one, or lacks a field.
    """
    features = {}
    for message in _fields(content).get(1, []):
        for entry in _fields(message).get(1, []):
            pair = _fields(entry)
            if 1 in pair and 2 in pair:
                features[pair[1][-1]] = pair[2][-1]
    images = _list(features, IMAGE, 1)
    labels = _list(features, LABEL, 3)
    label = _varint(labels[0], 0)[0] if isinstance(labels[0], bytes) else labels[0]  # packed, or not
    return images[0], label - 2**64 if label >= 2**63 else label


def _list(features, name, kind):
    lists = _fields(features[name]).get(kind) if name in features else None
    values = _fields(lists[-1]).get(1) if lists else None
    if not values:
        raise ValueError("it has no %s" % name.decode("ascii"))
    return values


def _fields(message):
    """Returns the values of a protocol-buffer message by field number: bytes, or int where it is a varint."""
    if not isinstance(message, bytes):
        raise ValueError("it is not a tf.train.Example")
    found, position = {}, 0
    while position < len(message):
        key, position = _varint(message, position)
        if key & 7 == 0:
            value, position = _varint(message, position)
        elif key & 7 in (1, 2, 5):
            size, position = _varint(message, position) if key & 7 == 2 else (8 if key & 7 == 1 else 4, position)
            value, position = message[position : position + size], position + size
        else:
            raise ValueError("it is not a tf.train.Example")
        if position > len(message):
            raise ValueError("it is not a tf.train.Example")
        found.setdefault(key >> 3, []).append(value)
    return found


def _varint(message, position):
    value = shift = 0
    for byte in bytearray(message[position : position + 10]):
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, position + shift // 7
    raise ValueError("it is not a tf.train.Example")
