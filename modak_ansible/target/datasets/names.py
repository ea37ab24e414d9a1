"""What the names of a dataset's files say: archives, samples of shards, and what no file system holds."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Sequence

from ...errors import ModakError

LONGEST_NAME = 255  # bytes
_ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.zst", ".tzst", ".zip")
SHARD_ENDING = ".tar"  # of webdataset's form
_PACKED = (".gz", ".bz2", ".xz", ".zst")


def is_archive(name: str) -> bool:
    return name.lower().endswith(_ARCHIVES)


def is_packed(name: str) -> bool:
    """Whether a file is an archive, or compressed."""
    return name.lower().endswith((*_ARCHIVES, *_PACKED))


def name_problem(name: str) -> str:
    """What is wrong with the name of a file of a dataset, which manifests and messages hold; empty where nothing is."""
    if name.isascii() and name.isprintable() and len(name) <= LONGEST_NAME:
        return ""  # of most of very many
    if any(0xDC80 <= ord(letter) <= 0xDCFF for letter in name):
        return f"the name {name!a} is not in UTF-8"
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in name):
        return f"the name {name!a} holds a line break or another control character"
    if any(len(part.encode()) > LONGEST_NAME for part in name.split("/")):
        return f"the name {name[:40]}... is longer than the {LONGEST_NAME} bytes that a file system holds"
    return ""


def check_case(folder: Path, names: Sequence[str], holder: str) -> None:
    """Makes sure that a file system that takes ``a`` and ``A`` for one has not made one file of two.

    Args:
        names: relative to it, such that differ by nothing else, or one that seems to be there.

    Raises:
        ModakError: the folder has one of them under another name.
    """
    for name in names:
        path = folder / name
        if path.name not in os.listdir(path.parent):
            raise ModakError(
                (
                    f"{holder} holds two files whose names differ only in case, one of them {path}: the file system "
                    "there takes them for the same"
                ),
                hint="rename one of them, or give the target a workspace elsewhere",
            )


def key_of(name: str) -> str:
    """The sample that a file belongs to: its path up to the first dot of its own name; empty where it is part of none.

    Readers of webdataset's form pass over files without an ending, and over those whose names begin with a dot.
    """
    folder, slash, file_name = name.rpartition("/")
    stem, dot, ending = file_name.partition(".")
    return f"{folder}{slash}{stem}" if stem and dot and ending else ""
