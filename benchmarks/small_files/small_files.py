"""Measures how fast many small files are read: as they lie, from a squashfs image, from tar files, from a local copy.

It packs, mounts and starts containers itself, so it runs natively, not in one (in a suite: container native), and takes
the smallest image of the workspace that has a Python. Reading cold comes after the page cache was emptied, folders and
names too where root may, and otherwise file by file (posix_fadvise, which keeps names and folders); reading warm is the
same reading once more. With --latency all is read again through a file system that answers late (latency_fs.py): that
is an emulation, and said so with each measure.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import layouts
import machine
from arguments import give_up, number
from measures import Measures, measuring_parser

RUNTIMES = ("apptainer", "singularity")
WORKSPACE_IMAGES = Path("../../../images")  # a job runs in deployments/NAME/code
HERE = Path(__file__).resolve().parent
CACHES = Path("/proc/sys/vm/drop_caches")
HAS_PYTHON = "import sys; sys.exit(sys.version_info < (3, 7))"


class Bench:
    """Data in each layout, and who reads it.

    Args:
        folder: for the data; emptied by whoever made it.
        scratch: a folder of the node's own disk.
        enter: words that start a container, without binds and image.
        image: of the container.
    """

    def __init__(self, folder: Path, scratch: Path, enter: list[str], image: Path) -> None:
        self.folder, self.scratch = folder, scratch
        self._enter, self._image = enter, image
        self.layouts = {"folder": "files", **{name: f"{name}.sqsh" for name in layouts.SQUASHFS}, "shards": "shards"}

    def read(self, place: Path, layout: str, processes: int, passes: int) -> list[dict[str, float]]:
        """Has all samples read by so many processes, so often, and returns each time what that took.

        Returns:
            of each pass: seconds, files, bytes, and seconds of listing.
        """
        data = place / self.layouts[layout]
        bind = f"{data}:/data:image-src=/" if layout in layouts.SQUASHFS else f"{data}:/data:ro"
        words = [
            *self._enter,
            "--bind",
            bind,
            "--bind",
            str(HERE),
            str(self._image),
            "python3",
            str(HERE / "reading.py"),
        ]
        with contextlib.ExitStack() as stack:
            readers = [
                stack.enter_context(started([*words, layout, "/data", str(n), str(processes)]))
                for n in range(processes)
            ]
            return [one_pass(readers) for _ in range(passes)]

    def copy(self, place: Path, layout: str) -> tuple[float, Path]:
        """Copies a layout to the node's own disk; returns the seconds and the folder with it."""
        into = Path(tempfile.mkdtemp(dir=self.scratch))
        begun = machine.clock()
        subprocess.run(["cp", "-R", str(place / self.layouts[layout]), str(into)], check=True)
        return machine.clock() - begun, into


@contextlib.contextmanager
def started(words: list[str]) -> Iterator[subprocess.Popen[str]]:
    """A reader that is ready to read; it ends when it is told nothing more."""
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
        if line_of(reader).strip() != "ready":
            give_up(1, "a reader did not start")
        yield reader


def line_of(reader: subprocess.Popen[str]) -> str:
    """Returns what a reader says next; ends the script where it says nothing."""
    line = reader.stdout.readline() if reader.stdout else ""
    if not line:
        give_up(1, f"a reader ended with {reader.wait()}")
    return line


def one_pass(readers: list[subprocess.Popen[str]]) -> dict[str, float]:
    """Has all readers read once, side by side."""
    begun = machine.clock()
    for reader in readers:
        if reader.stdin:
            reader.stdin.write("go\n")
            reader.stdin.flush()
    told = [json.loads(line_of(reader)) for reader in readers]
    seconds = machine.clock() - begun
    listing = max(each["list"] for each in told)
    return {
        "seconds": seconds - listing,
        "list": listing,
        "files": sum(each["files"] for each in told),
        "bytes": sum(each["bytes"] for each in told),
    }


