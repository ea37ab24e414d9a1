"""What a job's tuning found: its tuning.json read and told."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean, median

from pydantic import ValidationError

from modak_ansible.model.measured.tuning_report import TuningReport, TuningTrial
from modak_ansible.model.quantities import counted, format_seconds
from modak_ansible.target.core.plan import Candidate, Choice, Plan, PlannedJob, TuningCandidate

REPORT = "tuning.json"
_TURNS_TO_TELL = 3  # how many turns as long as the only one the budget that is proposed instead has room for


@dataclass(frozen=True)
class Row:
    """A candidate, by the last of its trials that was measured."""

    name: str
    title: str
    trial: TuningTrial | None  # None where none was measured
    # how many times as fast as the stock run, of the same rung; None where they have none in common
    over_stock: float | None
    over_plan: float | None  # the same over the plan's choice
    outcome: str  # what became of it


def read_report(folder: Path) -> TuningReport | None:
    """The report in a folder of results; None where there is none of our form."""
    try:
        return TuningReport.model_validate_json((folder / REPORT).read_bytes())
    except (OSError, ValidationError):
        return None


def trained_of(report: TuningReport | None, plan: Plan) -> TuningCandidate | None:
    """The candidate of a plan that trained, where it is not the plan's own choice."""
    candidates = (plan.get("tuning") or {}).get("candidates", [])
    name = report.best if report else ""
    return next((candidate for candidate in candidates[1:] if candidate["name"] == name), None)


def as_trained(plan: Plan, candidate: TuningCandidate | None) -> Plan:
    """A plan with the choices of one of its candidates."""
    if candidate is None:
        return plan
    values, settings = candidate["values"], candidate["settings"]
    choices: list[Choice] = [
        {**choice, "value": values.get(choice["name"], choice["value"])} for choice in plan["choices"]
    ]
    rows: list[Candidate] = [{**row, "settings": settings} if row["chosen"] else row for row in plan["candidates"]]
    job: PlannedJob = {**plan["job"], "threads": candidate["threads"], "environment": dict(candidate["environment"])}
    return {**plan, "choices": choices, "candidates": rows, "job": job}


def tuning_rows(report: TuningReport, plan: Plan) -> list[Row]:
    """Every candidate, the fastest first, and those that were not measured last; no combination that was not tried."""
    candidates = (plan.get("tuning") or {}).get("candidates", [])
    stock = next((candidate["name"] for candidate in candidates if candidate["is_stock"]), "")
    combined = {candidate["name"] for candidate in candidates if candidate.get("parts")}
    names = [
        name for name, candidate in report.candidates.items() if candidate.outcome != "untried" or name not in combined
    ]
    rows = [_row(report, name, stock, candidates[0]["name"]) for name in names]
    return sorted(rows, key=lambda row: (row.trial is None, row.name != report.best, -(row.over_plan or 0)))


def _row(report: TuningReport, name: str, stock: str, own: str) -> Row:
    candidate = report.candidates[name]
    measured = [trial for trial in report.trials if trial.candidate == name and trial.score]
    outcome = "trains" if name == report.best else candidate.reason or ("" if measured else candidate.outcome)
    return Row(
        name=name,
        title=candidate.title,
        trial=measured[-1] if measured and candidate.outcome == "measured" else None,
        over_stock=ratio(report, stock, name),
        over_plan=ratio(report, own, name),
        outcome=outcome,
    )


def ratio(report: TuningReport, old: str, new: str) -> float | None:
    """How many times as fast one candidate is as another, on the geometric mean of the rungs that compare them.

    Both were measured in each, and others kept the machine as busy while one ran as while the other did.
    """
    trials = {(trial.rung, trial.candidate): trial for trial in report.trials if trial.score}
    ratios = []
    for rung in {rung for rung, _ in trials}:
        before, after = trials.get((rung, old)), trials.get((rung, new))
        if before and after and before.score and after.score and _are_alike(before, after, report.busy):
            ratios.append(before.score / after.score)
    return geometric_mean(ratios) if ratios else None


def _busy(trial: TuningTrial) -> float | None:
    """Cores that others kept busy while it ran; None where nobody knows."""
    cores = (trial.steps or {}).get("foreign_cores")
    return float(cores) if isinstance(cores, int | float) else None


