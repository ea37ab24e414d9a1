"""Draws a data set of many small files, and lays it out in the ways that are compared."""

from __future__ import annotations

import math
import os
import random
import subprocess
import tarfile
from pathlib import Path

FILES_A_FOLDER = 1000
SHARDS = 8
# No owner, no times: the same files give the same image.
PLAIN = ("-noappend", "-quiet", "-no-progress", "-no-xattrs", "-all-root", "-mkfs-time", "0", "-all-time", "0")
_AS_IS = ("-noI", "-noD", "-noF", "-noX")
# Fragments put small files together into blocks of 128 KiB, which are read as a whole.
SQUASHFS = {
    "squashfs-zstd": ("-comp", "zstd"),
    "squashfs-none": _AS_IS,
    "squashfs-apart": (*_AS_IS, "-no-fragments"),
}


def draw(folder: Path, count: int, least: int, most: int) -> int:
    """Writes files of random bytes, which are as little compressible as a JPEG's; returns the bytes of all.

    Sizes are spread evenly over their logarithm, which puts as many below the geometric middle as above it.
    """
    sizes, total = random.Random(1), 0  # noqa: S311 - of sizes, not of secrets
    for number in range(count):
        inside = folder / f"{number // FILES_A_FOLDER:03}"
        inside.mkdir(parents=True, exist_ok=True)
        size = round(math.exp(sizes.uniform(math.log(least), math.log(most))))
        (inside / f"{number:06}.jpg").write_bytes(os.urandom(size))
        total += size
    return total


def squash(folder: Path, image: Path, layout: str) -> None:
    """Packs a folder into one image.

    Raises:
        OSError: mksquashfs is not there, or fails.
    """
    done = subprocess.run(
        ["mksquashfs", str(folder), str(image), *PLAIN, *SQUASHFS[layout]], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise OSError(done.returncode, done.stderr.strip())


def shard(folder: Path, into: Path) -> None:
    """Packs a folder into tar files, whose members have been shuffled once."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    random.Random(2).shuffle(paths)  # noqa: S311
    into.mkdir()
    for number in range(SHARDS):
        with tarfile.open(into / f"{number:03}.tar", "w", format=tarfile.USTAR_FORMAT) as file:
            for path in paths[number::SHARDS]:
                file.add(path, str(path.relative_to(folder)), recursive=False)
