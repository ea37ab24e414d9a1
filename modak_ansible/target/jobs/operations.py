"""What a user does to jobs that were submitted: cancels, holds, releases and requeues them."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Callable, ClassVar, Iterable, TypedDict

from ...errors import FAILED, ModakError, SchedulerAway
from ...schedulers.base import ActionRefused, CommandRunner, JobState, SchedulerSilent
from .campaign import Campaign
from .intent import Intents
from .job import Deployment
from .judgement import GRACE
from .situation import PENDING, UNKNOWN, Situation

# How long a cancelled job may take to leave the scheduler, and another operation to be seen in its answers.
_END_SECONDS = 60.0
_SEEN_SECONDS = 5.0
# The marker of a hold of our own.
_HELD = "held"
# Who holds a job where it is not the user.
_OPERATOR = "operator"


class NotPermitted(ModakError):
    """The state of a job does not permit what is to be done to it."""


@dataclass
class Operated:
    """What became of a job that something was done to."""

    deployment: str
    situation: Situation = field(default_factory=Situation)  # of the job, behind it
    changed: bool = False  # whether anything was done
    problem: str = ""  # why it could not be, with what to do about it in ``hint``; empty where it could
    hint: str = ""
    permitted: bool = True  # False where the job's state is the reason
    exit_code: int = FAILED  # of the problem


class OperatedJob(TypedDict):
    """What became of a deployment's job, as commands show it."""

    training: str
    deployment: str
    job_id: str
    state: str
    changed: bool
    message: str
    problem: str


class Operation:
    """What is done to the job of a deployment."""

    done: ClassVar[str]

    def seconds(self) -> float:
        """How long it may take to be seen."""
        return _SEEN_SECONDS

    def begin(self, deployment: Deployment, situation: Situation) -> bool:
        """Tells the scheduler; False where there is nothing to do.

        Raises:
            ModakError: the situation does not permit it, or the scheduler refuses or does not answer.
        """
        raise NotImplementedError

    def is_seen(self, before: Situation, now: Situation) -> bool:
        """Whether a situation shows that it was done."""
        raise NotImplementedError

    def end(self, deployment: Deployment, situation: Situation) -> None:
        """Complains about a situation in which it was not done.

        Raises:
            ModakError: it was not.
        """

    def tell(self, command: Callable[[CommandRunner, str], None], deployment: Deployment, situation: Situation) -> None:
        """Has the scheduler do it.

        Raises:
            ModakError: it refuses, or does not answer.
        """
        try:
            command(deployment.run, situation.job_id)
        except ActionRefused as refusal:
            hint = "modak cancel ends the job, and modak resume runs it again" if self.done == "requeued" else ""
            raise ModakError(f"{_named(situation)} cannot be {self.done}: {refusal}", hint=hint) from refusal
        except SchedulerSilent as error:
            message = f"it is not known whether {_named(situation)} was {self.done}: {error}"
            raise SchedulerAway(message, hint="try again when it answers") from error

    def not_permitted(self, situation: Situation, hint: str) -> NotPermitted:
        """What is said where the situation does not permit it; the hint is for a job that has not ended."""
        if situation.is_final:
            has_completed = situation.state == JobState.COMPLETED
            hint = "modak results fetches what it left" if has_completed else "modak resume runs it again"
        return NotPermitted(f"{_named(situation)} is {_words(situation)} and cannot be {self.done}", hint=hint)


class Cancel(Operation):
    """Ends the job; the deployment's folder stays."""

    done = "cancelled"

    def seconds(self) -> float:
        return _END_SECONDS + GRACE

    def begin(self, deployment: Deployment, situation: Situation) -> bool:  # noqa: ARG002 - all are cancelled together
        return not situation.is_final

    def is_seen(self, before: Situation, now: Situation) -> bool:  # noqa: ARG002
        return now.is_final

    def end(self, deployment: Deployment, situation: Situation) -> None:
        if not situation.is_final:
            message = f"{_named(situation)} was cancelled but has not ended within {_END_SECONDS:.0f} s"
            raise deployment.not_ended(message, "modak status shows when it has")


class Hold(Operation):
    """Keeps the job from starting."""

    done = "held"

    def begin(self, deployment: Deployment, situation: Situation) -> bool:
        if situation.state == JobState.HELD and situation.held_by != _OPERATOR:
            return False
        if situation.state not in PENDING:
            raise self.not_permitted(situation, "only a job that waits can be held; modak cancel ends it")
        self.tell(deployment.scheduler.hold, deployment, situation)
        (deployment.state / _HELD).touch()
        return True

    def is_seen(self, before: Situation, now: Situation) -> bool:  # noqa: ARG002
        # Slurm's own qstat, in place of Torque's, does not show a hold
        return now.state != JobState.QUEUED and now.held_by != _OPERATOR

    def end(self, deployment: Deployment, situation: Situation) -> None:
        if situation.state not in PENDING:
            (deployment.state / _HELD).unlink(missing_ok=True)
            with suppress(ActionRefused, SchedulerSilent):  # Slurm would keep a job that runs from being requeued
                deployment.scheduler.release(deployment.run, situation.job_id)
            raise self.not_permitted(situation, "it began before the hold took effect; modak cancel ends it")
        if situation.held_by == _OPERATOR:
            (deployment.state / _HELD).unlink(missing_ok=True)
            message = f"{_named(situation)} is held by an operator, and its scheduler does not allow a second hold"
            raise ModakError(message, hint="hold it again when the operator has released it")


