"""A deployment's job on the target: submitted exactly once, watched to its end, judged by its own marker."""

from __future__ import annotations

import shutil
import time
from typing import Any, Callable

from ..errors import ModakError
from ..schedulers import SCHEDULERS
from ..schedulers.base import (
    NO_WAITS,
    AccountingSilent,
    JobRecord,
    JobState,
    SchedulerSilent,
    SubmissionRefused,
    SubmissionUncertain,
    Waits,
)
from .attempts import earlier_jobs, number_of, remember_jobs
from .commands import TimedRun
from .files import Lock, changed_at, lack_of_room, read_on, read_text, tail, write_json, write_whole
from .intent import Intents, refused, unreached, withdraw_intent, write_intent
from .markers import claimed_by, known_job, missed_for, noted_code, noted_start, outgrew_memory, submitted_job
from .runs import WAITING, explained, living_state, own, run_of
from .situation import Situation
from .staging import LOGS, SCRIPT, STATE, is_staged, stage
from .workspace import Workspace

GRACE = 15.0  # seconds that a job's last words may take to be seen through a shared file system
# How long output gathers before it is handed on.
_GATHER = 1.0
# How long a job that ran a moment ago is taken to run still.
_TRUST = 5.0
# The marker of a job that modak has cancelled.
CANCELLED = "cancelled"
# Why a job is cancelled where it was modak that did so.
_BY_MODAK = "by modak"


