"""Compares settings of one training: runs interleaved on one machine, medians with their spread.

Each round runs every setting once, in turn, the order reversed in every other round; what counts is the time of the
last epoch, which nothing of the start is in. The first setting is what the others are held against. Standard library
only, so that it also runs inside an image.

    python benchmarks/compare.py --setting stock --setting tcmalloc LD_PRELOAD=libtcmalloc_minimal.so.4 \\
        -- python benchmarks/mnist_cnn/pytorch.py --data FOLDER --epochs 2 --limit 6000
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROUNDS = 5
_SPIN = "while True: pass"


def main() -> None:
    arguments = _arguments()
    settings = {name: _environment(pairs) for name, *pairs in arguments.setting}
    seconds: dict[str, list[float]] = {name: [] for name in settings}
    neighbours = [subprocess.Popen([sys.executable, "-c", _SPIN]) for _ in range(arguments.neighbours)]
    try:
        for round_number in range(arguments.rounds):
            for name in list(settings)[:: -1 if round_number % 2 else 1]:
                seconds[name].append(_last_epoch(arguments.command, settings[name]))
                print(f"round {round_number + 1}/{arguments.rounds}: {name} {seconds[name][-1]:.2f} s", file=sys.stderr)
    finally:
        for neighbour in neighbours:
            neighbour.kill()
    baseline = seconds[next(iter(settings))]
    print(f"{'setting':<16}{'median':>9}{'least':>9}{'most':>9}   ratio (least to most of the rounds)")
    for name, values in seconds.items():
        ratios = [other / own for other, own in zip(baseline, values, strict=True)]
        low, middle, high = min(ratios), statistics.median(ratios), max(ratios)
        print(
            f"{name:<16}{statistics.median(values):8.2f}s{min(values):8.2f}s{max(values):8.2f}s"
            f"   {middle:.2f} ({low:.2f} to {high:.2f})"
        )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--setting", nargs="+", action="append", required=True, metavar=("NAME", "VARIABLE=VALUE"),
        help="a name and the environment variables that make the setting",
    )  # fmt: skip
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"{ROUNDS} unless given")
    parser.add_argument("--neighbours", type=int, default=0, help="processes that keep a core busy meanwhile")
    parser.add_argument("command", nargs="+", help="the training, behind --; it writes metrics.json as benchmarks do")
    arguments = parser.parse_args()
    if len({name for name, *_ in arguments.setting}) != len(arguments.setting):
        parser.error("two settings have one name")
    for pair in (pair for _, *pairs in arguments.setting for pair in pairs if "=" not in pair):
        parser.error(f"{pair} is no VARIABLE=VALUE")
    return arguments


def _environment(pairs: list[str]) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in pairs)


def _last_epoch(command: list[str], setting: dict[str, str]) -> float:
    """Seconds of the last epoch of one run of the training."""
    with tempfile.TemporaryDirectory() as folder:
        metrics = Path(folder) / "metrics.json"
        environment = {**os.environ, **setting, "MODAK_METRICS": str(metrics)}
        done = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False)
        if done.returncode != 0:
            sys.exit(f"error: {command[0]} ended with the exit code {done.returncode}")
        return float(json.loads(metrics.read_text())["epochs"][-1]["seconds"])


if __name__ == "__main__":
    main()
