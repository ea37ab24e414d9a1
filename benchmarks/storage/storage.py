"""Measures storage: bandwidth of a large file, and the rate of small ones, in each place that is named.

A write counts until fsync ends; a read counts from the medium: O_DIRECT passes the page cache by where the file system
knows it, and elsewhere the kernel is asked to drop the file from the cache first, which network file systems and what
lies below a virtual disk may not do. What was done is said with each measure. Small files are written without fsync,
then read twice: dropped from the cache first, as far as the kernel does that (it keeps what it knows of the folders),
and out of the cache, as a training's second epoch finds them.
"""

from __future__ import annotations

import argparse
import errno
import mmap
import os
import re
import shutil
import tempfile
from pathlib import Path

import machine
from arguments import give_up, number
from measures import Measures, measuring_parser

BLOCK = 4 * 2**20  # bytes of a read or a write
SHARE = 10  # no more than this part of the free space is filled
SMALL_BYTES = 4096
FILES_A_FOLDER = 100


def default_places() -> dict[str, Path]:
    """Returns the storage classes that can be guessed: the shared workspace, and what the node has of its own."""
    places = {"home": Path(os.environ.get("MODAK_METRICS", "metrics.json")).resolve().parent}
    scratch = Path(os.environ.get("TMPDIR", "/tmp"))  # noqa: S108 - only read, a folder is made in it by mkdtemp
    if scratch.is_dir():
        places["scratch"] = scratch
    return places


def place(text: str) -> tuple[str, Path]:
    """Reads NAME=PATH; a leading ~ and $NAME in the path are expanded."""
    name, separator, path = text.partition("=")
    if not (name and separator and path):
        raise argparse.ArgumentTypeError(f"{text} is not NAME=PATH")
    return name, Path(os.path.expandvars(path)).expanduser()