class Deployment:
    """A deployment's folder and its job.

    Args:
        workspace: where the deployments lie.
        name: the deployment's name, unique to its plan.
        scheduler: slurm, torque or none.
        job_name: what the scheduler knows the job by, unique to the plan too.
    """

    def __init__(self, workspace: Workspace, name: str, scheduler: str, job_name: str) -> None:
        self._workspace = workspace
        self._scheduler = SCHEDULERS[scheduler]
        self._job_name = job_name
        self.path = workspace.deployments / name
        self._state = self.path / STATE
        self._lock = Lock(workspace.deployments / f".{name}.lock")
        self._run = TimedRun(self.path)

    def is_staged(self, plan: dict[str, Any]) -> bool:
        """Whether the script and all of the user's files are there as the plan has them."""
        return is_staged(self.path, plan)

    def stage(self, plan: dict[str, Any], archive: bytes) -> None:
        """Brings the deployment's folder into being in one step, from a tar archive of the user's files.

        Raises:
            ModakError: a file is not what the plan says, or there is no room.
        """
        self._workspace.create()
        stage(self.path, plan, archive, self._lock)

    # --- submission

    def job_id(self) -> str | None:
        """The id of the job that was submitted; None before that."""
        return submitted_job(self._state) or None

    def submit(self, waits: Waits = NO_WAITS) -> tuple[str, bool]:
        """Submits the job unless that was done, to begin after others, and gives its id and whether it was done now.

        What is killed between the scheduler's taking the job and our noting its id leaves an intent behind; with
        one, the job is looked for before another is submitted. Should two be submitted all the same, the scripts
        settle by their claim which one trains.

        Raises:
            ModakError: the scheduler refuses the job, or does not answer.
        """
        with self._lock:
            known = self.known_job() or self._find_unrecorded()
            if known:
                self._record(known)
                return known, False
            write_intent(self._state, self._job_name)
            # a killed module must not give the lock away while sbatch or qsub are at work
            run = TimedRun(self.path, timeout=120, keep_locks=self._scheduler.name != "none")
            try:
                job_id = self._scheduler.submit(run, SCRIPT, self._job_name, waits)
            except SubmissionRefused as error:
                withdraw_intent(self._state)
                raise refused(self._scheduler, error) from error
            except SchedulerSilent as error:
                withdraw_intent(self._state)
                raise unreached(self._scheduler, error) from error
            except SubmissionUncertain as error:
                hint = "deploy again: the job is looked for before another one is submitted"
                raise ModakError(f"whether the job was submitted is not known: {error}", hint=hint) from error
            self._record(job_id)
            return job_id, True

    def was_submitted(self) -> bool:
        """Whether somebody has begun to submit the job, also where nobody can read any more which one it is."""
        return any((self._state / name).exists() for name in ("intent.json", "submitted.json"))

    def _claimed(self) -> str:
        return claimed_by(self._state)

    def _find_unrecorded(self, intents: Intents | None = None) -> str | None:
        """The id of a job that was submitted, and whose submitter did not live to note it."""
        if self._claimed():
            return self._claimed()
        if not self.was_submitted():
            return None
        try:
            found = (intents or Intents(self._scheduler, self._run)).jobs(self.path, self._job_name)
        except SchedulerSilent as error:
            hint = "an earlier submission was cut short; deploy again when the scheduler answers"
            raise ModakError(f"whether the job was submitted is not known: {error}", hint=hint) from error
        before = earlier_jobs(self.path)
        return next((job_id for job_id in found if job_id not in before), None)

    def _record(self, job_id: str) -> None:
        if self.job_id() != job_id:
            write_json(self._state / "submitted.json", {"job_id": job_id, "time": time.time()})

    # --- watching

    def known_job(self) -> str:
        """The id of the job, as its submitter or the job itself has noted it; empty before that."""
        return known_job(self._state)

    def situation(self, ask: Callable[[str], JobRecord | None] | None = None) -> Situation:
        """What has become of the job, by its own marker and by the scheduler's word, which ``ask`` may have already."""
        job_id = self.known_job()
        skipped = read_text(self._state / "skipped")
        if skipped and not self._claimed():
            return self._situation(job_id, JobState.CANCELLED, None, explanation=skipped)
        if not job_id:
            return Situation()
        finished = self.finished()
        if finished == 0:  # nobody has more to say
            return self._judge(job_id, finished, None)
        try:
            record = own(ask(job_id) if ask else self._scheduler.status(self._run, job_id), self._job_name, self.path)
        except SchedulerSilent as error:
            # what is in the queue no more runs no more, and its own word counts
            if finished is None or not isinstance(error, AccountingSilent):
                return self._situation(job_id, "UNKNOWN", None, explanation=f"the scheduler does not answer: {error}")
            record = None
        # the job may have ended meanwhile; what is there before it is read, and has no code, is damaged
        is_noted = (self._state / "finished").exists()
        finished = self.finished() if finished is None else finished
        if finished is None and is_noted and record and (record.state, record.exit_code) == (JobState.COMPLETED, 0):
            finished = 0  # it came to its end, and the scheduler knows which
        return self._judge(job_id, finished, record)

    def _judge(self, job_id: str, finished: int | None, record: JobRecord | None) -> Situation:
        if finished == 0:
            return self._situation(job_id, JobState.COMPLETED, record, exit_code=0)
        if record and not record.state.is_final:
            state = living_state(self._state, finished, record)
            return self._situation(job_id, state, record, explanation=explained(self._state, state, record.reason))
        if finished is not None:
            return self._judge_failure(job_id, finished, record)
        if record is None or record.state is JobState.COMPLETED:
            return self._judge_silence(job_id, record)
        outgrew = record.state is JobState.FAILED and outgrew_memory(self.path)
        state = JobState.OUT_OF_MEMORY if outgrew else record.state
        return self._situation(job_id, state, record, explanation=self._explain(state, record))

    def _judge_failure(self, job_id: str, finished: int, record: JobRecord | None) -> Situation:
        """A job that noted its own failure; the scheduler may know that it was the one who ended it."""
        state = record.state if record and record.state is not JobState.COMPLETED else JobState.FAILED
        if read_text(self._state / "ended") == "timeout":
            state = JobState.TIMEOUT
        if read_text(self._state / CANCELLED):
            state = JobState.CANCELLED
        if state is JobState.FAILED and outgrew_memory(self.path):
            state = JobState.OUT_OF_MEMORY
        explanation = f"the training ended with exit code {finished}"
        if state is not JobState.FAILED:
            explanation = self._explain(state, record)
        return self._situation(job_id, state, record, exit_code=finished, explanation=explanation)

    def _judge_silence(self, job_id: str, record: JobRecord | None) -> Situation:
        """No marker, and the scheduler says success or nothing at all."""
        if read_text(self._state / CANCELLED):
            return self._situation(job_id, JobState.CANCELLED, record, explanation=_BY_MODAK)
        if missed_for(self._state) < GRACE:
            return self._situation(job_id, JobState.ENDING, record, explanation="waiting for the job's own marker")
        is_known = record is not None and record.exit_code == 0 and self._scheduler.knows_success
        if is_known and self._claimed() and not (self._state / "requeued").exists():
            # it had not even the room to say so
            return self._situation(job_id, JobState.COMPLETED, record, exit_code=0)
        if self._claimed():
            explanation = "the job began and is gone without a word: its node may have died, or it was killed"
        else:
            explanation = "the scheduler no longer knows the job, and it never began: it may have been deleted"
        return self._situation(job_id, JobState.LOST, record, explanation=explanation)

    def finished(self) -> int | None:
        """The exit code that the job has noted at its end; None before that."""
        return noted_code(self._state)

    def _explain(self, state: JobState, record: JobRecord | None) -> str:
        words = {
            JobState.TIMEOUT: "it reached its wall time",
            JobState.OUT_OF_MEMORY: "it used more memory than it was given",
            JobState.CANCELLED: _BY_MODAK if read_text(self._state / CANCELLED) else "it was cancelled",
            JobState.NODE_FAIL: "its node failed",
            JobState.PREEMPTED: "it made way for another job",
            JobState.BOOT_FAIL: "its node did not start it",
            JobState.FAILED: "it failed before it could note its own end",
        }.get(state, "")
        reason = record.reason if record and record.reason not in ("", "NonZeroExitCode") else ""
        return ", ".join(part for part in (words, reason) if part)

    def _situation(
        self, job_id: str, state: JobState | str, record: JobRecord | None, exit_code: int | None = None,
        explanation: str = "",
    ) -> Situation:  # fmt: skip
        started, node = noted_start(self._state)
        has_failed = isinstance(state, JobState) and state.is_final and state is not JobState.COMPLETED
        if has_failed and (lack := lack_of_room(self.path)):
            explanation += f"; {lack} at {self.path}"
        code = exit_code if exit_code is not None or record is None else record.exit_code
        return Situation(
            state=str(state),
            job_id=job_id,
            exit_code=code,
            signal=record.signal if record else None,
            reason=record.reason if record else "",
            nodes=(record.nodes if record else "") or node,
            started=started,
            ended=changed_at(self._state / "finished"),
            attempt=number_of(self.path),
            run=max(1, run_of(self._state)),
            explanation=explanation,
            error_tail=self._error_tail() if has_failed else [],
        )

    def _error_tail(self) -> list[str]:
        """The last lines of what the job wrote about its failure; of its output where it wrote nothing there."""
        found = [line for name in ("error.log", "scheduler.log") for line in tail(self.path / name, 15)]
        return found or tail(self.path / "output.log", 15)

    def watch(self, seen: str, offset: int, seconds: float, log: str = LOGS[0]) -> dict[str, Any]:
        """Waits until something is new, at most for some seconds.

        The job's own files are looked at often; the scheduler is asked less and less often, and not at all while a
        running job writes.

        Args:
            seen: the state that the caller knows.
            offset: how many bytes of the log it knows.
            log: which of LOGS is read.

        Returns:
            ``situation`` (None where the scheduler was not asked), ``output`` (what is new, decoded) and ``offset``.
        """
        began = time.monotonic()
        pause = 1.0
        ask_at = began + (_TRUST if seen == JobState.RUNNING and seconds > _TRUST else 0)
        while True:
            situation = None
            if time.monotonic() >= ask_at or (seen not in WAITING and (self._state / "finished").exists()):
                situation = self.situation()
                ask_at, pause = time.monotonic() + pause, min(pause * 1.5, 15.0)
            changed = situation is not None and situation.state != seen
            is_over = situation is not None and situation.is_final
            output, new_offset = read_on(self.path / log, offset, to_end=is_over)
            waited = time.monotonic() - began
            if changed or is_over or waited >= seconds or (output and waited >= min(seconds, _GATHER)):
                return {"situation": situation and situation.as_dict(), "output": output, "offset": new_offset}
            time.sleep(0.25)

    def await_end(self, seconds: float) -> Situation:
        """The situation when the job has ended, or after some seconds; it is seldom looked at, and so not disturbed."""
        deadline = time.monotonic() + seconds
        while not (self._state / "finished").exists() and time.monotonic() < deadline:
            time.sleep(1.0)
        while not (situation := self.situation()).is_final and time.monotonic() < deadline:
            time.sleep(1.0)
        return situation

    # --- the end

    def cancel(self) -> bool:
        """Cancels the job if it lives; tells whether it did.

        Raises:
            ModakError: the scheduler does not answer.
        """
        with self._lock:
            job_id = self.known_job() or (self._find_unrecorded() if self._state.exists() else None)
            if not job_id:
                return False
            self._record(job_id)
            if self.situation().is_final:
                return False
            self._cancel_now(job_id)
        return True

    def _cancel_now(self, job_id: str) -> None:
        mark = self._state / CANCELLED
        write_whole(mark, "modak\n")
        try:
            self._scheduler.cancel(self._run, job_id)
        except SchedulerSilent as error:
            mark.unlink()
            hint = "try again when it answers"
            raise ModakError(f"the job could not be cancelled: {error}", hint=hint) from error

    def wait_for_end(self, seconds: float) -> bool:
        """Whether the job has left the scheduler within some seconds."""
        deadline = time.monotonic() + seconds
        job_id = self.job_id()
        while job_id:
            try:
                record = self._scheduler.status(self._run, job_id)
            except SchedulerSilent:
                record = None
            if record is None or record.state.is_final:
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(0.5)
        return True

    def remove(self) -> bool:
        """Removes the deployment's folder; tells whether there was one."""
        there = self.path.exists()
        remember_jobs(self.path)
        shutil.rmtree(self.path, ignore_errors=True)
        if self.path.exists():
            raise ModakError(f"{self.path} could not be removed", hint="remove it by hand")
        return there
