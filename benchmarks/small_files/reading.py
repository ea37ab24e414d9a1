"""Reads all samples of a data set in shuffled order, as one of several processes; the standard library alone.

It runs in a container of any image. It says `ready`, waits for a line on its standard input, reads, and writes a line
of JSON; as often as it is told to, so that the second reading finds what the first left in the caches.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

BUFFER = 1000  # samples among which a stream is shuffled


def paths_in(folder: Path) -> list[str]:
    """Returns the files below a folder, in order: what a training asks for before its first step."""
    found = []
    for name, folders, files in os.walk(folder):
        folders.sort()
        found += [os.path.join(name, each) for each in sorted(files)]
    return found


def from_files(paths: list[str]) -> Iterator[bytes]:
    """Gives what the files hold."""
    for path in paths:
        with open(path, "rb") as file:
            yield file.read()


def from_shards(shards: list[str], order: random.Random) -> Iterator[bytes]:
    """Gives the members of tar files from their begin to their end, in the order of a shuffle buffer."""
    waiting: list[bytes] = []
    for path in shards:
        with tarfile.open(path, "r|") as shard:
            for member in shard:
                file = shard.extractfile(member)
                if file is None:
                    continue
                waiting.append(file.read())
                if len(waiting) == BUFFER:
                    place = order.randrange(BUFFER)
                    waiting[place], waiting[-1] = waiting[-1], waiting[place]
                    yield waiting.pop()
    order.shuffle(waiting)
    yield from waiting


def read(layout: str, folder: Path, number: int, processes: int) -> dict[str, float]:
    """Reads the part of one of so many processes.

    Returns:
        seconds until the names were known, seconds of reading, samples and bytes.
    """
    started = time.perf_counter()
    paths = paths_in(folder)
    listed = time.perf_counter()
    order = random.Random(1)  # noqa: S311 - of samples, not of secrets
    order.shuffle(paths)
    mine = paths[number::processes]
    samples = from_shards(mine, order) if layout == "shards" else from_files(mine)
    count = size = 0
    for sample in samples:
        count, size = count + 1, size + len(sample)
    return {"list": listed - started, "read": time.perf_counter() - listed, "files": count, "bytes": size}


def main() -> None:
    """LAYOUT FOLDER NUMBER PROCESSES; ends with its standard input."""
    layout, folder, number, processes = sys.argv[1:]
    print("ready", flush=True)
    for _ in sys.stdin:
        print(json.dumps(read(layout, Path(folder), int(number), int(processes))), flush=True)


if __name__ == "__main__":
    main()
