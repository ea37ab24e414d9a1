"""Draws the efficiency of a ResNet50 at up to 1,024 nodes: by the law, by SimGrid, and as Summit's users have told it.

python benchmarks/simulated/figure.py benchmarks/records/scaling/simulated.json benchmarks/figures/summit.svg

The paper gives an efficiency of 0.87 at 1,024 nodes of six GPUs each, and neither bandwidth, batch nor precision.
Assumed here, none of it measured: STEP, gradients in float32, the simulation's links, and that the GPUs of a node sum
among themselves for nothing.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib

from modak_ansible.performance.data_parallel import Algorithm, Link, all_reduce, even_layers, exposed, straggler

STEP = 64 / 360  # seconds: 64 images of a GPU at 360 a second
JITTER = 0.02  # standard deviation of a node's steps, for the one line that has stragglers
PARAMETERS, LAYERS = 25_557_032, 54
PAPER = (1024, 0.87)
NODES = [2**power for power in range(11)]
COLOURS: dict[Algorithm, str] = {"ring": "#2f6fb7", "rabenseifner": "#1a7f37"}
TITLES: dict[Algorithm, str] = {"ring": "ring", "rabenseifner": "Rabenseifner"}


def main() -> None:
    """Reads the simulation and writes the figure."""
    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "summit", "font.size": 8})
    from matplotlib import pyplot  # noqa: PLC0415 - the backend is set before

    simulation = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    link = Link(simulation["runs"][0]["latency"], 1 / simulation["link"]["bytes_per_second"])
    figure, axes = pyplot.subplots(figsize=(6.4, 3.4), layout="constrained")
    for algorithm, colour in COLOURS.items():
        title = TITLES[algorithm]
        sums = {nodes: all_reduce(nodes, 4 * PARAMETERS, link, algorithm) for nodes in NODES}
        told = [STEP / (STEP + sums[nodes]) for nodes in NODES]
        axes.plot(NODES, told, "-", color=colour, label=f"{title}, after the backward pass (law)")
        runs = [run for run in simulation["runs"] if run["algorithm"] == algorithm and run["ranks_divide_it"]]
        points = [(run["ranks"], STEP / (STEP + run["seconds"])) for run in runs]
        axes.plot(*zip(*points), "o", color=colour, markersize=4, label=f"{title} (SimGrid)")
    layers = even_layers(PARAMETERS, LAYERS)
    for jitter, style in ((0.0, "--"), (JITTER, ":")):
        told = []
        for nodes in NODES:
            slowest = STEP * straggler(nodes, jitter)
            told.append(STEP / (slowest + exposed(nodes, slowest, layers, link)))
        words = f", steps that spread by {jitter:.0%}" if jitter else ""
        axes.plot(NODES, told, style, color="#c2570c", label=f"ring behind the backward pass (law){words}")
    axes.plot(*PAPER, "x", color="#24292f", markersize=7, label="as told: 0.87, assumptions unknown")
    axes.set(xscale="log", xlabel="nodes", ylabel="efficiency", ylim=(0.7, 1.01))
    axes.set_xticks(NODES[::2], labels=[f"{nodes:,}" for nodes in NODES[::2]])
    axes.minorticks_off()
    axes.grid(color="#d8dee4", linewidth=0.6)
    axes.legend(frameon=False, loc="lower left")
    figure.savefig(sys.argv[2], metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))


if __name__ == "__main__":
    main()
