"""What a user does to a job that is deployed: cancel, hold, release and requeue it, and resume its deployment."""

from __future__ import annotations

from collections.abc import Callable

from modak_ansible.schedulers.base import LIVING
from modak_ansible.stages.base import Outcome, Stage
from modak_ansible.stages.job import deployment_arguments, describe, run_job

# The deed behind each state that the job is to be in.
DEEDS = {"cancelled": "cancel", "held": "hold", "released": "release", "requeued": "requeue"}
# How long a resume waits for a job that is about to end.
_ENDING_SECONDS = 30


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
    situation = answer["situation"]
    stage.record.update(job=situation)
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
        if situation["job_id"] and situation["state"] not in (*LIVING, "COMPLETED"):
            answer = stage.call("modak_job", **arguments, action="set_aside", ended=situation["job_id"])
            if answer["changed"]:
                stage.tell("job", f"{describe(situation)}; what it left is kept in attempts/{answer['attempt']}")
    return run(stage)
