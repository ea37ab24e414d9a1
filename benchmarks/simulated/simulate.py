"""Simulates all-reduces of many ranks with SimGrid's SMPI, and holds the law of data-parallel training against them.

python benchmarks/simulated/simulate.py benchmarks/records/scaling/simulated.json

Needs SimGrid (Debian: libsimgrid-dev). A switch without contention, a full-duplex link a host: what is simulated is the
algorithm, not a machine. Each algorithm's latency and bandwidth are calibrated at 2 ranks, as they are where the law is
used. Bytes and bandwidth are both divided by SCALE, since SMPI copies the messages for real.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from modak_ansible.performance.data_parallel import Algorithm, Link, all_reduce

RANKS = (2, 64, 256, 1024)
ALGORITHMS: dict[str, tuple[str, Algorithm]] = {"ring": ("lr", "ring"), "rabenseifner": ("rab_rdb", "rabenseifner")}
BANDWIDTH, LATENCY = 12.5e9, 1e-6  # bytes/s of a link (100 Gbit/s), seconds of a link, of which a message passes two
SCALE = 100
RESNET50 = 25_557_032 // SCALE  # float32 gradients
# SMPI's ring sums what the ranks do not divide by a reduce to one rank, which takes all of it from each: of 1,024 ranks
# that alone is as long as the ring. Sizes are those that every number of ranks divides, and one that they do not.
FLOATS = RESNET50 // max(RANKS) * max(RANKS)
# CM02: a message takes latency + bytes / bandwidth; the default model has factors of a measured cluster's own.
OPTIONS = ("--cfg=network/model:CM02", "--cfg=smpi/simulate-computation:no")


def platform(ranks: int) -> str:
    """Returns the description of so many hosts."""
    return (
        '<?xml version=\'1.0\'?><!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd"><platform version="4.1">'
        f'<cluster id="c" prefix="n" suffix="" radical="0-{ranks - 1}" speed="1Gf" bw="{BANDWIDTH / SCALE:.0f}Bps" '
        f'lat="{LATENCY * 1e6:g}us" sharing_policy="SPLITDUPLEX"/></platform>'
    )


def simulated(folder: Path, ranks: int, name: str, floats: int) -> tuple[float, float, list[str]]:
    """Returns the simulated seconds of one all-reduce, those of simulating, and the command."""
    (folder / "platform.xml").write_text(platform(ranks))
    (folder / "hosts").write_text("".join(f"n{number}\n" for number in range(ranks)))
    words = ["smpirun", "-np", str(ranks), "-platform", "platform.xml", "-hostfile", "hosts", *OPTIONS]
    words += [f"--cfg=smpi/allreduce:{name}", "./all_reduce", str(floats)]
    begun = time.monotonic()
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True)
    line = next(line for line in done.stdout.splitlines() if line.startswith("seconds"))
    return float(line.split()[1]), time.monotonic() - begun, words


def main() -> None:
    """Simulates, and writes what came of it."""
    found = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = Path(__file__).with_name("all_reduce.c")
        subprocess.run(["smpicc", "-O2", str(source), "-o", "all_reduce"], cwd=folder, check=True)
        for title, (selector, algorithm) in ALGORITHMS.items():
            small, _, _ = simulated(folder, 2, selector, 2)
            large, _, _ = simulated(folder, 2, selector, FLOATS)
            link = Link(small / 2, (large - small) / (4 * FLOATS))
            sizes = [(ranks, FLOATS) for ranks in RANKS] + [(max(RANKS), RESNET50)]
            for ranks, floats in sizes:
                seconds, wall, words = simulated(folder, ranks, selector, floats)
                law = all_reduce(ranks, 4 * floats, link, algorithm)
                divides = floats % ranks == 0
                found.append(
                    {
                        "algorithm": title, "ranks": ranks, "bytes": 4 * floats * SCALE, "ranks_divide_it": divides,
                        "seconds": seconds, "law": law, "off": law / seconds - 1, "latency": link.alpha,
                        "seconds_to_simulate": round(wall, 1), "command": " ".join(words),
                    }
                )  # fmt: skip
                times = f"{1e3 * seconds:.3f} ms, by the law {1e3 * law:.3f} ms: {law / seconds - 1:+.1%}"
                print(title, ranks, "ranks:" if divides else "ranks, which do not divide it:", times, flush=True)
    version = subprocess.run(["smpirun", "-version"], capture_output=True, text=True, check=False).stdout.split()
    record = {
        "simgrid": next((word for word in version if word[0].isdigit()), ""),
        "link": {"bytes_per_second": BANDWIDTH, "latency": LATENCY},
        "scale": SCALE,
        "runs": found,
    }
    Path(sys.argv[1]).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
