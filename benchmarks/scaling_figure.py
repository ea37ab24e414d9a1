"""Draws what the records of the suite scaling say of a step of 1 to 8 ranks, beside what the law of two ranks predicts.

python benchmarks/scaling_figure.py RECORDS.jsonl benchmarks/figures/scaling.svg

Without a second argument it prints the table of docs/many-nodes.md.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import median

from modak_ansible.performance.between import buckets_of
from modak_ansible.performance.data_parallel import MIB, STOCK, Buckets, Layer, Link, exposed

# The MNIST-CNN: bytes of weights and biases, and each layer's share of the compute, a third of it forward.
LAYERS = tuple(
    Layer(gradients, share / 3, 2 * share / 3)
    for gradients, share in (((1152, 128), 0.03), ((73728, 256), 0.9), ((4718592, 512), 0.065), ((5120, 40), 0.005))
)
BUCKETS = {
    "default": STOCK,
    "bucket_100": Buckets(100 * MIB, 100 * MIB),
    "fp16": Buckets(kept=0.5),
    "accumulate_4": Buckets(passes=4),
    "powersgd_1": None,  # of PyTorch's own, which computes more than modak's
}
TITLES = {
    "default": ("DDP's defaults", "#2f6fb7"),
    "bucket_100": ("one bucket", "#8793a0"),
    "fp16": ("fp16 hook", "#c2570c"),
    "accumulate_4": ("4 passes, no_sync", "#1a7f37"),
    "powersgd_1": ("PowerSGD, rank 1", "#8250df"),
}
LINKS = {"1gbit": "1 Gbit/s", "100mbit": "100 Mbit/s"}
RANKS = (2, 4, 8)
PLANNED = "prepare"  # how settings begin that are choices of a plan, which modak's own runtime carries out
Key = tuple[int, str, str, str]  # ranks, link, weak or strong, setting


def measured(records: list[dict]) -> tuple[dict[Key, list[float]], dict[str, Link]]:
    """Returns the seconds of each slept step over a link of LINKS, and what was probed there between two ranks."""
    steps: dict[Key, list[float]] = {}
    probed: dict[tuple[str, str], float] = {}
    for record in records:
        if record["group"] == "real":
            continue
        for measure in record["measures"]:
            about = measure["about"]
            if measure["name"] == "step":
                steps[about["ranks"], about["link"], about["scaling"], about["setting"]] = measure["samples"]
            elif measure["name"] in ("latency", "bandwidth"):
                probed[measure["name"], about["link"]] = median(measure["samples"])
    links = {
        link: Link(probed["latency", link], 1e-9 / probed["bandwidth", link])
        for name, link in probed
        if name == "latency"
    }
    return steps, {link: links[link] for link in LINKS if link in links}


def predicted(steps: dict[Key, list[float]], links: dict[str, Link], key: Key) -> float | None:
    """Returns the seconds of a pass by the law: the link and the compute of two ranks are all that it is told."""
    ranks, link, scaling, setting = key
    buckets = buckets_of(choices_of(setting)) if setting.startswith(PLANNED) else BUCKETS.get(setting)
    if buckets is None:
        return None
    weak = median(steps[2, link, "weak", "none"])
    if scaling == "weak":
        return weak + exposed(ranks, weak, LAYERS, links[link], buckets)
    strong = median(steps[2, link, "strong", "none"])
    # a step of two ranks is a part that stays and a part that is shared: weak = stays + whole, strong = stays + whole/2
    whole = 2 * (weak - strong)
    compute = weak - whole + whole / ranks
    return compute + exposed(ranks, compute, LAYERS, links[link], buckets)


def choices_of(setting: str) -> dict[str, str]:
    """Returns the choices of a plan that a setting of modak's own runtime stands for."""
    return dict(choice.partition("=")[::2] for choice in setting.removeprefix(PLANNED).split())


def table(steps: dict[Key, list[float]], links: dict[str, Link]) -> str:
    """Returns the cells in Markdown: median, spread, prediction and its error."""
    lines = ["| link | scaling | setting | " + " | ".join(f"{ranks} ranks" for ranks in RANKS) + " |", "|---" * 6 + "|"]
    for link in links:
        for scaling in ("weak", "strong"):
            for setting in dict.fromkeys(key[3] for key in steps if key[3] != "none"):
                cells = [cell(steps, links, (ranks, link, scaling, setting)) for ranks in RANKS]
                if any(cells):
                    lines.append(
                        f"| {LINKS[link]} | {scaling} | {TITLES.get(setting, [setting])[0]} | {' | '.join(cells)} |"
                    )
    return "\n".join(lines)


def cell(steps: dict[Key, list[float]], links: dict[str, Link], key: Key) -> str:
    """Returns one cell; empty where it was not measured."""
    samples = steps.get(key)
    if not samples:
        return ""
    law, middle = predicted(steps, links, key), median(samples)
    spread = f"{1e3 * middle:.0f} ({1e3 * min(samples):.0f} to {1e3 * max(samples):.0f})"
    return spread if law is None else f"{spread}; {1e3 * law:.0f}, {law / middle - 1:+.0%}"


def draw(steps: dict[Key, list[float]], links: dict[str, Link], path: str) -> None:
    """Writes the figure: efficiency of weak scaling, measured as points and predicted as lines."""
    import matplotlib  # noqa: PLC0415 - the table needs it not

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "scaling", "font.size": 8})
    from matplotlib import pyplot  # noqa: PLC0415 - the backend is set before

    figure, planes = pyplot.subplots(1, len(links), figsize=(8, 3.2), sharey=True, layout="constrained", squeeze=False)
    for axes, link in zip(planes[0], links):
        for setting, (label, colour) in TITLES.items():
            points = [(ranks, steps[key]) for ranks in RANKS if (key := (ranks, link, "weak", setting)) in steps]
            alone = median(steps[2, link, "weak", "none"])
            axes.plot(
                [1, *(ranks for ranks, _ in points)],
                [1.0, *(alone / median(samples) for _, samples in points)],
                "o", color=colour, label=label, markersize=4,
            )  # fmt: skip
            laws = [(ranks, predicted(steps, links, (ranks, link, "weak", setting))) for ranks in RANKS]
            known = [(ranks, alone / seconds) for ranks, seconds in laws if seconds is not None]
            if known:
                axes.plot(*zip((1, 1.0), *known), "-", color=colour, linewidth=1)
        axes.set(title=LINKS[link], xscale="log", xticks=(1, *RANKS), xlabel="ranks", ylim=(0, 1.05))
        axes.set_xticks((1, *RANKS), labels=("1", *map(str, RANKS)))
        axes.minorticks_off()
        axes.grid(color="#d8dee4", linewidth=0.6)
    planes[0][0].set_ylabel("efficiency (points measured, lines predicted)")
    planes[0][0].legend(frameon=False, loc="lower left")
    figure.savefig(path, metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))


def main() -> None:
    """Reads the records, and writes the figure or prints the table."""
    records = [json.loads(line) for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()]
    steps, links = measured(records)
    if len(sys.argv) > 2:
        draw(steps, links, sys.argv[2])
    else:
        print(table(steps, links))


if __name__ == "__main__":
    main()
