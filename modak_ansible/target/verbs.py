"""What a user does to a deployment's job: cancels, holds, releases, requeues it, or has it tried once more."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Callable

from ..errors import ModakError
from ..schedulers.base import ActionRefused, JobState, SchedulerSilent
from .attempts import set_aside
from .job import GRACE, Deployment
from .situation import Situation

# How long a cancelled job may take to leave the scheduler, and another deed to be seen in its answers.
_END_SECONDS = 60.0
_SEEN_SECONDS = 5.0
# The marker of a hold of our own.
_HELD = "held"
_WAITING = (JobState.QUEUED, JobState.HELD)


class OperatedDeployment(Deployment):
    """A deployment whose job is told what to do; each deed gives the situation behind it, and whether it was done."""

    def cancel_job(self) -> tuple[Situation, bool]:
        """Ends the job; the deployment's folder stays.

        Raises:
            ModakError: no job was submitted, or the scheduler does not answer, or the job does not end.
        """
        cancelled = self.cancel()
        situation = self._situation_of_job()
        if not cancelled:
            return situation, False
        if not self.wait_for_end(_END_SECONDS):
            message = f"{_named(situation)} was cancelled and has not ended within {_END_SECONDS:.0f} s"
            raise ModakError(message, hint="modak status tells when it has")
        return self._look_until(lambda seen: seen.is_final, GRACE + 5), True

    def hold(self) -> tuple[Situation, bool]:
        """Keeps the job from starting.

        Raises:
            ModakError: it does not wait any more, or the scheduler refuses or does not answer.
        """
        with self._lock:
            situation = self._situation_of_job()
            if situation.state == JobState.HELD:
                return situation, False
            if situation.state != JobState.QUEUED:
                raise _not_permitted(situation, "held", "only a job that waits can be held; modak cancel ends it")
            self._do("held", self._scheduler.hold, situation)
            (self._state / _HELD).touch()
        # Slurm's own qstat, in place of Torque's, does not show a hold
        situation = self._look_until(lambda seen: seen.state != JobState.QUEUED, _SEEN_SECONDS)
        if situation.state not in _WAITING:
            (self._state / _HELD).unlink()
            with suppress(ActionRefused, SchedulerSilent):  # Slurm would keep a job that runs from being requeued
                self._scheduler.release(self._run, situation.job_id)
            raise _not_permitted(situation, "held", "it began before the hold took effect; modak cancel ends it")
        return situation, True

    def release(self) -> tuple[Situation, bool]:
        """Lets a held job start.

        Raises:
            ModakError: it has ended, or the scheduler refuses or does not answer.
        """
        with self._lock:
            situation = self._situation_of_job()
            if situation.is_final:
                raise _not_permitted(situation, "released", "modak resume runs it again")
            is_ours = situation.state == JobState.QUEUED and (self._state / _HELD).exists()
            if situation.state != JobState.HELD and not is_ours:
                return situation, False
            self._do("released", self._scheduler.release, situation)
            with suppress(FileNotFoundError):
                (self._state / _HELD).unlink()
        situation = self._look_until(lambda seen: seen.state != JobState.HELD, _SEEN_SECONDS)
        if situation.state == JobState.HELD:
            message = f"{_named(situation)} is still held: {situation.explanation or 'no reason given'}"
            raise ModakError(message, hint="it waits for another job, or an administrator holds it")
        return situation, True

    def requeue(self) -> tuple[Situation, bool]:
        """Sends a running job back into the queue, where it waits for its turn under the same id.

        Raises:
            ModakError: it has ended, or the scheduler has no queue, refuses or does not answer.
        """
        with self._lock:
            situation = self._situation_of_job()
            if situation.state in _WAITING:
                return situation, False
            if situation.state not in (JobState.RUNNING, JobState.SUSPENDED):
                raise _not_permitted(situation, "requeued", "modak resume runs it again when it has ended")
            self._do("requeued", self._scheduler.requeue, situation)
        began = situation.started

        def is_back(seen: Situation) -> bool:
            return seen.state in _WAITING or seen.is_final or seen.started != began

        return self._look_until(is_back, _END_SECONDS), True

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
                hint = "resume when the scheduler answers"
                raise ModakError(f"which jobs there were is not known: {error}", hint=hint) from error
            return set_aside(self.path, {ended, *found, *filter(None, [self._claimed()])})

    def _situation_of_job(self) -> Situation:
        """
        Raises:
            ModakError: there is no job, or nothing is known of it.
        """
        situation = self.situation()
        if not situation.job_id:
            raise ModakError("no job was submitted", hint="modak resume, or modak deploy, submits it")
        if situation.state == "UNKNOWN":
            raise ModakError(f"{_named(situation)}: {situation.explanation}", hint="try again when it answers")
        return situation

    def _do(self, done: str, deed: Callable[..., None], situation: Situation) -> None:
        try:
            deed(self._run, situation.job_id)
        except ActionRefused as refusal:
            hint = "modak cancel ends the job, and modak resume runs it again" if done == "requeued" else ""
            raise ModakError(f"{_named(situation)} cannot be {done}: {refusal}", hint=hint) from refusal
        except SchedulerSilent as error:
            message = f"whether {_named(situation)} was {done} is not known: {error}"
            raise ModakError(message, hint="try again when it answers") from error

    def _look_until(self, is_news: Callable[[Situation], bool], seconds: float) -> Situation:
        """The situation when it has come to something, or after some seconds."""
        deadline = time.monotonic() + seconds
        while not is_news(situation := self.situation()) and time.monotonic() < deadline:
            time.sleep(0.5)
        return situation


def _named(situation: Situation) -> str:
    return f"job {situation.job_id}"


def _words(situation: Situation) -> str:
    words = situation.state.lower().replace("_", " ")
    return f"{words} ({situation.explanation})" if situation.explanation else words


def _not_permitted(situation: Situation, done: str, hint: str) -> ModakError:
    return ModakError(f"{_named(situation)} is {_words(situation)} and cannot be {done}", hint=hint)
