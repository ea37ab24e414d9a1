"""The results of deployments of one target, of one or of many: listed in one call and fetched in one transfer."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from modak_ansible.model.quantities import counted, format_size
from modak_ansible.stages.base import Answer, Outcome, Stage, timed_stage
from modak_ansible.stages.jobs.direct import ask
from modak_ansible.stages.jobs.query import note_jobs
from modak_ansible.stages.results import fetch_results, keep_results, outputs_of, wanted_files
from modak_ansible.store.record import NOT_RUN, living_jobs
from modak_ansible.target.core.files import Lock
from modak_ansible.target.jobs.results import JobResults, ResultsQuestion, left_by
from modak_ansible.target.jobs.situation import Situation
from modak_ansible.transport.rsync import pull


def fetch_all(stages: Sequence[Stage]) -> Outcome:
    """Brings back what the jobs of deployments on one target left, verified; what is here already is not fetched again.

    Raises:
        ModakError: a file did not arrive as it left.
    """
    names = {stage.folder.name: stage for stage in stages}
    outputs = {name: outputs_of(stage) for name, stage in names.items()}
    answer = stages[0].call("modak_results", workspace=stages[0].plan["target"]["workspace"], outputs=outputs)
    results_of: dict[str, JobResults] = answer["listed"]

    def wanted_paths() -> list[str]:
        return [
            f"{name}/{file['path']}" for name, stage in names.items() for file in wanted_files(stage, results_of[name])
        ]

    if stages[0].check:
        paths = wanted_paths()
        return Outcome(bool(paths), f"would fetch {counted(len(paths), 'file')}")
    deployments = stages[0].folder.parent
    arrived = deployments / ".results.part"  # a fetch that was cut short is gone on with
    with Lock(deployments / ".results.lock"):  # those of one project fetch in turn
        paths = wanted_paths()
        if paths:
            pull(stages[0].connection, answer["folder"], paths, arrived, stages[0].say)
        changed = [_keep(stage, results_of[name], arrived / name) for name, stage in names.items()]
        for name in names:
            shutil.rmtree(arrived / name, ignore_errors=True)
        with suppress(OSError):  # what is left there is another campaign's
            arrived.rmdir()
    size = sum(file["size"] for results in results_of.values() for file in results["files"])
    files = counted(sum(len(results["files"]) for results in results_of.values()), "file")
    message = f"{files} of {counted(len(stages), 'job')}, {format_size(size)}, in {stages[0].folder.parent}"
    return Outcome(any(changed), message)


def look(stages: Sequence[Stage], seconds: float | None = None) -> Answer:
    """How the jobs of deployments on one target are, which their records note, and what they left: without a playbook.

    Args:
        seconds: how long it may take; None for as long as the connection lasts.

    Returns:
        What ``target.jobs.results.left_by`` gives.

    Raises:
        TargetUnreachable: with the reason and what to do about it.
        ModakError: it cannot be told.
    """
    first = stages[0]
    question: ResultsQuestion = {
        "workspace": first.plan["target"]["workspace"],
        "scheduler": first.plan["job"]["scheduler"],
        "job_ids": living_jobs({stage.deployment: stage.record.read() for stage in stages}),
        "outputs": {stage.deployment: outputs_of(stage) for stage in stages},
    }
    answer = ask(first.connection, left_by, question, seconds=seconds)
    note_jobs(first.folder.parent, {job["deployment"]: job for job in answer["jobs"]}, first.plan)
    return answer


def fetch(stages: Sequence[Stage]) -> Outcome:
    """Brings back what the jobs of deployments on one target left, be it one, as the stage of the results does.

    Raises:
        ModakError: a file did not arrive as it left.
    """
    if len(stages) > 1:
        return keep_all_results(stages)
    with timed_stage(stages[0], "results") as finish:
        outcome = fetch_results(stages[0])
        finish(outcome)
    return outcome


def keep_all_results(stages: Sequence[Stage]) -> Outcome:
    """Fetches what the jobs of deployments left, or have written so far, by the records of the deployments."""
    situations = {stage.deployment: Situation.of(stage.store.job) for stage in stages}
    begun_stages = [
        stage
        for stage in stages
        if (job := situations[stage.deployment]).job_id
        and not job.explanation.startswith(NOT_RUN)
        and (not job.is_living or job.started or stage.store.has_old_results)
    ]
    return fetch_all(begun_stages) if begun_stages else Outcome(False, "no training has begun")


def _keep(stage: Stage, results: JobResults, arrived: Path) -> bool:
    """Moves what has arrived of one deployment to its place."""

    def bring(paths: list[str], part: Path) -> None:
        for path in paths:
            (part / path).parent.mkdir(parents=True, exist_ok=True)
            if (arrived / path).is_file():
                shutil.move(arrived / path, part / path)

    named_stage = replace(stage, say=lambda text: stage.say(f"{stage.plan['training']}: {text}"))
    with timed_stage(stage, "results") as finish:
        outcome = keep_results(named_stage, results, bring)
        finish(outcome)
    return outcome.changed
