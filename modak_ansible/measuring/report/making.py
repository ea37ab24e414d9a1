"""From files of records to the page and its figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from modak_ansible.catalogue.reader import from_yaml
from modak_ansible.errors import ModakError, UsageError
from modak_ansible.measuring.records import read_records
from modak_ansible.measuring.report.drawing import drawing, inline
from modak_ansible.measuring.report.headline import counts, facts, judged, sentences
from modak_ansible.measuring.report.paper import paper
from modak_ansible.measuring.report.runs import Run, comparisons
from modak_ansible.measuring.report.sections import Section, sections
from modak_ansible.measuring.report.trainings import ratio_text
from modak_ansible.measuring.suites.workloads import load_workloads
from modak_ansible.store.project import shipped
from modak_ansible.target.core.files import write_whole

_MARKS = {"holds": "✓", "does not hold": "✗", "cannot be said": "?", "": "•"}


@dataclass(frozen=True)
class Report:
    records: int
    page: Path
    figures: tuple[Path, ...]


def make_report(files: Sequence[Path], page: Path, figures: Path | None = None) -> Report:
    """Writes the page and, where a folder for them is given, the figures; each is written whole or not at all.

    Raises:
        ModakError: a file of records is damaged, with its line, or a file cannot be written.
    """
    runs = read_runs(files)
    parts = sections(runs, comparisons(runs), work_of_workloads(), titles_of_groups())
    drawn = {figure.name: drawing(figure) for part in parts for figure in part.figures}
    text = render(runs, parts, drawn)
    pictures = {figures / f"{name}.svg": svg for name, svg in drawn.items()} if figures else {}
    try:
        for path, content in {page: text, **pictures}.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, content)
            path.chmod(0o644)  # a page is for others
    except OSError as error:
        raise ModakError(f"{error.filename or page} cannot be written: {error.strerror}") from error
    return Report(len(runs), page, tuple(pictures))


def render(runs: Sequence[Run], parts: Sequence[Section], drawn: Mapping[str, str]) -> str:
    """The page of some records and the parts that were made of them: one HTML file that needs nothing else.

    It is for screens, phones and paper, in light and dark; everything that comes from records is escaped.

    Args:
        parts: as ``sections`` gives them.
        drawn: the SVG of each of their figures, by its name.
    """
    all_comparisons = comparisons(runs)
    judgements = judged(all_comparisons)
    template = _environment().get_template("page.html.j2")
    return template.render(
        command=paper().command,
        counts=counts(runs),
        facts=facts(runs),
        sentences=sentences(all_comparisons, judgements),
        judged=judgements,
        sections=parts,
        drawn={name: Markup(inline(svg)) for name, svg in drawn.items()},  # noqa: S704 - matplotlib has escaped it
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )


@cache
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


def read_runs(files: Sequence[Path]) -> list[Run]:
    """The records of some files; a file that is named twice is read once.

    Raises:
        UsageError: a file is not there.
        ModakError: a line of a file is no record; with the line.
    """
    runs = []
    for path in {file.resolve(): file for file in files}.values():
        if not path.is_file():
            raise UsageError(f"there is no file of records {path}", hint="modak bench run writes them")
        runs += [Run(record, str(path)) for record in read_records(path)]
    return runs


def work_of_workloads() -> dict[str, float]:
    """GFLOP of one training step for each image, by workload, of those that say it."""
    workloads = load_workloads()
    return {name: workload.gflop_per_image for name, workload in workloads.items() if workload.gflop_per_image}


def titles_of_groups() -> dict[tuple[str, str], str]:
    """Titles of the groups of the suites that ship, by the names of suite and group."""
    titles: dict[tuple[str, str], str] = {}
    for path in sorted((shipped("benchmarks") / "suites").glob("*.yaml")):
        suite = from_yaml(path.read_text(encoding="utf-8"))
        titles |= {(suite["name"], group["name"]): group["title"] for group in suite["groups"]}
    return titles
