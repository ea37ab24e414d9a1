"""The page: one HTML file that needs nothing else, for screens, phones and paper, in light and dark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from modak_ansible.measuring.report.charts import Roofline, Section, number, spread, tick_text
from modak_ansible.measuring.report.headline import counts, facts, judged, sentences
from modak_ansible.measuring.report.runs import Run, comparisons
from modak_ansible.measuring.report.trainings import ratio_text

_MARKS = {"holds": "✓", "does not hold": "✗", "cannot be said": "?", "": "•"}


def render(runs: Sequence[Run], parts: Sequence[Section], made: datetime | None = None) -> str:
    """The page of some records and the parts that were made of them.

    Everything that comes from records is escaped.

    Args:
        runs: all records.
        parts: as ``sections`` gives them.
        made: when; now, where it is left out.
    """
    found = comparisons(runs)
    every = judged(found)
    template = _environment().get_template("page.html.j2")
    return template.render(
        counts=counts(runs),
        facts=facts(runs),
        sentences=sentences(found, every),
        judged=every,
        sections=parts,
        made=(made or datetime.now(UTC)).strftime("%Y-%m-%d %H:%M UTC"),
    )


def percent(value: float, end: float) -> str:
    """A place on an axis from 0 to ``end``, as SVG takes it."""
    return f"{100 * value / end:.2f}%"


def roof_geometry(roof: Roofline) -> dict[str, Any]:
    """Places of a roofline's lines and points in per cent of a plane whose axes are logarithmic."""
    tops = [roof.peak, *(rate for _, _, rate in roof.points)]
    intensities = [roof.ridge, *(each for _, each, _ in roof.points)]
    left, right = _decade(min(intensities) / 8, math.floor), _decade(max(intensities) * 3, math.ceil)
    lowest = min([roof.bandwidth * 10**left, *(rate for _, _, rate in roof.points)])
    bottom, top = _decade(lowest, math.floor), _decade(max(tops) * 1.3, math.ceil)

    def across(value: float) -> str:
        return f"{100 * (math.log10(value) - left) / (right - left):.2f}%"

    def up(value: float) -> str:
        return f"{100 - 100 * (math.log10(value) - bottom) / (top - bottom):.2f}%"

    start = 10.0**left
    rightmost = max(each for _, each, _ in roof.points)  # numbers stand outside, where points stand close together
    return {
        "slope": (across(start), up(start * roof.bandwidth), across(roof.ridge), up(roof.peak)),
        "flat": (across(roof.ridge), up(roof.peak), "100%", up(roof.peak)),
        "points": [(index, across(x), up(y), x < rightmost) for index, (_, x, y) in enumerate(roof.points, 1)],
        "across": [(across(10.0**power), tick_text(10.0**power)) for power in range(left + 1, right)],
        "up": [(up(10.0**power), tick_text(10.0**power)) for power in range(bottom + 1, top)],
    }


def _decade(value: float, towards: Any) -> int:
    return int(towards(math.log10(value)))


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("modak_ansible.measuring.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(number=number, tick=tick_text, percent=percent, spread=spread, ratio=ratio_text)
    environment.globals.update(mark=_MARKS, geometry=roof_geometry)
    return environment