class Release(Operation):
    """Lets a held job start."""

    done = "released"

    def begin(self, deployment: Deployment, situation: Situation) -> bool:
        if situation.is_final:
            raise self.not_permitted(situation, "")
        is_ours = situation.state == JobState.QUEUED and (deployment.state / _HELD).exists()
        if situation.state != JobState.HELD and not is_ours:
            return False
        self.tell(deployment.scheduler.release, deployment, situation)
        (deployment.state / _HELD).unlink(missing_ok=True)
        return True

    def is_seen(self, before: Situation, now: Situation) -> bool:  # noqa: ARG002
        return now.state != JobState.HELD

    def end(self, deployment: Deployment, situation: Situation) -> None:  # noqa: ARG002
        if situation.state == JobState.HELD:
            message = f"{_named(situation)} is still held: {situation.explanation or 'no reason given'}"
            raise ModakError(message, hint="the cluster's operators hold it, and only they can release it")


class Requeue(Operation):
    """Sends a running job back into the queue, where it waits for its turn under the same id."""

    done = "requeued"

    def seconds(self) -> float:
        return _END_SECONDS

    def begin(self, deployment: Deployment, situation: Situation) -> bool:
        if situation.state in PENDING:
            return False
        if situation.state not in (JobState.RUNNING, JobState.SUSPENDED):
            raise self.not_permitted(situation, "modak resume runs it again when it has ended")
        self.tell(deployment.scheduler.requeue, deployment, situation)
        return True

    def is_seen(self, before: Situation, now: Situation) -> bool:
        return now.state in PENDING or now.is_final or now.started != before.started


OPERATIONS: dict[str, Operation] = {"cancel": Cancel(), "hold": Hold(), "release": Release(), "requeue": Requeue()}


def operate(campaign: Campaign, name: str, deployments: Iterable[str]) -> list[Operated]:
    """Does one of OPERATIONS to the jobs of deployments; the scheduler is asked for all of them at once.

    Returns:
        What became of each, in that order.

    Raises:
        ModakError: the scheduler does not hear that jobs are to be cancelled.
    """
    operation = OPERATIONS[name]
    by_name = {deployment: campaign.deployment(deployment) for deployment in deployments}
    before = campaign.situations(by_name)
    acted_on: list[str] = []
    problems: dict[str, ModakError] = {}
    for deployment_name, deployment in by_name.items():
        try:
            before[deployment_name], is_begun = _begin(operation, deployment, before[deployment_name])
            if is_begun:
                acted_on.append(deployment_name)
        except ModakError as error:
            problems[deployment_name] = error
    if name == "cancel" and acted_on:  # in one call; the first submitted last
        campaign.cancel([by_name[deployment_name] for deployment_name in reversed(acted_on)])
    now, waiting = dict(before), acted_on
    deadline = time.monotonic() + operation.seconds()
    while waiting:
        now.update(campaign.situations(waiting))
        waiting = [
            deployment_name
            for deployment_name in waiting
            if not operation.is_seen(before[deployment_name], now[deployment_name])
        ]
        if time.monotonic() > deadline:
            break
        time.sleep(0.5 if waiting else 0)
    for deployment_name in acted_on:
        try:
            operation.end(by_name[deployment_name], now[deployment_name])
        except ModakError as error:
            problems[deployment_name] = error
    return [
        _operated(deployment_name, now[deployment_name], problems.get(deployment_name), acted_on)
        for deployment_name in by_name
    ]


def _begin(operation: Operation, deployment: Deployment, situation_before: Situation) -> tuple[Situation, bool]:
    """Gives the situation before, and whether there was anything to do."""
    with deployment.lock:
        job_id = deployment.submitted(Intents(deployment.scheduler, deployment.run))
        situation = situation_before if situation_before.job_id == job_id else deployment.situation()
        if not situation.job_id:
            raise NotPermitted("no job was submitted", hint="modak resume, or modak deploy, submits it")
        if situation.state == UNKNOWN:
            raise SchedulerAway(f"{_named(situation)}: {situation.explanation}", hint="try again when it answers")
        return situation, operation.begin(deployment, situation)


def _operated(name: str, situation: Situation, problem: ModakError | None, acted_on: list[str]) -> Operated:
    if problem is None:
        return Operated(name, situation, name in acted_on)
    is_permitted = not isinstance(problem, NotPermitted)
    return Operated(name, situation, False, problem.message, problem.hint, is_permitted, problem.exit_code)


def _named(situation: Situation) -> str:
    return f"job {situation.job_id}"


def _words(situation: Situation) -> str:
    words = situation.state.lower().replace("_", " ")
    return f"{words} ({situation.explanation})" if situation.explanation else words
