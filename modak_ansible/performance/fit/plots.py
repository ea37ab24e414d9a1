"""Pictures of a validation: predicted against measured, and the regret of each table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modak_ansible.errors import ModakError
from modak_ansible.performance.fit.validation import TITLES, Learned, Predicted, Regret, Validation

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDTH, _DPI = 8.0, 150  # inches, dots an inch
_BAR, _WORSE, _SOFT = "#2f6fb7", "#c2570c", "#57606a"
MARKS = "osD^vP*X<>"
_COLOURS = 10  # of matplotlib's own cycle
_LINE = 0.15  # inches of a legend's line
_BESIDE: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}  # a legend, where it hides no point


def write_plots(found: Validation, folder: Path) -> list[Path]:
    """Draws all pictures as PNG and SVG; gives the files.

    Raises:
        ModakError: the folder cannot be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        written = []
        for kind in TITLES:
            rows = [each for each in found.predicted if each.left_out == kind]
            if rows:
                written += _predictions(rows, kind, folder)
        if found.learned:
            written += _learning(found.learned, folder)
        if found.regrets:
            written += _regrets(found.regrets, folder)
        return written
    except OSError as error:
        raise ModakError(f"{error.filename or folder} cannot be written: {error.strerror}") from error


def _predictions(rows: Sequence[Predicted], kind: str, folder: Path) -> list[Path]:
    named = len({(row.workload, row.known) for row in rows})
    axes = _plane(f"Predicted against measured, {TITLES[kind]}", max(6.0, 0.6 + _LINE * named))
    for number, workload in enumerate(dict.fromkeys(row.workload for row in rows)):
        members = [row for row in rows if row.workload == workload]
        for known in (True, False):
            some = [member for member in members if member.known == known]
            if not some:
                continue
            below = [each.predicted - each.low for each in some]
            above = [each.high - each.predicted for each in some]
            axes.errorbar(
                [each.measured for each in some],
                [each.predicted for each in some],
                yerr=[below, above],
                fmt=MARKS[(number + number // _COLOURS) % len(MARKS)],  # no two workloads share both
                color=f"C{number % _COLOURS}",
                markerfacecolor=None if known else "white",
                alpha=0.8,
                linewidth=0.8,
                label=workload + ("" if known else ", said to be unknown"),
            )
    values = [row.measured for row in rows]
    ends = [min(values) / 1.5, max(values) * 1.5]
    axes.plot(ends, ends, color=_SOFT, linewidth=1)
    axes.set(xscale="log", yscale="log", xlabel="measured seconds of a step", ylabel="predicted, with 90 % interval")
    axes.set_xlim(*ends)
    axes.set_ylim(ends[0] / 2, ends[1] * 2)
    axes.legend(fontsize=7, **_BESIDE)
    return _written(axes, folder, f"predicted-{kind}")


def _learning(rows: Sequence[Learned], folder: Path) -> list[Path]:
    axes = _plane("Error on a machine that was left out, with more and more of its runs given back", 4.0)
    for number, machine in enumerate(dict.fromkeys(row.machine for row in rows)):
        some = [row for row in rows if row.machine == machine]
        for what, style, values in (
            ("what did not run there", "o-", [row.others for row in some]),
            ("what ran three times", "s--", [row.own for row in some]),
            ("noise of a run", ":", [row.noise for row in some]),
        ):
            points = [(row.given, 100 * value) for row, value in zip(some, values, strict=True) if value is not None]
            if points:
                axes.plot(*zip(*points, strict=True), style, color=f"C{number}", label=f"{machine}: {what}")
    axes.set_xscale("symlog", linthresh=1)
    counts = sorted({row.given for row in rows})
    axes.set_xticks(counts, [str(count) for count in counts])
    axes.minorticks_off()
    axes.set(xlabel="runs given back", ylabel="median error, per cent", ylim=(0, None))
    axes.legend(fontsize=7, **_BESIDE)
    return _written(axes, folder, "machine-given-back")


def _regrets(rows: Sequence[Regret], folder: Path) -> list[Path]:
    """A line for each table: a bar for the choice without its workload, a dot for the one with all records."""
    tables = list(dict.fromkeys((row.table, row.numerics) for row in rows))
    axes = _plane("Regret: time of the model's choice over that of the best, less 1", 1.5 + 0.17 * len(tables))
    for left_out, label in ((True, "its workload left out of the fit"), (False, "in-sample, with all records")):
        some = [row for row in rows if bool(row.left_out) is left_out]
        places = [tables.index((each.table, each.numerics)) for each in some]
        values = [100 * each.regret for each in some]
        colours = [_WORSE if each.over_stock > (each.noise or 0.0) else _BAR for each in some]
        if left_out:
            axes.barh(places, values, color=colours, height=0.6, alpha=0.6, label=label)
        else:
            axes.scatter(values, places, c=colours, s=14, label=label, zorder=3, clip_on=False)
    axes.set_yticks(range(len(tables)), [f"{table}, {numerics}" for table, numerics in tables], fontsize=6)
    axes.axvline(3, color=_SOFT, linewidth=1, linestyle="--")
    axes.set_ylim(len(tables) - 0.5, -0.5)
    axes.set_xlim(left=0)
    axes.set_xlabel("per cent (dashed: 3); orange: slower than stock", fontsize=8)
    axes.legend(fontsize=7, loc="lower right")
    return _written(axes, folder, "regret")


def _plane(title: str, height: float) -> Axes:
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 - nothing else needs matplotlib
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(_WIDTH, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    figure.suptitle(title, fontsize=10, x=0.01, ha="left")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return axes


def _written(axes: Axes, folder: Path, name: str) -> list[Path]:
    figure = axes.get_figure(root=True)
    assert figure is not None  # noqa: S101 - _plane has made it
    paths = [folder / f"{name}.{ending}" for ending in ("png", "svg")]
    for path in paths:
        figure.savefig(path, dpi=_DPI)
        figure.set_layout_engine("none")  # all is where it is to be; to find that again takes half of the time
    return paths