def size_that_fits(wanted: int, free: int) -> int:
    """Returns a whole number of blocks, no more than was asked for or than the share of the free space; 0: no room."""
    return min(wanted, free // SHARE) // BLOCK * BLOCK


def write(path: Path, size: int) -> float:
    """Writes a new file of so many bytes, and returns the seconds until it was on the medium."""
    block = os.urandom(BLOCK)  # some file systems compress
    started = machine.clock()
    with path.open("wb", buffering=0) as file:
        for _ in range(size // BLOCK):
            write_whole(file.fileno(), block)
        os.fsync(file.fileno())
    return machine.clock() - started


def write_whole(descriptor: int, block: bytes) -> None:
    """Writes a block, also where the kernel takes it in parts only."""
    rest = memoryview(block)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def opened_for_reading(path: Path) -> tuple[int, str]:
    """Returns a descriptor from which reading does not come out of the page cache, and how that is reached."""
    if hasattr(os, "O_DIRECT"):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
            with mmap.mmap(-1, BLOCK) as buffer:
                os.preadv(descriptor, [buffer], 0)
            return descriptor, "O_DIRECT"
        except OSError as error:
            if error.errno not in {errno.EINVAL, errno.EOPNOTSUPP}:
                raise
    descriptor = os.open(path, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    return descriptor, "posix_fadvise"


def read(path: Path) -> tuple[float, str]:
    """Reads a file from begin to end, and returns the seconds and how the page cache was passed by."""
    descriptor, how = opened_for_reading(path)
    with mmap.mmap(-1, BLOCK) as buffer:  # O_DIRECT wants memory at the begin of a page
        started = machine.clock()
        while os.readv(descriptor, [buffer]):
            pass
        seconds = machine.clock() - started
    os.close(descriptor)
    return seconds, how


def small_paths(folder: Path, count: int) -> list[Path]:
    """Returns the names of so many small files, in folders of a hundred."""
    return [folder / f"{number // FILES_A_FOLDER:04}" / f"{number:06}" for number in range(count)]


def write_small(paths: list[Path]) -> float:
    """Writes the files and their folders, and returns the seconds."""
    content = os.urandom(SMALL_BYTES)
    started = machine.clock()
    for path in paths:
        if not path.parent.exists():
            path.parent.mkdir(parents=True)
        path.write_bytes(content)
    return machine.clock() - started


def drop_from_cache(paths: list[Path]) -> None:
    """Asks the kernel to keep nothing of what the files hold; it keeps what it has not written yet, hence the sync."""
    os.sync()
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def read_small(paths: list[Path]) -> float:
    """Asks for the size of each file and reads it, and returns the seconds."""
    started = machine.clock()
    for path in paths:
        if path.stat().st_size != len(path.read_bytes()):
            give_up(1, f"{path} does not hold what was written")
    return machine.clock() - started


def measure(measures: Measures, name: str, folder: Path, arguments: argparse.Namespace) -> None:
    """Measures one place in a folder that is there for that alone."""
    size = size_that_fits(arguments.megabytes * 1_000_000, shutil.disk_usage(folder).free)
    if not size:
        give_up(2, f"{name}: {folder.parent} has too little free space")
    about = {"storage": name, "file_system": file_system(folder)}
    large, writes, reads, how = folder / "large", [], [], ""
    for _ in range(arguments.samples):  # a file each: writing over one is another thing
        writes.append(size / write(large, size) / 1e6)
        seconds, how = read(large)
        reads.append(size / seconds / 1e6)
        large.unlink()
    measures.add("write", writes, megabytes=size / 1e6, until="fsync", **about)
    measures.add("read", reads, megabytes=size / 1e6, cache=how, **about)
    small_writes, cold_reads, warm_reads = [], [], []
    for _ in range(arguments.samples):
        paths = small_paths(folder / "small", arguments.files)
        small_writes.append(len(paths) / write_small(paths))
        drop_from_cache(paths)
        cold_reads.append(len(paths) / read_small(paths))
        warm_reads.append(len(paths) / read_small(paths))
        shutil.rmtree(folder / "small")
    about.update(files=arguments.files, bytes=SMALL_BYTES)
    measures.add("small_files_write", small_writes, until="close", **about)
    measures.add("small_files_read", cold_reads, cache="posix_fadvise", **about)
    measures.add("small_files_read", warm_reads, cache="warm", **about)


def file_system(path: Path, mounts: Path = Path("/proc/self/mounts")) -> str:
    """Returns the kind of file system on which a path lies, as the kernel calls it; empty where it does not tell."""
    try:
        lines = [line.split() for line in os.fsdecode(mounts.read_bytes()).split("\n") if line]
    except OSError:
        return ""
    for words in lines:  # the kernel writes a blank as \040
        words[1] = re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), words[1])
    above = {str(path.resolve()), *map(str, path.resolve().parents)}
    found = [(len(words[1]), number, words[2]) for number, words in enumerate(lines) if words[1] in above]
    return max(found)[2] if found else ""  # of several mounts on one point the last covers the others


def main() -> None:
    """Measures and writes the measures; what it put anywhere is gone afterwards."""
    parser = measuring_parser(__doc__.splitlines()[0], samples=3)
    parser.add_argument(
        "--place",
        metavar="NAME=PATH",
        type=place,
        action="append",
        help="a storage class and a folder of it, repeatable (default: home = where the measures are written, and"
        " scratch = $TMPDIR or /tmp)",
    )
    parser.add_argument("--megabytes", metavar="N", type=number(int, 5), default=512, help="default: %(default)s")
    parser.add_argument("--files", metavar="N", type=number(int, 1), default=2000, help="default: %(default)s")
    arguments = parser.parse_args()
    measures = Measures("storage", arguments)
    for name, path in (dict(arguments.place) if arguments.place else default_places()).items():
        try:
            with tempfile.TemporaryDirectory(prefix="modak-storage-", dir=path) as folder:
                measure(measures, name, Path(folder), arguments)
        except OSError as error:
            give_up(2, f"{name}: {path}: {error.strerror}")
    measures.finish()


if __name__ == "__main__":
    main()
