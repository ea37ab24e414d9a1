"""How much processor time modak plan takes, from the shell: of one training, and of a thousand.

    python benchmarks/plan_time.py [--rounds 5] [--trainings 1000]

Prints the medians of user and system time, which other processes on the machine disturb less than wall-clock time.
Python keeps its compiled modules, as it does wherever the project is installed; the run that makes them is not counted.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHIPPED = ROOT / "tosca" / "blueprints" / "mnist-pytorch-slurm"
RUN = "from modak_ansible.commands.main import run; run()"


def blueprint_of(trainings: int, folder: Path) -> Path:
    """A blueprint with so many trainings, made of the shipped one, each with a seed of its own."""
    shutil.copytree(SHIPPED, folder, symlinks=False, ignore=shutil.ignore_patterns("types", "playbooks", "roles"))
    for name in ("types", "playbooks"):
        (folder / name).symlink_to((SHIPPED / name).resolve())
    service = folder / "service.yaml"
    text = service.read_text(encoding="utf-8")
    head, _, rest = text.partition("    training:\n")
    node, _, _ = rest.partition("\n  outputs:\n")
    nodes = [
        f"    training{number}:\n" + node.replace("batch-size: 128", f"batch-size: 128\n          seed: {number}")
        for number in range(trainings)
    ]
    service.write_text(head + "\n".join(nodes), encoding="utf-8")
    return service


def times_of(arguments: list[str], rounds: int, cache: str) -> tuple[list[float], list[float]]:
    """Seconds of the processor and of the clock, of each round."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": cache}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    used, passed = [], []
    for _ in range(rounds + 1):
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", RUN, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            check=False,
        )
        if done.returncode:
            sys.exit(done.stderr.decode())
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        passed.append(time.perf_counter() - began)
    return used[1:], passed[1:]


def tell(title: str, times: tuple[list[float], list[float]]) -> None:
    used, passed = times
    print(
        f"{title:<28} processor {statistics.median(used):.2f} s ({min(used):.2f} to {max(used):.2f}), "
        f"clock {statistics.median(passed):.2f} s ({min(passed):.2f} to {max(passed):.2f})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--trainings", type=int, default=1000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cache = f"{folder}/cache"
        tell("modak --version", times_of(["--version"], arguments.rounds, cache))
        tell("modak plan, 1 training", times_of(["plan", str(SHIPPED)], arguments.rounds, cache))
        service = blueprint_of(arguments.trainings, Path(folder) / "many")
        title = f"modak plan, {arguments.trainings} trainings"
        tell(title, times_of(["plan", str(service)], arguments.rounds, cache))


if __name__ == "__main__":
    main()
