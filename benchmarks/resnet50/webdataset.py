"""Reads WebDataset shards: tar files in which the members of one name up to the first dot are one sample.

Of a sample counts the image (.jpg, .jpeg) and the label as text (.cls). Python 2.7 must read it too.
"""

from __future__ import absolute_import, division, print_function

import os
import tarfile

from dataset import DataError

IMAGES, LABEL = ("jpg", "jpeg"), "cls"


def index(path, limit=None):
    """Returns the samples of a shard in order, of the first `limit` only: tuples of key, offset, size and label.

    Offset and size are those of the JPEG in the file, which is then read without the tar file's directory.

    Raises:
        DataError: the shard is damaged or truncated, or a sample lacks its image or its label.
    """
    samples, parts = [], {}
    try:
        with tarfile.open(path, "r:") as shard:
            for member in shard:
                if not member.isfile():
                    continue
                key, _, extension = member.name.rpartition("/")[2].partition(".")
                key = member.name.rpartition("/")[0] + "/" + key
                if parts and key != parts["key"]:
                    samples.append(_sample(path, parts, len(samples) + 1))
                    parts = {}
                    if len(samples) == limit:
                        return samples
                parts["key"] = key
                _take(parts, extension.lower(), member, shard)
    except (tarfile.TarError, EOFError, IOError) as error:
        raise DataError("%s: damaged or truncated behind sample %s: %s" % (path, len(samples), error))
    if parts:
        samples.append(_sample(path, parts, len(samples) + 1))
    return samples


def _take(parts, extension, member, shard):
    if extension in IMAGES:
        parts["image"] = (member.offset_data, member.size)
    elif extension == LABEL:
        parts["label"] = shard.extractfile(member).read()


def _sample(path, parts, number):
    if "image" not in parts or "label" not in parts:
        missing = "image (.jpg)" if "image" not in parts else "label (.cls)"
        raise DataError("%s: sample %s (%s) has no %s" % (path, number, parts["key"].lstrip("/"), missing))
    try:
        label = int(parts["label"].decode("ascii"))
    except ValueError:
        raise DataError("%s: sample %s: its label is not a number: %r" % (path, number, parts["label"][:20]))
    return (parts["key"],) + parts["image"] + (label,)


def read(path, offset, size, number):
    """Returns the JPEG of a sample; its number is for messages.

    Raises:
        DataError: the shard is truncated.
    """
    if os.path.getsize(path) < offset + size:
        raise DataError("%s: sample %s is truncated" % (path, number))
    with open(path, "rb") as file:
        file.seek(offset)
        return file.read(size)