def empty_caches(folder: Path) -> str:
    """Has the kernel keep as little as it lets this user ask for, and returns how."""
    os.sync()
    with contextlib.suppress(OSError):
        CACHES.write_text("3\n")
        return "drop_caches"
    for path in folder.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)
    return "posix_fadvise"


@contextlib.contextmanager
def late(folder: Path, milliseconds: float) -> Iterator[Path]:
    """A folder, shown by a file system that answers so late; nothing of it is in any cache."""
    place = Path(tempfile.mkdtemp(prefix="modak-late-"))
    words = [sys.executable, str(HERE / "latency_fs.py"), str(folder), str(place), str(milliseconds)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        try:
            if line_of(server).strip() != "mounted":
                give_up(1, "the late file system does not mount")
            yield place
        finally:
            subprocess.run(["fusermount3", "-u", "-z", str(place)], check=False)
            server.terminate()
    place.rmdir()


def prepare(bench: Bench, measures: Measures, arguments: argparse.Namespace, about: dict[str, object]) -> None:
    """Makes the data in each layout; what packing takes is measured."""
    files = bench.folder / bench.layouts["folder"]
    least, most = (int(each * 1000) for each in arguments.kilobytes)
    size = layouts.draw(files, arguments.files, least, most)
    for layout in layouts.SQUASHFS:
        image = bench.folder / bench.layouts[layout]
        how = empty_caches(files)
        begun = machine.clock()
        layouts.squash(files, image, layout)
        measures.add("dataset_pack", [machine.clock() - begun], layout=layout, cache=how, **about)
        print(f"{layout}: {image.stat().st_size / size:.3f} of the files' bytes")
    begun = machine.clock()
    layouts.shard(files, bench.folder / bench.layouts["shards"])
    measures.add("dataset_pack", [machine.clock() - begun], layout="shards", cache="warm", **about)


def add_reading(measures: Measures, found: list[dict[str, float]], **about: object) -> None:
    """Takes what several times reading the same in the same way came to."""
    measures.add("dataset_read", [each["files"] / each["seconds"] for each in found], **about)
    measures.add("dataset_list", [each["list"] for each in found], **about)


def measure_here(bench: Bench, measures: Measures, arguments: argparse.Namespace, about: dict[str, object]) -> None:
    """Reads and copies each layout on the file system that it lies on."""
    for processes in arguments.processes:
        for layout in bench.layouts:
            cold, warm, how = [], [], ""
            for _ in range(arguments.samples):
                how = empty_caches(bench.folder)
                first, second = bench.read(bench.folder, layout, processes, passes=2)
                if first["files"] != arguments.files:
                    give_up(1, f"{layout}: {first['files']:.0f} files were read, not {arguments.files}")
                cold.append(first)
                warm.append(second)
            add_reading(measures, cold, layout=layout, cache=how, processes=processes, **about)
            add_reading(measures, warm, layout=layout, cache="warm", processes=processes, **about)
    for layout in bench.layouts:
        how = empty_caches(bench.folder)
        seconds, copied = bench.copy(bench.folder, layout)
        shutil.rmtree(copied)
        measures.add("dataset_copy", [seconds], layout=layout, cache=how, **about)


def measure_late(bench: Bench, measures: Measures, arguments: argparse.Namespace, about: dict[str, object]) -> None:
    """Reads each layout through the late file system, in place and after a copy to the node's own disk."""
    about = {**about, "emulated": f"{arguments.latency:g} ms an answer"}
    for layout in bench.layouts:
        for processes in arguments.processes:
            with late(bench.folder, arguments.latency) as place:
                cold, warm = bench.read(place, layout, processes, passes=2)
            add_reading(measures, [cold], layout=layout, cache="cold", processes=processes, **about)
            add_reading(measures, [warm], layout=layout, cache="warm", processes=processes, **about)
        with late(bench.folder, arguments.latency) as place:
            seconds, copied = bench.copy(place, layout)
        measures.add("dataset_copy", [seconds], layout=layout, cache="cold", **about)
        for processes in arguments.processes:
            found = bench.read(copied, layout, processes, passes=1)
            add_reading(measures, found, layout=layout, cache="as copied", processes=processes, **about)
        shutil.rmtree(copied)


def container(arguments: argparse.Namespace) -> tuple[list[str], Path]:
    """Returns the words that start a container, and the image."""
    if "SINGULARITY_NAME" in os.environ:
        give_up(2, "this is a container already; run it natively")
    runtime = next(filter(None, map(shutil.which, RUNTIMES)), None)
    if runtime is None:
        give_up(2, f"{' or '.join(RUNTIMES)} is not on the PATH")
    enter = [runtime, "--silent", "exec"]
    images = arguments.image or sorted(WORKSPACE_IMAGES.glob("*.sif"), key=lambda path: path.stat().st_size)
    for image in images:
        words = [*enter, str(image), "python3", "-c", HAS_PYTHON]
        if not subprocess.run(words, capture_output=True, check=False).returncode:
            return enter, image
    give_up(2, "no image with a Python; name one with --image")
    raise AssertionError


def parsed() -> argparse.Namespace:
    """Reads the command line."""
    parser = measuring_parser("Measures reading many small files, as they lie and packed.", samples=3)
    add = parser.add_argument
    add("--image", metavar="FILE", type=Path, action="append", help="repeatable (default: those of the workspace)")
    add("--files", metavar="N", type=number(int, 1), default=10000, help="default: %(default)s")
    add("--kilobytes", metavar="LEAST,MOST", type=pair, default=(8.0, 30.0), help="of a file (default: 8,30)")
    add("--processes", metavar="N,N", type=counts, default=(1, 2), help="that read side by side (default: 1,2)")
    add(
        "--latency",
        metavar="MS",
        type=number(float, 0),
        default=0.0,
        help="read again through a file system that answers so late (default: do not)",
    )
    add(
        "--scratch",
        metavar="FOLDER",
        type=Path,
        default=Path(os.environ.get("TMPDIR", "/tmp")),  # noqa: S108 - a folder is made in it by mkdtemp
        help="of the node's own disk (default: $TMPDIR or /tmp)",
    )
    return parser.parse_args()


def pair(text: str) -> tuple[float, float]:
    """Reads LEAST,MOST."""
    least, most = (number(float, 0.001)(each) for each in text.split(","))
    if least > most:
        raise argparse.ArgumentTypeError(f"{text}: the first is the larger")
    return least, most


def counts(text: str) -> tuple[int, ...]:
    """Reads numbers with commas between them."""
    return tuple(number(int, 1)(each) for each in text.split(","))


def main() -> None:
    """Measures and writes the measures; what it put anywhere is gone afterwards."""
    arguments = parsed()
    enter, image = container(arguments)
    version = subprocess.run([enter[0], "--version"], capture_output=True, text=True, check=False).stdout.split()
    measures = Measures("small_files", arguments, [(Path(enter[0]).name, version[-1] if version else "")])
    about = {"files": arguments.files, "kilobytes": "%g to %g" % arguments.kilobytes}
    base = Path(arguments.metrics).resolve().parent
    try:
        with (
            tempfile.TemporaryDirectory(prefix="modak-small-", dir=base) as folder,
            tempfile.TemporaryDirectory(prefix="modak-small-", dir=arguments.scratch) as scratch,
        ):
            bench = Bench(Path(folder), Path(scratch), enter, image)
            prepare(bench, measures, arguments, about)
            measure_here(bench, measures, arguments, about)
            if arguments.latency:
                measure_late(bench, measures, arguments, about)
    except OSError as error:
        give_up(2, f"{error.filename or base}: {error.strerror}")
    measures.finish()


if __name__ == "__main__":
    main()
