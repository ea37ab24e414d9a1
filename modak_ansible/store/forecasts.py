"""How right a target's forecasts are: when jobs were expected to begin, and when they did."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable
from typing import NamedTuple

from modak_ansible.model.quantities import format_seconds
from modak_ansible.store.record import ForecastNote, JobNote, RecordData, run_of
from modak_ansible.target.core.plan import Plan
from modak_ansible.target.jobs.situation import Forecast

BEFORE, WAITING = "before it was submitted", "while it waited"
# Of the forecasts of a target as many count as are told of; and of a deployment's as many runs are kept.
_LAST, _KEPT = 10, 8
_RIGHT = 60.0  # seconds: nobody's day is another for less
_DIRECTIVES = ("#SBATCH ", "#PBS ", "#BSUB ", "#KUBERNETES ")


class RunForecast(NamedTuple):
    """A forecast for a run of a job; in seconds since the epoch."""

    machine: str  # as machine_of has it
    when: str  # BEFORE or WAITING
    said: float
    starts: float
    began: float | None  # when the run did; None as long as it waits

    @property
    def error(self) -> float | None:
        """Seconds by which it began later than it was told, or earlier (below 0)."""
        return None if self.began is None else self.began - self.starts

    @property
    def is_news(self) -> bool:
        """Whether the job waits, or began at another time."""
        return self.error is None or self.was_wrong

    @property
    def was_wrong(self) -> bool:
        return self.error is not None and abs(self.error) >= _RIGHT

    @property
    def words(self) -> str:
        start = f"expected at {_clock(self.starts, self.said)} ({self.when}, at {_clock(self.said, self.said)})"
        if self.began is None or self.error is None:
            return start
        if not self.is_news:
            return f"{start}, began then"
        return f"{start}, began at {_clock(self.began, self.said)}, {_late(self.error)}"


def machine_of(plan: Plan) -> str:
    """What a forecast is about: the machine that is entered, be it called what it will in a blueprint."""
    target = plan["target"]
    where = "this machine" if target.get("local") else f"{target.get('address')}:{target.get('port') or 22}"
    return f"{plan['job']['scheduler']} {where}"


def directives_of(script: str) -> str:
    """The lines of a job script that a scheduler is asked about."""
    return "\n".join(line for line in script.splitlines() if line.startswith(_DIRECTIVES))


def noted(record: RecordData, job: JobNote, when: str, forecast: Forecast | None, plan: Plan) -> list[ForecastNote]:
    """A record's forecasts with one more; the first of its kind for a run of a job stays: it had to see furthest."""
    notes = list(record.get("forecasts") or [])
    run = run_of(job)
    if forecast is None or any((note["run"], note["when"]) == (run, when) for note in notes):
        return notes
    return [*notes, ForecastNote(**forecast, run=run, when=when, machine=machine_of(plan))][-_KEPT:]


def forecasts_of(record: RecordData) -> list[RunForecast]:
    """The forecasts for the job of a record as it is now."""
    job = record.get("job") or {}
    forecasts = []
    for note in record.get("forecasts") or ():
        forecast = RunForecast(
            note["machine"], note["when"], float(note["said"]), float(note["starts"]), job.get("started")
        )
        if note["run"] == run_of(job) and (forecast.began is None or forecast.said <= forecast.began + _RIGHT):
            forecasts.append(forecast)
    return forecasts


def accuracy_of(forecasts: Iterable[RunForecast], machine: str, target: str) -> str:
    """How wrong a machine's last forecasts were, in words; empty where none has come true, and where all were right.

    Args:
        forecasts: be they of other machines, too.
        target: what it is called.
    """
    own_forecasts = [forecast for forecast in forecasts if forecast.machine == machine and forecast.error is not None]
    latest = sorted(own_forecasts, key=lambda forecast: forecast.said)[-_LAST:]
    errors = [forecast.error for forecast in latest if forecast.error is not None]
    worst = max(errors, key=abs, default=0.0)
    if abs(worst) < _RIGHT:
        return ""
    if len(errors) == 1:
        return f"the last forecast on {target}: {_late(worst)}"
    half = _span(statistics.median(map(abs, errors)))
    return f"of the last {len(errors)} forecasts on {target}, half were within {half}; the worst: {_late(worst)}"


def _late(error: float) -> str:
    return f"{_span(abs(error))} {'later' if error > 0 else 'earlier'}"


def _span(seconds: float) -> str:
    return "a minute" if seconds < _RIGHT else format_seconds(round(seconds / 60) * 60)


def words_of_start(forecast: Forecast) -> str:
    """When something is expected to begin: ``at 14:05, in 7 min``."""
    wait = forecast["starts"] - forecast["said"]
    return f"at {_clock(forecast['starts'], forecast['said'])}, {'at once' if wait < _RIGHT else 'in ' + _span(wait)}"


def _clock(moment: float, reference: float) -> str:
    """Local time here; with the date where that is not the one beside it."""
    local, reference_local = time.localtime(moment), time.localtime(reference)
    return time.strftime("%H:%M" if local[:3] == reference_local[:3] else "%Y-%m-%d %H:%M", local)
