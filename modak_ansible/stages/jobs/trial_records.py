"""A record of each trial of a job's tuning, for the performance model."""

from __future__ import annotations

from pydantic import ValidationError

from modak_ansible.model.measured.record import Record
from modak_ansible.model.measured.tuning_report import TuningReport, TuningTrial
from modak_ansible.model.plan import Plan
from modak_ansible.stages.base import Stage
from modak_ansible.stages.jobs.record import add_record, record_of
from modak_ansible.stages.jobs.tuned import as_trained, read_report
from modak_ansible.store.record import JobNote
from modak_ansible.target.core.plan import Plan as PlanJson
from modak_ansible.target.core.plan import TuningCandidate

SUITE = "tuning"


def record_trials(stage: Stage) -> int:
    """Adds the trials of the stage's job to the project's records, unless they are there; tells how many were added.

    Raises:
        ModakError: the file of records cannot be written.
    """
    job, report = stage.store.job, read_report(stage.store.results)
    if report is None or not job.get("job_id") or not stage.plan.get("tuning"):
        return 0
    try:
        records = trial_records(stage.plan, job, report)
    except ValidationError:  # a plan of another version, or steps that are none
        return 0
    return sum(add_record(stage.folder, record) for record in records)


def trial_records(plan: PlanJson, job: JobNote, report: TuningReport) -> list[Record]:
    """What the trials have to say, in their order; candidates of one rung are compared with each other.

    Raises:
        ValidationError: the plan or what a trial reported is not of our form.
    """
    planned = (plan.get("tuning") or {}).get("candidates", [])
    candidates = {candidate["name"]: candidate for candidate in planned}
    trials = [trial for trial in report.trials if trial.candidate in candidates]
    return [_record(plan, candidates[trial.candidate], job, report, trial) for trial in trials]


def _record(
    plan: PlanJson, candidate: TuningCandidate, job: JobNote, report: TuningReport, trial: TuningTrial
) -> Record:
    tried_plan = Plan.model_validate(as_trained(plan, candidate))
    reported = {"hostname": report.hostname, **trial.report, "steps": trial.steps}
    record = record_of(tried_plan, {**job, "state": "COMPLETED"}, reported, None)
    settings = candidate["settings"]
    batch = int(settings.get("batch_size", 0)) * int(settings.get("accumulation", 1))  # of a step of the optimiser
    work = record.work.model_copy(update={"batch_size": batch}) if batch else record.work
    failed = {"outcome": "failed", "reason": trial.reason} if trial.reason else {}
    return record.model_copy(
        update={
            "date": report.date,
            "suite": SUITE,
            "suite_digest": plan["digest"],
            "group": f"{plan['training']} in job {job['job_id']}",
            "variant": candidate["title"],
            "round": trial.rung,
            "position": trial.position,
            "settings": candidate["settings"],
            "work": work,
            **failed,
        }
    )
