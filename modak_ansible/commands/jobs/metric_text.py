"""The lines of modak logs DEPLOYMENT metrics: a line for each moment of a training that it has written numbers of."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import typer

from modak_ansible.commands.jobs.log_start import LogStart
from modak_ansible.deployment.comparison import curves_of
from modak_ansible.store.deployment import DeploymentStore
from modak_ansible.target.metrics.curves import Curves

Show = Callable[[str], None]


def of_metrics(store: DeploymentStore, since: LogStart, *, follow: bool, show: Show) -> list[str]:
    """The numbers of a training so far; none are left where it was followed, and shown as they came.

    While it runs each look shows the newest; at its end what came between two looks is shown, too.

    Raises:
        ModakError: the target cannot be asked.
    """
    from modak_ansible.commands.jobs.log_text import bring

    bring(store)
    curves = curves_of(store)
    lines = dict(_lines(curves, since))
    for remark in [*curves.remarks, *curves.lost]:
        typer.echo(f"note: {remark}", err=True)
    last_lines = since.last(list(lines.values()))
    if not follow:
        return last_lines
    for line in last_lines:
        show(line)
    if not store.has_ended:
        _follow(store, show)
        bring(store)
        for place, line in _lines(curves_of(store), LogStart(moment=since.moment)):
            if place not in lines:
                show(line)
    return []


def _follow(store: DeploymentStore, show: Show) -> None:
    from modak_ansible.deployment.status import StatusEntry
    from modak_ansible.deployment.status_query import ask_targets
    from modak_ansible.target.jobs.situation import Progress

    entry, last_line = StatusEntry(store), [""]

    def heard() -> None:
        progress = entry.answer["progress"] if entry.answer else Progress()
        line = "  ".join(
            [f"{name} {progress[name]:g}" for name in ("step", "epoch") if progress.get(name) is not None]
            + [_shown(name, value) for name, value in (progress.get("numbers") or {}).items()]
        )
        if line and line != last_line[0]:
            last_line[0] = line
            show(f"now: {line}")

    ask_targets([entry], 2.0, heard)


def _lines(curves: Curves, since: LogStart) -> Iterator[tuple[tuple[str, float], str]]:
    """Places and lines, in order, each number below its like; those without a time are after any moment."""
    rows: dict[tuple[str, float], dict[str, str]] = {}
    for name, curve in curves.by_name.items():
        for place, value in curve.points.items():
            if since.moment is None or curve.times.get(place, since.moment) >= since.moment:
                rows.setdefault((curve.by, place), {})[name] = _shown(name, value)
    widths = {name: max(len(row.get(name, "")) for row in rows.values()) for name in curves.by_name} if rows else {}
    label = max((len(f"{by} {place:g}") for by, place in rows), default=0)
    for (by, place), numbers in sorted(rows.items()):
        cells = [f"{numbers.get(name, ''):<{width}}" for name, width in widths.items() if width]
        yield (by, place), "  ".join([f"{f'{by} {place:g}':<{label}}", *cells]).rstrip()


def _shown(name: str, value: float) -> str:
    return f"{name} {value:.6g}"
