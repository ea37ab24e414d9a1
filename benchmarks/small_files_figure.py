"""Draws what the records of the suite small-files say: an epoch of many small files, as they lie and packed.

python benchmarks/small_files_figure.py RECORDS.jsonl benchmarks/figures/small-files.svg
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import median

import matplotlib

SHOWN = {
    "folder": ("as they lie", "#8793a0"),
    "squashfs-none": ("one image, mounted", "#2f6fb7"),
    "shards": ("tar files, read through", "#c2570c"),
}
COPIED = ("the image copied to the node first, copy included", "#1a7f37")


def epochs(records: list[dict], emulated: bool) -> dict[str, dict[int, float]]:
    """Returns the seconds of a first epoch by one process, by layout and number of files; the newest record counts."""
    found: dict[str, dict[int, float]] = {}
    copies: dict[int, float] = {}
    for record in records:
        for measure in record["measures"]:
            about = measure["about"]
            if bool(about.get("emulated")) != emulated or about.get("kilobytes") != "8 to 30":
                continue
            files, layout = about["files"], about["layout"]
            if measure["name"] == "dataset_copy" and layout == "squashfs-none":
                copies[files] = median(measure["samples"])
            if measure["name"] != "dataset_read" or about["processes"] != 1 or about["cache"] == "warm":
                continue
            name = "copied" if about["cache"] == "as copied" else layout
            if name == "copied" and layout != "squashfs-none":
                continue
            found.setdefault(name, {})[files] = files / median(measure["samples"])
    if "copied" in found:
        found["copied"] = {files: seconds + copies[files] for files, seconds in found["copied"].items()}
    return found


def main() -> None:
    """Reads the records and writes the figure."""
    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "small-files", "font.size": 8})
    from matplotlib import pyplot  # noqa: PLC0415 - the backend is set before

    records = [json.loads(line) for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()]
    figure, planes = pyplot.subplots(1, 2, figsize=(8, 3.2), sharey=True, layout="constrained")
    titles = ("this machine's own disk", "each answer 1 ms late (emulated)")
    for axes, title, emulated in zip(planes, titles, (False, True)):
        seconds = epochs(records, emulated)
        for name, (label, colour) in {**SHOWN, "copied": COPIED}.items():
            points = sorted(seconds.get(name, {}).items())
            if points:
                axes.plot(*zip(*points), "o-", color=colour, label=label, markersize=4)
        axes.set(title=title, xscale="log", yscale="log", xlabel="files of 8 to 30 KB")
        axes.grid(color="#d8dee4", linewidth=0.6)
    planes[0].set_ylabel("seconds of the first epoch, one process")
    planes[1].legend(frameon=False)
    figure.savefig(sys.argv[2], metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))


if __name__ == "__main__":
    main()
