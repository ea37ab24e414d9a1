"""Measures the memory bandwidth as STREAM does: copy and triad over arrays that no cache holds.

triad.c beside this script is compiled here, for the processor on which it runs. As with STREAM, what counts are the
bytes that the loop names (16 an element for copy, 24 for triad), not those that a cache line fetched for writing adds.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from arguments import give_up, number
from measures import Measures, measuring_parser

FLAGS = ("-O3", "-march=native", "-fopenmp", "-std=c11")
BYTES = {"copy": 16, "triad": 24}  # of memory traffic for each element
CACHES = 4  # an array is at least so many times the last-level caches, as STREAM's rule has it
LEAST = 64_000_000  # bytes of an array where the caches are small or unknown


def last_level_caches(system: Path = Path("/sys/devices/system/cpu")) -> int:
    """Returns the bytes of all last-level caches together; 0 where the kernel does not tell."""
    caches: dict[int, dict[str, int]] = {}
    for index in system.glob("cpu[0-9]*/cache/index[0-9]*"):
        try:
            kind, size = (index / "type").read_text().strip(), (index / "size").read_text().strip()
            level, shared = int((index / "level").read_text()), (index / "shared_cpu_list").read_text().strip()
        except (OSError, ValueError):
            continue
        if kind != "Instruction":
            caches.setdefault(level, {})[shared] = in_bytes(size)
    return sum(caches[max(caches)].values()) if caches else 0


def in_bytes(size: str) -> int:
    """Returns the bytes of a size as the kernel writes it, such as 32768K; 0 for what it does not write."""
    found = re.fullmatch(r"(\d+)([KMG]?)", size)
    return int(found[1]) * {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}[found[2]] if found else 0


def available_memory(meminfo: Path = Path("/proc/meminfo")) -> int:
    """Returns the bytes that can be allocated without swapping."""
    for line in meminfo.read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def array_bytes(caches: int, available: int) -> int:
    """Returns the size of one of the three arrays, or 0 where half of the memory cannot hold what the rule asks for."""
    size = max(CACHES * caches, LEAST)
    return size if 3 * size <= available // 2 else 0


def compiled(folder: Path) -> Path:
    """Compiles triad.c into a folder; ends the script with exit code 2 where that cannot be done."""
    compiler = shutil.which("gcc")
    if compiler is None:
        give_up(2, "no gcc on the PATH; the catalogue's entry measuring-tools has one")
    program, source = folder / "triad", Path(__file__).with_name("triad.c")
    done = subprocess.run(
        [compiler, *FLAGS, str(source), "-o", str(program), "-lm"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        give_up(2, f"{source.name} does not compile: {first_line(done.stderr)}")
    return program


def run(program: Path, elements: int, samples: int, threads: int) -> dict[str, list[float]]:
    """Returns the seconds of each measurement of copy and triad."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "OMP_PROC_BIND": "true"}
    done = subprocess.run(
        [str(program), str(elements), str(samples)], capture_output=True, text=True, check=False, env=environment
    )
    if done.returncode:
        give_up(2 if done.returncode == 3 else 1, first_line(done.stderr) or f"{program} ended with {done.returncode}")
    lines = (line.split() for line in done.stdout.splitlines())
    return {words[0]: [float(word) for word in words[1:]] for words in lines}


def first_line(text: str) -> str:
    """Returns the first line of a program's complaint."""
    return text.strip().splitlines()[0] if text.strip() else ""


def main() -> None:
    """Measures and writes the measures."""
    parser = measuring_parser(__doc__.splitlines()[0], samples=10)
    parser.add_argument(
        "--megabytes",
        metavar="N",
        type=number(int, 1),
        help=f"size of each of the three arrays (default: {CACHES} times the last-level caches)",
    )
    arguments = parser.parse_args()
    caches, available = last_level_caches(), available_memory()
    size = arguments.megabytes * 1_000_000 if arguments.megabytes else array_bytes(caches, available)
    if not size or 3 * size > available:
        wanted = 3 * (size or max(CACHES * caches, LEAST)) // 1_000_000
        give_up(2, f"three arrays need {wanted} MB, and {available // 1_000_000} MB are free")
    with tempfile.TemporaryDirectory() as folder:
        program = compiled(Path(folder))
        version = subprocess.run(["gcc", "-dumpfullversion"], capture_output=True, text=True, check=True).stdout.strip()
        measures = Measures("memory_bandwidth", arguments, [("gcc", version)])
        elements = size // 8
        seconds = run(program, elements, arguments.samples, arguments.threads)
    about = {"threads": arguments.threads, "megabytes": size / 1e6, "cache_megabytes": caches / 1e6}
    for name, samples in seconds.items():
        measures.add(name, [BYTES[name] * elements / each / 1e9 for each in samples], flags=" ".join(FLAGS), **about)
    measures.finish()


if __name__ == "__main__":
    main()
