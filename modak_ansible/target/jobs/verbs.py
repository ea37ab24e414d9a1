"""What a user does to deployments' jobs: cancels, holds, releases, requeues them, or has one tried once more."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Callable, Iterable

from ...errors import ModakError, SchedulerAway
from ...schedulers.base import ActionRefused, JobState, SchedulerSilent
from ..core.workspace import Workspace
from .attempts import set_aside
from .campaign import Campaign
from .intent import Intents
from .job import GRACE
from .member import Member
from .situation import Situation

# How long a cancelled job may take to leave the scheduler, and another deed to be seen in its answers.
_END_SECONDS = 60.0
_SEEN_SECONDS = 5.0
# The marker of a hold of our own.
_HELD = "held"
# Who holds a job where it is not the user.
_OPERATOR = "operator"
_WAITING = (JobState.QUEUED, JobState.HELD)


class NotPermitted(ModakError):
    """The state of a job does not permit what is to be done to it."""


class OperatedDeployment(Member):
    """A deployment whose job is told what to do; each deed gives the situation behind it, and whether it was done."""

    def cancel_job(self) -> tuple[Situation, bool]:
        """Ends the job; the deployment's folder stays.

        Raises:
            ModakError: no job was submitted, or the scheduler does not answer, or the job does not end.
        """
        return self._act(DEEDS["cancel"])

    def hold(self) -> tuple[Situation, bool]:
        """Keeps the job from starting.

        Raises:
            ModakError: it does not wait any more, or the scheduler refuses or does not answer.
        """
        return self._act(DEEDS["hold"])

    def release(self) -> tuple[Situation, bool]:
        """Lets a held job start.

        Raises:
            ModakError: it has ended, or the scheduler refuses or does not answer.
        """
        return self._act(DEEDS["release"])

    def requeue(self) -> tuple[Situation, bool]:
        """Sends a running job back into the queue, where it waits for its turn under the same id.

        Raises:
            ModakError: it has ended, or the scheduler has no queue, refuses or does not answer.
        """
        return self._act(DEEDS["requeue"])

    def _act(self, deed: Deed) -> tuple[Situation, bool]:
        before, is_done = self.begin(deed)
        if not is_done:
            return before, False
        deadline = time.monotonic() + deed.seconds()
        while not deed.is_seen(before, seen := self.situation()) and time.monotonic() < deadline:
            time.sleep(0.5)
        deed.end(self, seen)
        return seen, True

    def begin(self, deed: Deed, known: Situation | None = None) -> tuple[Situation, bool]:
        """Tells the scheduler; gives the situation before, and whether there was anything to do.

        Args:
            deed: what is done.
            known: the situation, where that was just asked for.

        Raises:
            ModakError: there is no job, its state does not permit it, or the scheduler refuses or does not answer.
        """
        with self._lock:
            job_id = self.submitted(Intents(self._scheduler, self._run)) if self._state.exists() else ""
            situation = known if known and known.job_id == job_id else self.situation()
            if not situation.job_id:
                raise NotPermitted("no job was submitted", hint="modak resume, or modak deploy, submits it")
            if situation.state == "UNKNOWN":
                raise SchedulerAway(f"{_named(situation)}: {situation.explanation}", hint="try again when it answers")
            return situation, deed.begin(self, situation)

    def begin_hold(self, situation: Situation) -> bool:
        if situation.state == JobState.HELD and situation.held_by != _OPERATOR:
            return False
        if situation.state not in _WAITING:
            raise _not_permitted(situation, "held", "only a job that waits can be held; modak cancel ends it")
        self._do("held", self._scheduler.hold, situation)
        (self._state / _HELD).touch()
        return True

    def end_hold(self, situation: Situation) -> None:
        if situation.state not in _WAITING:
            (self._state / _HELD).unlink()
            with suppress(ActionRefused, SchedulerSilent):  # Slurm would keep a job that runs from being requeued
                self._scheduler.release(self._run, situation.job_id)
            raise _not_permitted(situation, "held", "it began before the hold took effect; modak cancel ends it")
        if situation.held_by == _OPERATOR:
            (self._state / _HELD).unlink()
            message = f"{_named(situation)} is held by an operator, and its scheduler keeps no second hold"
            raise ModakError(message, hint="hold it again when the operator has released it")

    def begin_release(self, situation: Situation) -> bool:
        if situation.is_final:
            raise _not_permitted(situation, "released", "modak resume runs it again")
        is_ours = situation.state == JobState.QUEUED and (self._state / _HELD).exists()
        if situation.state != JobState.HELD and not is_ours:
            return False
        self._do("released", self._scheduler.release, situation)
        with suppress(FileNotFoundError):
            (self._state / _HELD).unlink()
        return True

    def end_release(self, situation: Situation) -> None:
        if situation.state == JobState.HELD:
            message = f"{_named(situation)} is still held: {situation.explanation or 'no reason given'}"
            raise ModakError(message, hint="who runs the cluster holds it, and only they can release it")

    def begin_requeue(self, situation: Situation) -> bool:
        if situation.state in _WAITING:
            return False
        if situation.state not in (JobState.RUNNING, JobState.SUSPENDED):
            raise _not_permitted(situation, "requeued", "modak resume runs it again when it has ended")
        self._do("requeued", self._scheduler.requeue, situation)
        return True

    def begin_cancel(self, situation: Situation) -> bool:
        if situation.is_final:
            return False
        self._cancel_now(situation.job_id)
        return True

    def end_cancel(self, situation: Situation) -> None:
        if not situation.is_final:
            message = f"{_named(situation)} was cancelled and has not ended within {_END_SECONDS:.0f} s"
            raise self.not_ended(message, "modak status tells when it has")

    def set_aside(self, ended: str) -> int | None:
        """Makes room for another attempt of a job that has ended without success.

        Args:
            ended: the id of the job that the caller saw ended: whoever was quicker has made room already.

        Returns:
            The number under which the attempt is kept; None where there was nothing to do.

        Raises:
            ModakError: the scheduler does not answer.
        """
        with self._lock:
            situation = self.situation()
            if situation.job_id != ended or not situation.is_final or situation.state == JobState.COMPLETED:
                return None
            try:
                found = self._scheduler.find(self._run, self._job_name, str(self.path.resolve()))
            except SchedulerSilent as error:
                message = f"which jobs there were is not known, for the scheduler does not answer: {error}"
                raise SchedulerAway(message, hint="resume when the scheduler answers") from error
            return set_aside(self.path, {ended, *found, *filter(None, [self._claimed()])})

    def _do(self, done: str, deed: Callable[..., None], situation: Situation) -> None:
        try:
            deed(self._run, situation.job_id)
        except ActionRefused as refusal:
            hint = "modak cancel ends the job, and modak resume runs it again" if done == "requeued" else ""
            raise ModakError(f"{_named(situation)} cannot be {done}: {refusal}", hint=hint) from refusal
        except SchedulerSilent as error:
            message = f"whether {_named(situation)} was {done} is not known: {error}"
            raise SchedulerAway(message, hint="try again when it answers") from error


@dataclass(frozen=True)
class Deed:
    """What is done to a job.

    Attributes:
        begin: tells the scheduler, where the situation permits it; False where there is nothing to do.
        is_seen: whether a situation, the second one, shows that it was done, given the one before.
        seconds: how long that may take.
        end: complains about a situation in which it was not.
    """

    begin: Callable[[OperatedDeployment, Situation], bool]
    is_seen: Callable[[Situation, Situation], bool]
    seconds: Callable[[], float]
    end: Callable[[OperatedDeployment, Situation], None]


def _is_back(before: Situation, now: Situation) -> bool:
    return now.state in _WAITING or now.is_final or now.started != before.started


DEEDS = {
    "cancel": Deed(
        OperatedDeployment.begin_cancel,
        lambda _, now: now.is_final,
        lambda: _END_SECONDS + GRACE,
        OperatedDeployment.end_cancel,
    ),
    # Slurm's own qstat, in place of Torque's, does not show a hold
    "hold": Deed(
        OperatedDeployment.begin_hold,
        lambda _, now: now.state != JobState.QUEUED and now.held_by != _OPERATOR,
        lambda: _SEEN_SECONDS,
        OperatedDeployment.end_hold,
    ),
    "release": Deed(
        OperatedDeployment.begin_release,
        lambda _, now: now.state != JobState.HELD,
        lambda: _SEEN_SECONDS,
        OperatedDeployment.end_release,
    ),
    "requeue": Deed(OperatedDeployment.begin_requeue, _is_back, lambda: _END_SECONDS, lambda *_: None),
}


def act_on_all(workspace: Workspace, scheduler: str, verb: str, names: Iterable[str]) -> list[dict[str, Any]]:
    """Does one of DEEDS to the jobs of deployments; the scheduler is asked for all of them at once.

    Returns:
        Of each, in that order: ``deployment``, ``situation``, ``changed``; ``problem`` and ``hint`` where it could not
        be done, and ``permitted``, False where the job's state is the reason.
    """
    deed, campaign = DEEDS[verb], Campaign(workspace, scheduler)
    members = {name: OperatedDeployment(workspace, name, scheduler, name) for name in names}
    before = campaign.situations(members)
    now = dict(before)
    begun: list[str] = []
    problems: dict[str, ModakError] = {}
    living = [name for name in reversed(members) if before[name].job_id and not before[name].is_final]
    if verb == "cancel":  # in one call; the first submitted last
        begun = campaign.cancel([members[name] for name in living])
    for name, member in members.items():
        try:
            if name not in begun and member.begin(deed, before[name])[1]:
                begun.append(name)
        except ModakError as error:
            problems[name] = error
    deadline, waiting = time.monotonic() + deed.seconds(), begun
    while waiting:
        now.update(campaign.situations(waiting))
        waiting = [name for name in waiting if not deed.is_seen(before[name], now[name])]
        if time.monotonic() > deadline:
            break
        time.sleep(0.5 if waiting else 0)
    for name in begun:
        try:
            deed.end(members[name], now[name])
        except ModakError as error:
            problems[name] = error
    return [
        {
            "deployment": name,
            "situation": now[name].as_dict(),
            "changed": name in begun and name not in problems,
            "problem": problems[name].message if name in problems else "",
            "hint": problems[name].hint if name in problems else "",
            "permitted": not isinstance(problems.get(name), NotPermitted),
        }
        for name in members
    ]


def _named(situation: Situation) -> str:
    return f"job {situation.job_id}"


def _words(situation: Situation) -> str:
    words = situation.state.lower().replace("_", " ")
    return f"{words} ({situation.explanation})" if situation.explanation else words


def _not_permitted(situation: Situation, done: str, hint: str) -> NotPermitted:
    return NotPermitted(f"{_named(situation)} is {_words(situation)} and cannot be {done}", hint=hint)
