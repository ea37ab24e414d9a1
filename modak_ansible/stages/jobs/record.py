"""The record of a job that has ended, for the performance model: every finished job teaches it something."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from modak_ansible.catalogue import load_catalogue
from modak_ansible.catalogue.entry import is_release
from modak_ansible.errors import ModakError
from modak_ansible.model.measured.finished_run import accelerator, allocation, image, judged, load, measured
from modak_ansible.model.measured.record import Load, Measure, Record, RecordedTarget, Steps
from modak_ansible.model.plan import Plan
from modak_ansible.stages.base import Stage
from modak_ansible.stages.jobs.applied import Report, compare_choices, report_of, switches_of
from modak_ansible.stages.jobs.tuned import as_trained, read_report, trained_of
from modak_ansible.store.deployment import DeploymentStore
from modak_ansible.store.project import RECORDS, moved_with
from modak_ansible.store.record import AppliedChoice, JobNote, mapping, told_by
from modak_ansible.target.core.files import Lock, make_private
from modak_ansible.target.core.plan import Plan as PlanJson
from modak_ansible.target.jobs.progress import read_metrics

SUITE = "jobs"
# Whoever measures a suite writes records of its own.
_OF_SUITES = "MODAK_BENCH_RUN"


def record_job(stage: Stage) -> bool:
    """Adds the record of the stage's job to the project's, unless it is there; tells whether it was added.

    Raises:
        ModakError: the file of records cannot be written.
    """
    state = stage.record.read()
    job = state.get("job") or {}
    if not job.get("job_id") or any(name == _OF_SUITES for name, _ in stage.plan["application"]["environment"]):
        return False
    results = stage.store.results
    tuning = read_report(results)
    trained = trained_of(tuning, stage.plan)
    try:
        plan = Plan.model_validate(as_trained(stage.plan, trained))
    except ValidationError:  # made by another version, whose records are not ours to write
        return False
    if plan.tuning and not plan.tuning.trains:
        return False
    record = job_record(plan, job, results) if plan.application.is_training else program_record(plan, job)
    return add_record(stage.folder, record.model_copy(update=told_by(state.get("energy"))))


def add_record(folder: Path, record: Record) -> bool:
    """Adds a record to those of the project that a deployment's folder belongs to; tells whether it was not there.

    Raises:
        ModakError: the file of records cannot be written.
    """
    path = _records_file(folder, record.suite)
    try:
        return _append(path, record) if path else False
    except OSError as error:
        raise ModakError(f"{path} cannot be written: {error.strerror}") from error


def job_record(plan: Plan, job: JobNote, results: Path) -> Record:
    return record_of(plan, job, report_of(results), read_metrics(results))


def record_of(plan: Plan, job: JobNote, report: Report | None, metrics: Report | None) -> Record:
    """What a training has to say, by the report of the runtime in its process and by metrics of its own."""
    try:
        return _whole_record(plan, job, report, metrics)
    except (ValidationError, LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        # a script of the user's may write a file of that name in any form
        record = _whole_record(plan, job, None, None)
        return _failed(record, f"it wrote no complete measurements: {' '.join(str(error).split())[:300]}")


def _whole_record(plan: Plan, job: JobNote, report: Report | None, metrics: Report | None) -> Record:
    as_json = plan.model_dump(mode="json")
    own_metrics = metrics if switches_of(metrics) is not None else None
    reported = mapping(mapping(report).get("choices"))
    settings = _settings(
        plan, compare_choices(cast(PlanJson, as_json), report, metrics), reported, switches_of(metrics)
    )
    report_of_run = own_metrics or report or {}
    record = Record(
        **_identity(plan, job, settings, own_metrics, report),
        outcome="measured",
        plan=plan.digest,
        image=image(plan),
        target=_target(plan, job, report_of_run),
        allocation=allocation(plan, job.get("job_id", "")),
        load=load(own_metrics)
        if own_metrics
        else Load(foreign_cores=mapping(mapping(report).get("steps")).get("foreign_cores")),
        versions=own_metrics.get("versions", {}) if own_metrics else _versions(report),
        work=plan.application.work,
    )
    if job["state"] != "COMPLETED":
        return _failed(record, _end_of(job))
    record = record.model_copy(update=measured(own_metrics) if own_metrics else {"steps": _steps(report)})
    if record.training is None and (record.steps is None or not record.steps.count):
        return _failed(record, "nothing of it was measured")
    run = job.get("run", 1)
    return judged(record, f"it was interrupted, and continued in run {run}" if run > 1 else "")


def _failed(record: Record, reason: str) -> Record:
    return record.model_copy(update={"outcome": "failed", "reason": reason})


def _end_of(job: JobNote) -> str:
    return f"{job['state'].lower()}: {job.get('explanation') or 'no reason given'}"


def program_record(plan: Plan, job: JobNote) -> Record:
    """What a finished parallel program has to say: how long it ran with so many processes and threads."""
    record = Record(
        **{**_identity(plan, job, {}, None, None), "workload": plan.application.name},
        outcome="measured",
        plan=plan.digest,
        image=image(plan),
        target=_target(plan, job, {"processor": {"model": plan.target.processor.model}}),
        allocation=allocation(plan, job.get("job_id", "")),
    )
    if job["state"] != "COMPLETED":
        return _failed(record, _end_of(job))
    began, ended = job.get("started"), job.get("ended")
    if not began or not ended or ended <= began:
        return _failed(record, "how long it ran was not recorded")
    about: dict[str, str | int | float] = {
        "processes": plan.job.layout.processes,
        "threads": plan.job.layout.threads_of_process,
        "program": plan.application.program,
    }
    run = Measure(name="run", unit="s", samples=(round(ended - began, 1),), about=about)
    return record.model_copy(update={"measures": (run,)})


def _settings(
    plan: Plan, outcomes: list[AppliedChoice], reported: Report, switches: dict[str, str] | None
) -> dict[str, str]:
    """What differed from stock: of the environment as it was planned, of the code as it was really applied."""
    planned = plan.chosen.settings if plan.chosen else {}
    in_code = {choice.name for choice in plan.choices if choice.reaches == "code"} | {
        outcome["name"] for outcome in outcomes
    }
    settings = {name: value for name, value in planned.items() if name not in in_code}
    settings |= {
        name: str(mapping(choice)["applied"]) for name, choice in reported.items() if mapping(choice).get("applied")
    }
    settings |= {outcome["name"]: outcome["applied"] for outcome in outcomes if outcome["applied"] is not None}
    return dict(sorted({**settings, **(switches or {})}.items()))


def _identity(
    plan: Plan,
    job: JobNote,
    settings: dict[str, str],
    metrics: Report | None,
    report: Report | None,
) -> dict[str, Any]:
    entry = load_catalogue().find(plan.image.entry)
    started = job.get("started")
    began = datetime.fromtimestamp(started, UTC) if started else datetime.now(UTC)
    version = _reported_version(plan, report) or str(mapping(mapping(metrics).get("framework")).get("version") or "")
    is_entry = entry is not None and (not version or is_release(entry, version))
    return {
        "date": began.isoformat(timespec="seconds"),
        "suite": SUITE,
        "suite_digest": "",
        "group": plan.training,
        "variant": ", ".join(f"{name}={value}" for name, value in settings.items()) or "stock",
        "round": 1,
        "position": 1,
        "workload": mapping(metrics).get("workload") or plan.application.work.workload,
        # what ran says which release it was; an entry that it was not is not named
        "entry": plan.image.entry if is_entry or entry is None else f"image-{plan.image.digest[:12]}",
        "framework": entry.framework if entry else plan.application.framework,
        "version": entry.version if entry and is_entry else version,
        "origin": entry.origin if entry and is_entry else "given",
        "settings": settings,
    }


def _reported_version(plan: Plan, report: Report | None) -> str:
    module = "torch" if plan.application.framework == "pytorch" else plan.application.framework
    return _versions(report).get(module, "")


def _versions(report: Report | None) -> dict[str, str]:
    frameworks = mapping(mapping(report).get("frameworks"))
    return {name: str(mapping(framework).get("version", "")) for name, framework in frameworks.items()}


def _target(plan: Plan, job: JobNote, report: Report) -> RecordedTarget:
    processor, target = mapping(report.get("processor")), plan.target
    return RecordedTarget(
        name=target.name,
        scheduler=target.scheduler.value,
        hostname=str(report.get("hostname") or job.get("nodes") or ""),
        processor=str(processor.get("model") or ""),
        architecture=target.processor.architecture,
        cores=target.processor.cores,
        memory=target.processor.memory,
        accelerator=accelerator(target, report),
    )


def _steps(report: Report | None) -> Steps | None:
    steps = mapping(mapping(report).get("steps"))
    if not report or not steps:
        return None
    imports = [mapping(framework).get("import_seconds") for framework in mapping(report.get("frameworks")).values()]
    fields = {name: steps[name] for name in Steps.model_fields if name in steps}
    return Steps(
        **fields,
        import_seconds=max((seconds for seconds in imports if seconds), default=None),
        peak_memory_bytes=report.get("peak_memory_bytes"),
    )


def _records_file(folder: Path, suite: str) -> Path | None:
    """Of the project that a deployment belongs to; None of one that only tries what would happen."""
    origin = DeploymentStore(folder).origin
    noted_state = Path(origin["state"]) if origin.get("state") else None
    state = moved_with(folder, noted_state, noted_state) if noted_state else None
    return state / RECORDS / f"{suite}.jsonl" if state and folder.is_relative_to(state) else None


def _append(path: Path, record: Record) -> bool:
    """Adds a line, whole or not at all, unless the file has one of the same run in the same job of the same plan."""
    make_private(path.parent)
    with Lock(path.with_name(f".{path.name}.lock")):
        mark = record.plan.encode()  # only few of many lines are worth to be parsed
        lines = path.read_bytes().splitlines() if path.exists() else []
        if any(mark in line and _is_same(line, record) for line in lines):
            return False
        with path.open("ab+") as file:
            file.seek(0, os.SEEK_END)
            size = file.tell()
            if size:  # a crash may have torn the last line: it ends here, and whoever reads it says so
                file.seek(size - 1)
                torn = file.read(1) != b"\n"
                file.write(b"\n" if torn else b"")
            file.write(record.model_dump_json(by_alias=True).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
    return True


def _is_same(line: bytes, record: Record) -> bool:
    try:
        earlier = json.loads(line)
        run = (earlier["plan"], earlier["allocation"]["job_id"], earlier["position"])
        return bool(run == (record.plan, record.allocation.job_id, record.position))
    except (ValueError, KeyError, TypeError):
        return False
