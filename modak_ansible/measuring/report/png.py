"""The charts as PNG files, for papers and slides."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from modak_ansible.measuring.report.charts import Chart, Roofline, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BAR, _BASELINE, _PAPER, _SOFT = "#2f6fb7", "#8793a0", "#c2570c", "#57606a"
_WIDTH, _DPI = 8.0, 150  # inches, dots an inch
_LABEL = 40  # letters in a line


def write_figures(charts: Iterable[Chart], roofs: Iterable[Roofline], folder: Path) -> list[Path]:
    """Draws every chart and roofline into a file of its name; gives the files. Names that occur twice are numbered."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = [(each.name, _drawn_chart(each)) for each in charts] + [(each.name, _drawn_roof(each)) for each in roofs]
    taken: dict[str, int] = {}
    written = []
    for name, figure in drawn:
        taken[name] = taken.get(name, 0) + 1
        path = folder / (f"{name}.png" if taken[name] == 1 else f"{name}-{taken[name]}.png")
        figure.savefig(path, dpi=_DPI)
        written.append(path)
    return written


def _drawn_chart(chart: Chart) -> Figure:
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
    for name, value in chart.lines:
        axes.axvline(value, color=_PAPER, linestyle="--", linewidth=1)
        axes.annotate(name, (value, -0.6), xytext=(3, 0), textcoords="offset points", fontsize=7, color=_PAPER)
    axes.set_yticks(list(places), [_text(fill(bar.label, _LABEL)) for bar in chart.bars], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(0, chart.end)
    better = "more" if chart.more_is_better else "less"
    told = f"{_text(chart.unit)}, {better} is better. Whiskers: {chart.interval}"
    if any(bar.paper is not None for bar in chart.bars):
        told += "\ndiamond: where the paper's ratio would put the bar; hollow: of newer software"
    figure.supxlabel(told, fontsize=8, x=0.01, ha="left")
    return figure


def _drawn_roof(roof: Roofline) -> Figure:
    figure, axes = _plane(roof.title, 4.5 + 0.2 * len(roof.points))
    rightmost = max(x for _, x, _ in roof.points)
    xs = [roof.ridge / 30, roof.ridge, max([roof.ridge * 30, *(3 * x for _, x, _ in roof.points)])]
    axes.loglog(xs, [x * roof.bandwidth if x < roof.ridge else roof.peak for x in xs], color="black")
    for index, (label, x, y) in enumerate(roof.points, 1):
        axes.plot([x], [y], "o", color=_BAR, label=f"{index}. {_text(label)}")
        place, align = ((6, -3), "left") if x == rightmost else ((-6, -3), "right")
        axes.annotate(str(index), (x, y), xytext=place, ha=align, textcoords="offset points", fontsize=8)
    figure.legend(fontsize=8, loc="outside lower left", handlelength=0)
    axes.set_ylabel("GFLOP/s")
    axes.set_xlabel(f"FLOP/byte, computed layer by layer. Limits: {roof.peak_name} and triad, measured", fontsize=8)
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
