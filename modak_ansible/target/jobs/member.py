"""A deployment of a campaign: its job may come after others, and may be a task of an array."""

from __future__ import annotations

from typing import Any

from ...errors import ModakError, SchedulerAway
from ...schedulers.base import SchedulerSilent, Waits
from ..core.files import Lock, read_json, read_text, write_json, write_whole
from ..core.staging import PLAN, SCRIPT
from .intent import Intents, withdraw_intent, write_intent
from .job import CANCELLED, Deployment

_WAITS = "waits.json"
# How long a job that is cancelled may take to leave the queue.
_LEAVE = 30.0


class Member(Deployment):
    """A deployment whose job may come after others."""

    def began(self) -> bool:
        """Whether the job has ever started."""
        return bool(self._claimed())

    def waited(self) -> dict[str, Any]:
        """The ids of the jobs that this one was submitted to run after, by their deployments."""
        return read_json(self._state / _WAITS) or {}

    def note_waits(self, waited: dict[str, str]) -> None:
        if waited and not self.job_id():
            write_json(self._state / _WAITS, waited)

    def submit_behind(self, waits: Waits, waited: dict[str, str]) -> tuple[str, bool]:
        """Submits the job as :meth:`submit` does, and notes what it waits for.

        Args:
            waits: for what.
            waited: the ids of those that have to complete before, by their deployments.
        """
        self.note_waits(waited)
        return self.submit(waits)

    def begin_to_cancel(self) -> str:
        """Notes that modak cancels the job, and gives its id; empty where there is none.

        Raises:
            ModakError: the scheduler does not answer.
        """
        with self._lock:
            job_id = self.job_id() or (self._find_unrecorded() if self._state.exists() else None)
            if not job_id:
                return ""
            self._record(job_id)
            write_whole(self._state / CANCELLED, "modak\n")
            return job_id

    def was_not_cancelled(self) -> None:
        (self._state / CANCELLED).unlink()

    # --- as a task of an array

    @property
    def lock(self) -> Lock:
        """Held by whoever submits the job."""
        return self._lock

    def array_script(self) -> str:
        """The script of an array that the job may be a task of; empty where it cannot be one."""
        return self._scheduler.array_script(read_text(self.path / SCRIPT))

    def submitted(self, intents: Intents) -> str:
        """The id of the job that was submitted, which is noted; empty before that. To be asked under the lock.

        Raises:
            ModakError: the scheduler does not answer.
        """
        job_id = self.known_job() or self._find_unrecorded(intents) or ""
        if job_id:
            self._record(job_id)
        return job_id

    def intend(self, name: str, array: str, task: int, tasks: int) -> None:
        """Notes that the job is about to be submitted as a task of an array."""
        write_intent(self._state, name, array=array, task=task, tasks=tasks)

    def withdraw(self) -> None:
        """Notes that it was not."""
        withdraw_intent(self._state)

    def record(self, job_id: str) -> None:
        """Notes the id of the job."""
        self._record(job_id)

    def is_skipped(self) -> bool:
        return bool(read_text(self._state / "skipped"))

    def is_staged_as(self, digest: str) -> bool:
        """Whether all that a plan with a digest stages is there."""
        plan = read_json(self.path / PLAN)
        return plan is not None and plan.get("digest") == digest and self.is_staged(plan)

    def skip(self, words: str) -> bool:
        """Has a job that has not begun never begin, for a reason; False for one that has.

        Raises:
            ModakError: the scheduler does not answer.
        """
        with self._lock:
            if not self._state.exists() or self.began():
                return False
            self._leave_queue()
            (self._state / "skipped").write_text(words + "\n", encoding="utf-8")
            return True

    def start_over(self) -> None:
        """Forgets a job that has not begun, so that another can be submitted in its place; a living one is cancelled.

        Raises:
            ModakError: the scheduler does not answer, or the job does not leave the queue.
        """
        with self._lock:
            if self.began():
                return
            self._leave_queue()
            if not self.wait_for_end(_LEAVE):
                raise ModakError(f"job {self.job_id()} was cancelled and has not left the queue", hint="deploy again")
            if self.began():
                return
            with (self._state / "forgotten").open("a", encoding="utf-8") as file:
                file.write(f"{self.job_id() or ''}\n")
            for name in ("submitted.json", "intent.json", CANCELLED, "missed", "skipped", _WAITS):
                if (self._state / name).exists():
                    (self._state / name).unlink()

    def _leave_queue(self) -> None:
        job_id = self.job_id()
        if not job_id:
            return
        try:
            if self._lives(job_id):
                self._cancel(job_id)
        except SchedulerSilent as error:
            hint = "deploy again when it answers"
            raise SchedulerAway(f"job {job_id} could not be taken out of the queue: {error}", hint=hint) from error

    def _lives(self, job_id: str) -> bool:
        record = self._scheduler.status(self._run, job_id)
        return record is not None and not record.state.is_final

    def _cancel(self, job_id: str) -> None:
        """Cancels a job; that it ended meanwhile, which some commands call a failure, is as good."""
        try:
            self._scheduler.cancel(self._run, job_id)
        except SchedulerSilent:
            if self._lives(job_id):
                raise
