"""What the names of a dataset's files say: format, training part, images."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import PurePosixPath

_IMAGES = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp", ".gif")
_TRAINING, _OTHERS = ("train", "training"), ("val", "valid", "validation", "test", "testing", "t10k", "eval")
# By which names a format is told, the most telling first.
ENDINGS = {
    "csv": (".csv", ".tsv"),
    "parquet": (".parquet",),
    "npy": (".npy", ".npz"),
    "hdf5": (".h5", ".hdf5"),
    "tfrecord": (".tfrecord", ".tfrecords"),
    "webdataset": (".tar",),
    "text": (".txt", ".text", ".md"),
}


def format_of(names: Sequence[str]) -> str:
    """The format that most of the files have, by their names; empty where none is told."""
    names = [name for name in names if not is_about(name)] or names
    names = [re.sub(r"-\d+-of-\d+$", "", name) for name in names]  # of a part
    if names and all(fnmatch(name, "*-idx*-ubyte*") for name in names):
        return "idx"
    counts = {form: sum(name.lower().endswith(endings) for name in names) for form, endings in ENDINGS.items()}
    counts["image-folder"] = sum("/" in name and name.lower().endswith(_IMAGES) for name in names)
    form = max(counts, key=lambda form: counts[form])
    return form if counts[form] * 2 > len(names) else ""


def is_about(name: str) -> bool:
    """Whether a file tells of the data and is none of it."""
    return PurePosixPath(name.lower()).name.startswith((".", "readme", "license"))


def lacking(form: str) -> str:
    """The library that counts the samples of a format, where it is not installed; empty where none is lacking."""
    return "h5py" if form == "hdf5" and importlib.util.find_spec("h5py") is None else ""


def of_names(names: Sequence[str], form: str) -> int | None:
    """The samples that files give whose names alone are known: an image is one."""
    return images(training_names(names)) or None if form == "image-folder" else None


def training_names(names: Sequence[str]) -> list[str]:
    def part(name: str) -> str:
        return next((word for word in _words(name) if word in (*_TRAINING, *_OTHERS)), "")

    training = [name for name in names if part(name) in _TRAINING]
    return training or [name for name in names if not part(name)] or list(names)


def _words(name: str) -> list[str]:
    path = PurePosixPath(name.lower())
    return [*path.parts[:-1], path.name.split(".")[0].split("-")[0].split("_")[0]]


def images(names: Sequence[str]) -> int:
    return sum(name.lower().endswith(_IMAGES) for name in names)
