"""The charts as PNG files, for papers and slides."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from modak_ansible.measuring.report.charts import Chart, Roofline, number
from modak_ansible.measuring.report.seeds import Seeds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BAR, _BASELINE, _PAPER, _SOFT = "#2f6fb7", "#8793a0", "#c2570c", "#57606a"
_WIDTH, _DPI = 8.0, 150  # inches, dots an inch
_LABEL, _CAPTION = 40, 130  # letters in a line


def write_figures(
    charts: Iterable[Chart], roofs: Iterable[Roofline], seeds: Iterable[Seeds], folder: Path
) -> list[Path]:
    """Draws each into a file of its name; gives the files. Names that occur twice are numbered."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = [(each.name, drawn_chart(each)) for each in charts] + [(each.name, drawn_roof(each)) for each in roofs]
    drawn += [(each.name, drawn_seeds(each)) for each in seeds]
    taken: dict[str, int] = {}
    written = []
    for name, figure in drawn:
        taken[name] = taken.get(name, 0) + 1
        path = folder / (f"{name}.png" if taken[name] == 1 else f"{name}-{taken[name]}.png")
        figure.savefig(path, dpi=_DPI)
        written.append(path)
    return written


def drawn_chart(chart: Chart) -> Figure:
    figure, axes = _plane(chart.title, 1.7 + 0.5 * max(len(chart.bars), 1))
    places = range(len(chart.bars))
    axes.barh(
        places,
        [bar.value for bar in chart.bars],
        height=0.5,
        color=[_BASELINE if bar.is_baseline else _BAR for bar in chart.bars],
    )
    for place, bar in zip(places, chart.bars, strict=True):
        if bar.low is not None and bar.high is not None:
            reach = [[bar.value - bar.low], [bar.high - bar.value]]
            axes.errorbar([bar.value], [place], xerr=reach, color="black", capsize=3, linewidth=1.2)
        if bar.paper is not None:
            axes.plot([bar.paper], [place], "D", color="white" if bar.newer else _PAPER, markeredgecolor=_PAPER)
        axes.annotate(
            f"{number(bar.value)}, n = {bar.n}{'' if bar.low is not None else ', no interval'}",
            (1, place),
            xycoords=("axes fraction", "data"),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
        )
    for (name, value), style in zip(chart.lines, itertools.cycle(("--", ":", "-."))):
        axes.axvline(value, color=_PAPER, linestyle=style, linewidth=1.2, label=f"{_text(name)}: {number(value)}")
    if chart.lines:  # a name beside its line would be crossed by the next one
        figure.legend(fontsize=8, loc="outside upper right", ncols=len(chart.lines), frameon=False)
    axes.set_yticks(list(places), [_text(fill(bar.label, _LABEL)) for bar in chart.bars], fontsize=8)
    axes.set_ylim(max(len(chart.bars), 1) - 0.4, -0.6)
    axes.set_xlim(0, chart.end)
    better = "more" if chart.more_is_better else "less"
    told = f"{_text(chart.unit)}, {better} is better. Whiskers: {chart.interval}"
    if any(bar.paper is not None for bar in chart.bars):
        told += "\ndiamond: where the paper's ratio would put the bar; hollow: of newer software"
    told += (
        "\n" + _text(fill(chart.caption, _CAPTION)) if chart.caption else ""
    )  # which machine, and how much of a training
    figure.supxlabel(told, fontsize=8, x=0.01, ha="left")
    return figure


def drawn_roof(roof: Roofline) -> Figure:
    figure, axes = _plane(roof.title, 4.5 + 0.2 * len(roof.points))
    rightmost = max(x for _, x, _ in roof.points)
    xs = [roof.ridge / 30, roof.ridge, max([roof.ridge * 30, *(3 * x for _, x, _ in roof.points)])]
    axes.loglog(xs, [x * roof.bandwidth if x < roof.ridge else roof.peak for x in xs], color="black")
    for index, (label, x, y) in enumerate(roof.points, 1):
        axes.plot([x], [y], "o", color=_BAR, label=f"{index}. {_text(label)}")
        place, align = ((6, -3), "left") if x == rightmost else ((-6, -3), "right")
        axes.annotate(str(index), (x, y), xytext=place, ha=align, textcoords="offset points", fontsize=8)
    figure.legend(fontsize=8, loc="outside lower left", handlelength=0)
    if roof.above:
        axes.annotate(
            f"Above the roof: {', '.join(map(str, roof.above))}.\nWork is counted as of direct convolutions;\n"
            "Winograd's way takes fewer products.",
            (0.02, 0.98), xycoords="axes fraction", va="top", fontsize=8, color=_PAPER,
        )  # fmt: skip
    axes.set_ylabel("GFLOP/s")
    axes.set_xlabel(f"FLOP/byte, computed layer by layer. Limits: {roof.peak_name} and triad, measured", fontsize=8)
    return figure


def drawn_seeds(seeds: Seeds) -> Figure:
    """Losses by epoch on the left, each seed's last accuracy on the right."""
    figure, losses = _plane(f"{seeds.title}\n{seeds.caption}", 4.7)
    losses.remove()
    losses, accuracies = figure.subplots(1, 2, width_ratios=(3, 2))
    for index, curve in enumerate(seeds.curves):
        colour, mark = f"C{index}", "os^Dv"[index % 5]
        for means, style, what in ((curve.training_loss, "--", "training"), (curve.test_loss, "-", "test")):
            epochs = range(1, len(means) + 1)
            losses.plot(
                epochs, [each.value for each in means], style, color=colour, marker=mark, markersize=4,
                label=f"{_text(curve.label)}, {what}",
            )  # fmt: skip
            losses.fill_between(
                epochs,
                [each.low for each in means],
                [each.high for each in means],
                color=colour,
                alpha=0.2,
                linewidth=0,
            )
        numbers = [place + 0.12 * index for place in range(len(curve.accuracies))]
        accuracies.plot(numbers, [100 * each for each in curve.accuracies.values()], mark, color=colour)
    losses.set(xlabel="epoch", ylabel="loss, mean over seeds; bands: 95 %", yscale="log")
    first = seeds.curves[0].accuracies
    accuracies.set_xticks(range(len(first)), [str(each) for each in first])
    accuracies.set(xlabel="seed", ylabel="accuracy after the last epoch, %")
    for axes in (losses, accuracies):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(which="both", colors=_SOFT, labelsize=8)
    figure.legend(fontsize=8, loc="outside lower left", ncols=2, frameon=False, handlelength=4)
    return figure


def _plane(title: str, height: float) -> tuple[Figure, Axes]:
    # two thirds of a second to import, and only a command that draws needs it
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    from matplotlib.figure import Figure as NewFigure  # noqa: PLC0415

    figure = NewFigure(figsize=(_WIDTH, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes: Any = figure.add_subplot()
    figure.suptitle(_text(title), fontsize=10, x=0.01, ha="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(which="both", colors=_SOFT, labelsize=8)
    return figure, axes


def _text(text: str) -> str:
    """As it stands: a dollar sign would begin a formula."""
    return text.replace("$", r"\$")
