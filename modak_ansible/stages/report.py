"""The end of a deployment: how its trainings ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from modak_ansible.errors import JobFailed
from modak_ansible.stages.base import Outcome, Stage
from modak_ansible.stages.jobs.campaign import counts
from modak_ansible.store.record import NOT_RUN, Metrics, RecordData
from modak_ansible.target.jobs.situation import LIVING, Situation

_SHOWN = 8

# Why the same job would come to the same end.
_LIMITS = {
    "TIMEOUT": ", and no longer than this one: ask for more walltime, or for checkpoints",
    "OUT_OF_MEMORY": ", with no more than this one had: ask for more memory under resources",
}


class _Ended(NamedTuple):
    """A deployment whose job may have ended, and its record."""

    stage: Stage
    job: Situation
    record: RecordData


def report(stages: Sequence[Stage]) -> Outcome:
    """Says how the trainings of deployments ended.

    Raises:
        JobFailed: one or more not with success, with the end of what each wrote; of one alone with its own exit code.
    """
    if len(stages) == 1:
        return _report_one(stages[0])
    records = [stage.record.read() for stage in stages]
    jobs = [Situation.of(record.get("job")) for record in records]
    ends = [_Ended(*parts) for parts in zip(stages, jobs, records, strict=True)]
    failed = [ended for ended in ends if ended.job.has_failed]
    if stages[0].check or not failed:
        states = Counter(ended.job.state for ended in ends)
        facts = {"job_state": " ".join(states), "results": str(stages[0].folder.parent)}
        return Outcome(False, counts(states), {"facts": facts})
    first = sorted(failed, key=lambda ended: _is_not_run(ended.job))
    lines = [f"{len(failed)} of {len(ends)} trainings did not complete:"]
    lines += _failures(first[:_SHOWN])
    lines += [f"  and {len(failed) - _SHOWN} more"] if len(failed) > _SHOWN else []
    hint = (
        f"all that one wrote: modak logs DEPLOYMENT, such as {first[0].stage.folder.name}; one that failed stays as it "
        "is until modak resume runs it again or it is undeployed, and those behind it then run"
    )
    raise JobFailed("\n".join(lines), hint=hint)


def _report_one(stage: Stage) -> Outcome:
    record = stage.record.read()
    if stage.check or not record.get("job"):
        return Outcome(False, "nothing has run")
    job = Situation.of(record["job"])
    facts = {
        "plan_digest": stage.plan["digest"],
        "job_id": job.job_id,
        "job_state": job.state,
        "exit_code": "" if job.exit_code is None else str(job.exit_code),
        "accuracy": _accuracy(record.get("metrics")),
        "results": record.get("results", ""),
    }
    if job.state in ("COMPLETED", *LIVING):
        return Outcome(False, job.words, {"facts": facts})
    hint = f"all that it wrote is in {record.get('results')}; modak resume {stage.folder.name} runs it again"
    if not (job.state == "TIMEOUT" and stage.plan["job"].get("checkpoint")):  # goes on from the last one
        hint += _LIMITS.get(job.state, "")
    raise JobFailed("\n".join(_failure(job, record)), hint=hint)


def _is_not_run(job: Situation) -> bool:
    return job.explanation.startswith(NOT_RUN)


def _failures(failed: Sequence[_Ended]) -> Iterator[str]:
    """How each training failed, with the end of its error output unless that ends as another's above it."""
    by_last_line: dict[str, str] = {}
    for stage, job, record in failed:
        name = stage.plan["training"]
        if _is_not_run(job):
            yield f"  {name}: {job.explanation}"
            continue
        first, *more_lines = _failure(job, record)
        yield f"  {name}: {first}"
        same_end = by_last_line.setdefault(job.error_tail[-1], name) if job.error_tail else name
        yield from (
            [f"    its error output ends like that of {same_end}"]
            if same_end != name
            else (f"  {line}" for line in more_lines)
        )


def _failure(job: Situation, record: RecordData) -> list[str]:
    """How a job failed, and the end of what it wrote of it."""
    code = f", exit code {job.exit_code}" if job.exit_code not in (None, 0) else ""
    lines = [f"job {job.job_id} ended as {job.state}{code}: {job.explanation or 'no reason given'}"]
    lines += [f"  | {line}" for line in job.error_tail]
    if record.get("missing_outputs"):
        lines.append(f"  no file matches the outputs {', '.join(record['missing_outputs'])}")
    return lines


def _accuracy(metrics: Metrics | None) -> str:
    accuracy = metrics.get("accuracy") if metrics else None
    return "" if accuracy is None else f"{accuracy:.4f}"
