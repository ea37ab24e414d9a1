"""The report's figures, each drawn once as SVG: for the page, and as files for papers and slides."""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

from modak_ansible.measuring.report.charts import Chart, Roofline, number, spread
from modak_ansible.measuring.report.seeds import Seeds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Places = Sequence[tuple[float, float]]
Drawable = Chart | Roofline | Seeds
_BAR, _BASELINE, _PAPER, _SOFT, _GRID = "#2f6fb7", "#8793a0", "#c2570c", "#57606a", "#d8dee4"
# What the page calls a colour, which is another one in the dark.
_ON_THE_PAGE = {
    _BAR: "bar", _BASELINE: "baseline", _PAPER: "paper", _SOFT: "soft", _GRID: "line", "#000000": "text",
    "#ffffff": "page",
}  # fmt: skip
_WIDTH, _LINE, _ROW = 8.0, 0.15, 0.42  # inches: of a figure, a line of text, a bar with its label
_LETTERS, _LABEL = 128, 76  # in a line of the width, and beside a bar's value
# How bars and marks look, which the key explains.
_BARS: dict[bool, dict[str, Any]] = {
    False: {"color": _BAR},
    True: {"color": _BASELINE, "label": "what others are held against"},
}
_MARKS: dict[bool, dict[str, Any]] = {
    False: {"color": _PAPER, "label": "where the paper's ratio would put the bar"},
    True: {"color": "white", "label": "where it would put this newer software"},
}
_WITHOUT = dict.fromkeys(("Date", "Creator", "Format", "Type"))


def drawing(figure: Drawable) -> str:
    """The SVG of a figure, which depends on nothing else."""
    from matplotlib import rc_context  # noqa: PLC0415 - half a second, and only the report draws

    file = io.StringIO()
    with rc_context({
        "svg.fonttype": "none", "svg.hashsalt": figure.name, "font.size": 8, "font.sans-serif": ["DejaVu Sans"],
        "axes.spines.top": False, "axes.spines.right": False,
    }):  # fmt: skip
        drawn(figure).savefig(file, format="svg", metadata=_WITHOUT)
    return file.getvalue()


def inline(svg: str) -> str:
    """An SVG as a part of the page: in its colours, and without what several would bring twice."""
    svg = re.sub(r'<style.*?</style>|(?<=<g) id="[^"]*"', "", svg[svg.index("<svg") :], flags=re.DOTALL)
    return re.sub("|".join(_ON_THE_PAGE), lambda match: f"var(--{_ON_THE_PAGE[match[0]]})", svg)


def drawn(figure: Drawable) -> Figure:
    if isinstance(figure, Chart):
        return _chart(figure)
    return _roof(figure) if isinstance(figure, Roofline) else _seeds(figure)


def _chart(chart: Chart) -> Figure:
    """Bars from 0, each under its label and its value; upwards, the axes count inches."""
    better = "more" if chart.more_is_better else "less"
    below = fill(f"{chart.unit}, {better} is better. Bar: median; whisker: {chart.interval}.", _LETTERS)
    labels = [fill(bar.label, _LABEL, break_on_hyphens=False) for bar in chart.bars]
    ends = list(itertools.accumulate(_ROW + _LINE * label.count("\n") for label in labels))
    figure, axes = _subplots(1)
    strip: dict[str, Any] = {"ymin": [end - 0.2 for end in ends], "ymax": [end - 0.01 for end in ends]}
    for (name, value), style in zip(chart.lines, itertools.cycle(("--", ":", "-."))):
        text = f"measured peak, {_text(name)}: {number(value)} {chart.unit}"
        axes.vlines([value] * len(ends), **strip, color=_PAPER, linestyle=style, linewidth=1.5, label=text, zorder=3)
    for bar, label, end in zip(chart.bars, labels, ends, strict=True):
        place, above = end - 0.105, {"y": end - 0.215, "va": "bottom", "transform": axes.get_yaxis_transform()}
        axes.barh(place, bar.value, height=0.17, **_BARS[bar.is_baseline])
        if bar.low is not None and bar.high is not None:
            reach = [[bar.value - bar.low], [bar.high - bar.value]]
            axes.errorbar([bar.value], [place], xerr=reach, color="black", capsize=3, linewidth=1.2)
        if bar.paper is not None:
            axes.plot([bar.paper], [place], "D", markeredgecolor=_PAPER, **_MARKS[bar.newer])
        axes.text(x=0, s=_text(label), **above)
        text = _text(f"{number(bar.value)} {chart.unit} ({spread(bar)})")
        axes.text(x=1, s=text, ha="right", color=_SOFT, **above)
    axes.set(xlim=(0, axes.get_xlim()[1]), ylim=(ends[-1], 0), yticks=[])
    for tick in axes.get_xticks():
        axes.vlines([tick] * len(ends), **strip, color=_GRID, linewidth=0.8, zorder=0)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.9f}".rstrip("0").rstrip("."))
    return _framed(
        figure, chart.title, f"{below}\n{fill(chart.caption, _LETTERS)}".strip(), ends[-1], [(0.15, 7.65)], columns=2
    )


