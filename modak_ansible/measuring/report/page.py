"""The page: one HTML file that needs nothing else, for screens, phones and paper, in light and dark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from modak_ansible.measuring.report.drawing import inline
from modak_ansible.measuring.report.headline import counts, facts, judged, sentences
from modak_ansible.measuring.report.paper import paper
from modak_ansible.measuring.report.runs import Run, comparisons
from modak_ansible.measuring.report.sections import Section
from modak_ansible.measuring.report.trainings import ratio_text

_MARKS = {"holds": "✓", "does not hold": "✗", "cannot be said": "?", "": "•"}


def render(
    runs: Sequence[Run], parts: Sequence[Section], drawn: Mapping[str, str], made: datetime | None = None
) -> str:
    """The page of some records and the parts that were made of them.

    Everything that comes from records is escaped.

    Args:
        parts: as ``sections`` gives them.
        drawn: the SVG of each of their figures, by its name.
    """
    found = comparisons(runs)
    every = judged(found)
    template = _environment().get_template("page.html.j2")
    return template.render(
        command=paper().command,
        counts=counts(runs),
        facts=facts(runs),
        sentences=sentences(found, every),
        judged=every,
        sections=parts,
        drawn={name: Markup(inline(svg)) for name, svg in drawn.items()},  # noqa: S704 - matplotlib has escaped it
        made=(made or datetime.now(UTC)).strftime("%Y-%m-%d %H:%M UTC"),
    )


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("modak_ansible.measuring.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["ratio"] = ratio_text
    environment.globals["mark"] = _MARKS
    return environment
