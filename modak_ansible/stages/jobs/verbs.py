"""What a user does to a job that is deployed: cancel, hold, release and requeue it, and resume its deployment."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from modak_ansible.errors import ModakError, SchedulerAway
from modak_ansible.schedulers.base import LIVING, UNKNOWN
from modak_ansible.stages.base import Outcome, Stage
from modak_ansible.stages.jobs.campaign import run_campaign
from modak_ansible.stages.jobs.job import deployment_arguments, describe, run_job
from modak_ansible.store.record import JobNote, latest

# The deed behind each state that the job is to be in.
DEEDS = {"cancelled": "cancel", "held": "hold", "released": "release", "requeued": "requeue"}
# How long a resume waits for a job that is about to end.
_ENDING_SECONDS = 30
_SHOWN = 8


def act_on_job(stage: Stage, state: str) -> Outcome:
    """Brings the job into one of the states of DEEDS.

    Raises:
        ModakError: the job's own state does not permit it, or the scheduler refuses or does not answer.
    """
    arguments = deployment_arguments(stage.plan)
    if stage.check:
        situation = stage.call("modak_job", **arguments, action="look", plan=stage.plan)["situation"]
        return Outcome(False, f"would {DEEDS[state]}: {describe(situation)}")
    answer = stage.call("modak_job", **arguments, action=DEEDS[state])
    situation = stage.record.note_job(answer["situation"])
    words = describe(situation)
    message = words if answer["changed"] else f"nothing changed: {words}"
    return Outcome(bool(answer["changed"]), message, {"situation": situation})


def resume_job(stage: Stage, run: Callable[[Stage], Outcome] = run_job) -> Outcome:
    """Goes on with a job wherever it was: one that lives is watched, and one that failed is submitted once more.

    What the failed attempt wrote is kept in a folder of its own; what the training keeps beside its script, such as
    checkpoints, is there for the next one.

    Raises:
        ModakError: it cannot be staged, or the scheduler refuses it or does not answer.
    """
    arguments = deployment_arguments(stage.plan)
    if not stage.check:
        situation = stage.call("modak_job", **arguments, action="look", plan=stage.plan)["situation"]
        if situation["state"] == "ENDING":  # it may be on its way to either end
            situation = stage.call("modak_job", **arguments, action="await", seconds=_ENDING_SECONDS)["situation"]
        _check_that_it_is_known(stage, situation)
        if situation["job_id"] and situation["state"] not in (*LIVING, "COMPLETED"):
            answer = stage.call("modak_job", **arguments, action="set_aside", ended=situation["job_id"])
            if answer["changed"]:
                stage.tell("job", f"{describe(situation)}; what it left is kept in attempts/{answer['attempt']}")
    return run(stage)


def _check_that_it_is_known(stage: Stage, situation: JobNote) -> None:
    """
    Raises:
        SchedulerAway: the job was known to have ended, and whether it may be tried once more nobody says now.
    """
    known = latest(stage.record.read().get("job"), situation)
    if situation["state"] == UNKNOWN and known is not situation and known["state"] != "COMPLETED":
        words = f"{describe(known)}, and is not tried once more now: {situation['explanation']}"
        raise SchedulerAway(words, hint="resume when the scheduler answers")


def act_on_jobs(stages: Sequence[Stage], state: str) -> Outcome:
    """Brings the jobs of deployments on one target into one of the states of DEEDS, as far as theirs permit it.

    Raises:
        ModakError: none of them permits it, or the scheduler refuses or does not answer.
    """
    named = {stage.folder.name: stage for stage in stages}
    if stages[0].check:
        return Outcome(False, f"would {DEEDS[state]} {len(stages)} jobs, as far as their states permit it")
    answer = _call(stages, DEEDS[state], [{"deployment": name} for name in named])
    rows = [_noted(named[load["deployment"]], load) for load in json.loads(answer["jobs"])]
    problems = [row for row in rows if row["problem"]]
    if len(problems) == len(rows) or any(row["permitted"] for row in problems):
        _raise(problems, len(rows))
    changed = sum(row["changed"] for row in rows)
    return Outcome(bool(changed), f"{changed} of {len(rows)} jobs {state}", {"jobs": json.dumps(rows)})


def _call(stages: Sequence[Stage], action: str, deployments: list[dict[str, Any]]) -> dict[str, Any]:
    first = stages[0].plan
    where = {"workspace": first["target"]["workspace"], "scheduler": first["job"]["scheduler"]}
    return stages[0].call("modak_campaign", **where, action=action, deployments=deployments)


def _noted(stage: Stage, job: dict[str, Any]) -> dict[str, Any]:
    """What became of a job, which its record gets to know, too."""
    situation = stage.record.note_job(job["situation"])
    words = describe(situation)
    unchanged = "" if job["changed"] else "nothing changed: "
    return {
        **job,
        "situation": situation,
        "training": stage.plan["training"],
        "message": job["problem"] or unchanged + words,
    }


def _raise(problems: list[dict[str, Any]], count: int) -> None:
    lines = [f"{len(problems)} of {count} jobs are not as they were to be:"]
    lines += [f"  {problem['training']}: {problem['problem']}" for problem in problems[:_SHOWN]]
    lines += [f"  and {len(problems) - _SHOWN} more"] if len(problems) > _SHOWN else []
    raise ModakError("\n".join(lines), hint=problems[0]["hint"])


def resume_jobs(stages: Sequence[Stage], *, wait: bool = True) -> Outcome:
    """Goes on with deployments on one target: those that failed are submitted once more, and what comes after them.

    Raises:
        ModakError: something cannot be staged, or the scheduler refuses it or does not answer.
    """
    named = {stage.folder.name: stage for stage in stages}
    if not stages[0].check:
        known = _call(stages, "look", [{"deployment": name, "digest": ""} for name in named])["known"]
        jobs = {name: each["situation"] for name, each in known.items() if not each["skipped"]}
        for name, situation in jobs.items():
            _check_that_it_is_known(named[name], situation)
        ended = [
            {**deployment_arguments(named[name].plan), "ended": situation["job_id"]}
            for name, situation in jobs.items()
            if situation["job_id"] and situation["state"] not in (*LIVING, "COMPLETED")
        ]
        attempts = _call(stages, "set_aside", ended)["attempts"] if ended else {}
        for name, attempt in attempts.items():
            words = f"{describe(jobs[name])}; what it left is kept in attempts/{attempt}"
            named[name].tell("job", f"{named[name].plan['training']}: {words}")
    return run_campaign(stages, wait=wait)
