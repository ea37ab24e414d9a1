"""How much processor time modak plan takes, from the shell: of one training, and of a thousand.

    python benchmarks/plan_time.py [--rounds 5] [--trainings 1000]

It is compared with a process that imports typer, pydantic and tosca-parser and loads the same template, which is the
least that a plan of it could take. The commands take turns, so that what else the machine does disturbs all of them
alike, and the medians are of user and system time, which it disturbs less than wall-clock time.
Python keeps its compiled modules, as it does wherever the project is installed, and modak what it has judged and
written before; the run that makes them is not counted. The first plan of a blueprint finds nothing of the latter.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from campaign_time import ROOT, processor

SHIPPED = ROOT / "tosca" / "blueprints" / "mnist-pytorch-slurm"
RUN = "from modak_ansible.__main__ import run; run()"
FIRST, AGAIN = "modak plan, the first time", "modak plan, 1 training"
LEAST = """
import sys
import pydantic, typer
from toscaparser.tosca_template import ToscaTemplate
ToscaTemplate(sys.argv[1])
"""


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


def times_of(commands: dict[str, list[str]], rounds: int, cache: str) -> dict[str, list[tuple[float, float]]]:
    """Seconds of the processor and of the clock of each command, by its title, in each round."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": cache, "XDG_CACHE_HOME": cache}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    found: dict[str, list[tuple[float, float]]] = {title: [] for title in commands}
    for number in range(rounds + 1):
        for title, command in commands.items():
            if title == FIRST:
                shutil.rmtree(f"{cache}/modak", ignore_errors=True)
            times = _time_of([sys.executable, "-c", *command], environment)
            if number:
                found[title].append(times)
    return found


def _time_of(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    before, began = processor(), time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, check=False)
    if done.returncode:
        sys.exit(done.stderr.decode())
    return processor() - before, time.perf_counter() - began


def tell(times: dict[str, list[tuple[float, float]]]) -> None:
    for title, rounds in times.items():
        used, passed = zip(*rounds)
        print(f"{title:<28} processor {_spread(used)} s, clock {_spread(passed)} s")


def tell_ratio(title: str, plan: list[tuple[float, float]], least: list[tuple[float, float]]) -> None:
    """How many times the least a plan takes, round by round."""
    print(f"{title + ' / least':<34} {_spread([one[0] / other[0] for one, other in zip(plan, least)])} times")


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--trainings", type=int, default=1000, help="of the large blueprint; 0 leaves it out")
    arguments = parser.parse_args()
    commands = {
        "the least": [LEAST, str(SHIPPED / "service.yaml")],
        "modak --version": [RUN, "--version"],
        FIRST: [RUN, "plan", str(SHIPPED)],
        AGAIN: [RUN, "plan", str(SHIPPED)],
    }
    with tempfile.TemporaryDirectory() as folder:
        cache = f"{folder}/cache"
        times = times_of(commands, arguments.rounds, cache)
        tell(times)
        for title in (FIRST, AGAIN):
            tell_ratio(title, times[title], times["the least"])
        if arguments.trainings:
            service = blueprint_of(arguments.trainings, Path(folder) / "many")
            title = f"modak plan, {arguments.trainings} trainings"
            tell(times_of({title: [RUN, "plan", str(service)]}, arguments.rounds, cache))


if __name__ == "__main__":
    main()
