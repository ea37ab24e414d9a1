"""The curves of compared trainings in one picture."""

from __future__ import annotations

import errno
import math
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modak_ansible.deployment.comparison import Comparison
from modak_ansible.errors import ModakError, UsageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from PIL.Image import Image

_SIZE, _DPI = (9.0, 5.0), 150  # inches, dots an inch
_ENDINGS = (".svg", ".png", ".pdf")
_NAMED = 12  # lines that the key has room for; the others are grey


def draw(comparison: Comparison, file: Path) -> None:
    """Draws the number that is compared by, a line a training, the best one boldest.

    Raises:
        UsageError: the file's name does not end as a picture's.
        ModakError: it cannot be written.
    """
    import matplotlib

    figure = _figure(comparison, _DPI)
    with matplotlib.rc_context({"svg.hashsalt": "modak"}):
        save(figure, file, metadata={"Date": None} if file.suffix.lower() == ".svg" else None)


def check_name(file: Path) -> None:
    """
    Raises:
        UsageError: the file's name does not end as a picture's.
    """
    if file.suffix.lower() not in _ENDINGS:
        raise UsageError(
            f"{file} is not a picture format that can be drawn", hint=f"the name must end in {', '.join(_ENDINGS)}"
        )


def save(figure: Figure, file: Path, **options: Any) -> None:
    """Writes a picture whole or not at all, in the format that the file's name ends with.

    Raises:
        UsageError: the file's name does not end as a picture's.
        ModakError: it cannot be written.
    """
    check_name(file)
    part = file.parent / f".{file.stem}.part{file.suffix}"
    try:
        figure.savefig(part, **options)
        part.replace(file)
    except OSError as error:
        hint = "give an existing folder" if error.errno == errno.ENOENT else ""
        raise ModakError(f"{file} cannot be written: {error.strerror}", hint=hint) from error
    finally:
        with suppress(OSError):
            part.unlink()


def picture_of(comparison: Comparison, width: int) -> Image:
    """The same picture, so many pixels wide."""
    import numpy as np
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL.Image import fromarray

    canvas = FigureCanvasAgg(_figure(comparison, width / _SIZE[0]))
    canvas.draw()  # type: ignore[no-untyped-call]
    return fromarray(np.asarray(canvas.buffer_rgba()))  # type: ignore[no-untyped-call]


def _figure(comparison: Comparison, dpi: float) -> Figure:
    import matplotlib
    from matplotlib.figure import Figure

    figure = Figure(figsize=_SIZE, dpi=dpi, layout="constrained")
    axes = figure.add_subplot()
    drawn = comparison.drawn()
    colours = matplotlib.colormaps["tab10"]
    for place, run, curve in reversed(drawn):
        is_named = place < _NAMED
        axes.plot(
            [*map(_drawable, curve.points)], [*map(_drawable, curve.points.values())],
            color=colours(place % 10) if is_named else "0.8", linestyle="-" if place < 10 else "--",
            linewidth=2.4 if place == 0 else 1.2, marker="o" if len(curve.points) < 20 else None, markersize=3,
            label=comparison.label(run) + (" (best)" if place == 0 else "") if is_named else None,
            zorder=3 if place == 0 else 2,
        )  # fmt: skip
    axes.set_xlabel(comparison.axis)
    axes.set_ylabel(comparison.by, parse_math=False)
    axes.grid(alpha=0.3)
    if drawn:
        handles, labels = axes.get_legend_handles_labels()
        key = axes.legend(handles[::-1], labels[::-1], fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))
        for text in key.get_texts():
            text.set_parse_math(False)
    return figure


def _drawable(number: float) -> float:
    """A gap for what matplotlib finds no ticks for."""
    return number if abs(number) < 1e307 else math.nan