def _roof(roof: Roofline) -> Figure:
    figure, axes = _subplots(1)
    rightmost = max(x for _, x, _ in roof.points)
    xs = [roof.ridge / 30, roof.ridge, max([roof.ridge * 30, *(3 * x for _, x, _ in roof.points)])]
    axes.loglog(xs, [x * roof.bandwidth if x < roof.ridge else roof.peak for x in xs], color="black")
    for index, (label, x, y) in enumerate(roof.points, 1):
        axes.plot([x], [y], "o", color=_BAR, label=f"{index}. {_text(label)}")
        place, align = ((6, -3), "left") if x == rightmost else ((-6, -3), "right")
        axes.annotate(str(index), (x, y), xytext=place, ha=align, textcoords="offset points")
    if roof.above:
        axes.annotate(
            f"Above the roof: {', '.join(map(str, roof.above))}.\nWork is counted as of direct convolutions;\n"
            "Winograd's way takes fewer products.",
            (0.02, 0.98), xycoords="axes fraction", va="top", color=_PAPER,
        )  # fmt: skip
    axes.set_ylabel("GFLOP/s")
    axes.set_xlabel(
        f"FLOP/byte, computed layer by layer. Limits, measured: {roof.peak_name} ({number(roof.peak)} GFLOP/s) and "
        f"triad ({number(roof.bandwidth)} GB/s); they meet at {number(roof.ridge)} FLOP/byte"
    )
    axes.grid(color=_GRID)
    return _framed(figure, roof.title, fill(roof.caption, _LETTERS), 3.8, [(0.6, 7.2)])


def _seeds(seeds: Seeds) -> Figure:
    """Losses by epoch on the left, each seed's last accuracy on the right."""
    figure, losses, accuracies = _subplots(2)
    for index, curve in enumerate(seeds.curves):
        colour, mark = f"C{index}", "os^Dv"[index % 5]
        for means, style, what in ((curve.training_loss, "--", "training"), (curve.test_loss, "-", "test")):
            epochs = range(1, len(means) + 1)
            losses.plot(
                epochs, [mean.value for mean in means], style, color=colour, marker=mark, markersize=4,
                label=f"{_text(curve.label)}, {what}",
            )  # fmt: skip
            low, high = [mean.low for mean in means], [mean.high for mean in means]
            losses.fill_between(epochs, low, high, color=colour, alpha=0.2, linewidth=0)
        numbers = [place + 0.12 * index for place in range(len(curve.accuracies))]
        accuracies.plot(numbers, [100 * accuracy for accuracy in curve.accuracies.values()], mark, color=colour)
    losses.set(xlabel="epoch", ylabel="loss, mean over seeds; bands: 95 %", yscale="log")
    first = seeds.curves[0].accuracies
    accuracies.set_xticks(range(len(first)), [str(seed) for seed in first])
    accuracies.set(xlabel="seed", ylabel="accuracy after the last epoch, %")
    return _framed(figure, seeds.title, fill(seeds.caption, _LETTERS), 3.5, [(0.85, 3.85), (5.4, 2.4)], columns=2)


def _subplots(count: int) -> Any:
    """A figure, and so many axes in it."""
    from matplotlib.figure import Figure as NewFigure  # noqa: PLC0415

    figure = NewFigure()
    return figure, *(figure.add_subplot(1, count, number) for number in range(1, count + 1))


def _framed(figure: Figure, title: str, below: str, plane: float, places: Places, columns: int = 1) -> Figure:
    """The figure with its title above its axes, and a key and a text below them.

    Args:
        below: lines.
        plane: the height of the axes in inches.
        places: where each of the axes begins from the left, and how wide it is; in inches.
        columns: of the key.
    """
    entries: dict[str, Any] = {}
    for axes in figure.axes:
        entries |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
        axes.tick_params(which="both", colors=_SOFT)
    key = 0.1 + _LINE * (below.count("\n") + 1)
    foot = key + 0.2 * -(-len(entries) // columns) + (0.5 if figure.axes[0].get_xlabel() else 0.3)
    height = foot + plane + 0.35
    figure.set_size_inches(_WIDTH, height)
    for axes, (left, width) in zip(figure.axes, places, strict=True):
        axes.set_position((left / _WIDTH, foot / height, width / _WIDTH, plane / height))
    figure.text(0.15 / _WIDTH, 1 - 0.1 / height, _text(title), fontsize=10, va="top")
    figure.text(0.15 / _WIDTH, 0.05 / height, _text(below), va="bottom", color=_SOFT)
    if entries:
        corner = (0, (key - 0.05) / height)
        figure.legend(
            entries.values(), entries.keys(), loc="lower left", bbox_to_anchor=corner, ncols=columns, frameon=False
        )
    return figure


def _text(text: str) -> str:
    """As it stands: a dollar sign would begin a formula, and what moves a cursor is no part of an SVG."""
    return "".join(letter if letter.isprintable() or letter == "\n" else " " for letter in text).replace("$", r"\$")