def _are_alike(trial: TuningTrial, other_trial: TuningTrial, most: float) -> bool:
    first, second = _busy(trial), _busy(other_trial)
    return first is None or second is None or abs(first - second) <= most


def ratios_of_steps(report: TuningReport, plan: Plan) -> list[float]:
    """How many times as fast as the stock run the choice made its steps, turn by turn, where they can be compared."""
    choice, stock = (plan.get("tuning") or {})["candidates"][:2]
    trials = {(trial.rung, trial.candidate): trial for trial in report.trials}
    ratios = []
    for rung in range(1, len(report.trials) + 1):
        of_choice, of_stock = trials.get((rung, choice["name"])), trials.get((rung, stock["name"]))
        step, other = (trial.seconds_of("median") if trial else None for trial in (of_choice, of_stock))
        if of_choice and of_stock and step and other and _are_alike(of_choice, of_stock, report.busy):
            ratios.append(other / stock["work_per_step"] / (step / choice["work_per_step"]))
    return ratios


def _compared_with_stock(report: TuningReport, plan: Plan) -> str:
    """What ``compare_with_stock`` amounts to: the middle one of the turns' ratios, and how far they lie apart."""
    spent = f"{counted(len(report.trials), 'trial')} in {format_seconds(report.spent)}"
    ratios = ratios_of_steps(report, plan)
    trained = ", so stock trained" if trained_of(report, plan) else ""
    if len(ratios) > 1:
        apart = f"{counted(len(ratios), 'turn')}, {min(ratios):.2f} to {max(ratios):.2f}"
        return f"{median(ratios):.2f}x of stock, measured here{trained} ({apart}; {spent})"
    if ratios:
        limit = math.ceil(_TURNS_TO_TELL * report.spent / 10) * 10
        return (
            f"{ratios[0]:.2f}x of stock in one turn, which may be noise; compare_with_stock: {limit} has more ({spent})"
        )
    out = [
        f"{candidate.title}: {candidate.reason}"
        for candidate in report.candidates.values()
        if candidate.outcome == "out"
    ]
    measured = {trial.candidate for trial in report.trials if trial.seconds_of("median")}
    why = "others kept the node busy while one ran, and not while the other did"
    if len(measured) < 2:
        why = f"{format_seconds(report.budget)} are too short for one turn of each"
    if not out and report.state != "finished":
        if not report.reason:
            return f"not compared yet: {spent}"
        why = report.reason
    return f"could not be compared: {'; '.join(out) or why}{trained}"


def tuning_pairs(report: TuningReport | None, plan: Plan) -> list[tuple[str, str]]:
    """What tuning amounts to, as pairs of a title and a text; nothing where there was none."""
    tuning = plan.get("tuning")
    if report is None or not tuning:
        return []
    if tuning["reduction"] == 1:
        return [("steps", _compared_with_stock(report, plan))]
    spent = f"{len(report.trials)} trials in {format_seconds(report.spent)} of {format_seconds(report.budget)}"
    if not report.best:
        return [("tuning", f"no candidate could be measured ({report.reason or report.state}), {spent}")]
    row = next(row for row in tuning_rows(report, plan) if row.name == report.best)
    count = sum(candidate.outcome != "untried" for candidate in report.candidates.values())
    words = [f"{row.title} of {counted(count, 'candidate')}"]
    step = row.trial.seconds_of("median") if row.trial else None
    words += [f"{step * 1e3:.2f} ms a step"] if step else []
    words += [f"{row.over_plan:.2f}x the plan's choice"] if row.over_plan and row.name != "c0" else []
    words += [f"{row.over_stock:.2f}x stock"] if row.over_stock else []
    ended = "" if report.state == "finished" else f"; {report.state}: {report.reason or 'it did not finish'}"
    lines = [("tuning", f"{', '.join(words)}; {spent}{ended}")]
    slowed = [trial for trial in report.trials if (_busy(trial) or 0.0) > report.busy]
    if slowed:
        most_cores = max(_busy(trial) or 0.0 for trial in slowed)
        text = f"others kept up to {most_cores:.1f} cores busy during {len(slowed)} of the trials, and slowed them"
        lines.append(("tuning", text))
    out = [
        (candidate.title, candidate.reason) for candidate in report.candidates.values() if candidate.outcome == "out"
    ]
    return lines + [("tuning", f"out: {title}: {reason}") for title, reason in out]
