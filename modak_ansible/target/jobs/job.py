"""A deployment's job on the target: submitted exactly once, watched to its end, judged by its own marker."""

from __future__ import annotations

import shutil
import time
from contextlib import suppress
from typing import Any, Callable

from ...errors import ModakError, SchedulerAway
from ...schedulers import SCHEDULERS
from ...schedulers.base import (
    NO_WAITS,
    UNKNOWN,
    AccountingSilent,
    JobRecord,
    JobState,
    SchedulerSilent,
    SubmissionRefused,
    SubmissionUncertain,
    Waits,
)
from ..core.commands import TimedRun
from ..core.files import Lock, changed_at, lack_of_room, read_on, read_text, tail, write_json, write_whole
from ..core.staging import LOGS, SCRIPT, STATE, is_staged, stage
from ..core.workspace import Workspace
from .attempts import earlier_jobs, number_of, remember_jobs
from .ends import known_end, note_end
from .intent import Intents, refused, unreached, withdraw_intent, write_intent
from .markers import (
    LIMITS,
    Kill,
    claimed_by,
    kill_of,
    known_job,
    last_sign,
    missed_for,
    noted_code,
    noted_start,
    outgrew_memory,
    submitted_job,
)
from .runs import WAITING, explained, living_state, own, run_of
from .situation import Situation

GRACE = 15.0  # seconds that a job's last words may take to be seen through a shared file system
# How long output gathers before it is handed on.
_GATHER = 1.0
# How long a job that ran a moment ago is taken to run still.
_TRUST = 5.0
# The marker of a job that modak has cancelled.
CANCELLED = "cancelled"
# What undeploy offers where a job cannot be ended.
LEAVE = "modak undeploy --leave-job goes on without that"
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
                raise SchedulerAway(f"whether the job was submitted is not known: {error}", hint=hint) from error
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
            raise SchedulerAway(f"whether the job was submitted is not known: {error}", hint=hint) from error
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
            end = self._known_end(job_id)
            if end and not (end.state == JobState.LOST and finished is not None):
                return end
            # what is in the queue no more runs no more, and its own word counts
            if finished is None or not isinstance(error, AccountingSilent):
                return self._situation(job_id, UNKNOWN, None, explanation=f"the scheduler does not answer: {error}")
            record = None
        # the job may have ended meanwhile; what is there before it is read, and has no code, is damaged
        is_noted = (self._state / "finished").exists()
        finished = self.finished() if finished is None else finished
        if finished is None and is_noted and record and (record.state, record.exit_code) == (JobState.COMPLETED, 0):
            finished = 0  # it came to its end, and the scheduler knows which
        end = self._known_end(job_id) if record is None else None
        if end and end.state != JobState.LOST and (finished is None or end.state != JobState.FAILED):
            return end  # which the scheduler has forgotten
        situation = self._judge(job_id, finished, record)
        note_end(self._state, situation)
        return situation

    def _known_end(self, job_id: str) -> Situation | None:
        return known_end(self._state, self._situation(job_id, JobState.LOST, None))

    def _judge(self, job_id: str, finished: int | None, record: JobRecord | None) -> Situation:
        if finished == 0:
            return self._situation(job_id, JobState.COMPLETED, record, exit_code=0)
        if record and not record.state.is_final:
            state = living_state(self._state, finished, record)
            words = explained(self._state, state, record.reason)
            if record.down and state is JobState.RUNNING:
                title = self._scheduler.title
                words = f"{record.down} is down, says {title}: whether the job runs on is known when the node is back"
            return self._situation(job_id, state, record, explanation=words)
        if finished is not None:
            return self._judge_failure(job_id, finished, record)
        if record is None or record.state is JobState.COMPLETED:
            return self._judge_silence(job_id, record)
        return self._judge_end(job_id, record.state, record)

    def _judge_end(
        self, job_id: str, state: JobState, record: JobRecord | None, exit_code: int | None = None, words: str = ""
    ) -> Situation:
        """An end without success: its scheduler may have written into the job's output why it brought it about."""
        kill = self._kill(job_id, state, record)
        if kill:
            state, words = kill.state, kill.words
        elif not words or state not in (JobState.FAILED, JobState.LOST):
            words = self._explain(state, record)
        return self._situation(job_id, state, record, exit_code, words, kill)

    def _kill(self, job_id: str, state: JobState, record: JobRecord | None) -> Kill | None:
        if read_text(self._state / CANCELLED):
            return None
        kill = None
        if record is None or not self._scheduler.knows_success:  # else the scheduler's word is as good as its output's
            kill = kill_of(self.path, job_id)
        if kill is None and state in (JobState.FAILED, JobState.LOST) and outgrew_memory(self.path):
            kill = Kill(JobState.OUT_OF_MEMORY, LIMITS["mem"])
        is_open = state in (JobState.FAILED, JobState.LOST, JobState.CANCELLED)
        return kill if kill and (is_open or kill.state is state) else None

    def _judge_failure(self, job_id: str, finished: int, record: JobRecord | None) -> Situation:
        """A job that noted its own failure; the scheduler may know that it was the one who ended it."""
        state = record.state if record and record.state is not JobState.COMPLETED else JobState.FAILED
        if read_text(self._state / "ended") == "timeout":
            state = JobState.TIMEOUT
        if read_text(self._state / CANCELLED):
            state = JobState.CANCELLED
        return self._judge_end(job_id, state, record, finished, f"the training ended with exit code {finished}")

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
            words = "the job began and is gone without a word: its node may have died, or it was killed"
            if not (self.path / "scheduler.log").exists():
                words += f"; {self._scheduler.title} has not brought its output (scheduler.log)"
        else:
            words = "the scheduler no longer knows the job, and it never began: it may have been deleted"
        return self._judge_end(job_id, JobState.LOST, record, words=words)

    def finished(self) -> int | None:
        """The exit code that the job has noted at its end; None before that."""
        return noted_code(self._state)

    def _explain(self, state: JobState, record: JobRecord | None) -> str:
        limit = record.limit if record else ""
        words = {
            JobState.TIMEOUT: LIMITS.get(limit, LIMITS["walltime"]),
            JobState.OUT_OF_MEMORY: LIMITS["mem"],
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
        explanation: str = "", kill: Kill | None = None,
    ) -> Situation:  # fmt: skip
        started, node = noted_start(self._state)
        is_over = isinstance(state, JobState) and state.is_final
        has_failed = is_over and state is not JobState.COMPLETED
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
            ended=changed_at(self._state / "finished") or (self._end(started, record, kill) if is_over else None),
            attempt=number_of(self.path),
            run=max(1, run_of(self._state)),
            explanation=explanation,
            held_by=record.held_by if record else "",
            down=record.down if record else "",
            error_tail=self._error_tail() if has_failed else [],
        )

    def _end(self, started: float | None, record: JobRecord | None, kill: Kill | None) -> float | None:
        """When a job ended that did not note its end itself; None where it never began."""
        if started is None:
            return None
        told = [each.elapsed for each in (record, kill) if each and each.elapsed is not None]
        return started + told[0] if told else max(started, last_sign(self.path) or started)

    def _error_tail(self) -> list[str]:
        """The last lines of what the job wrote about its failure; of its output where it wrote nothing there."""
        found = [line for name in ("error.log", "scheduler.log") for line in tail(self.path / name, 15)]
        return found or tail(self.path / "output.log", 15)

    def watch(self, seen: str, offset: int, seconds: float, log: str = LOGS[0], *, said: str = "") -> dict[str, Any]:
        """Waits until something is new, at most for some seconds.

        The job's own files are looked at often; the scheduler is asked less and less often, and not at all while a
        running job writes.

        Args:
            seen: the state that the caller knows.
            offset: how many bytes of the log it knows.
            log: which of LOGS is read.
            said: the explanation that the caller knows; another one of a job that runs is news, too.

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
            changed = situation is not None and situation.is_news(seen, said)
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
            raise self.not_ended(
                f"job {job_id} could not be cancelled: {error}", "try again when it answers"
            ) from error

    def not_ended(self, message: str, hint: str) -> ModakError:
        """What is said of a job that was to be cancelled, and lives on; on a dead node, only an operator can end it."""
        situation = self.situation()
        if not situation.down:
            return SchedulerAway(message, hint=hint) if situation.state == UNKNOWN else ModakError(message, hint=hint)
        command = self._scheduler.removal_by_operator(situation.job_id)
        by_operator = f", or an operator runs {command}" if command else ""
        message = f"{message}; {situation.down} is down"
        return ModakError(message, hint=f"it ends when the node is back{by_operator}")

    def end(self, *, leave: bool = False, seconds: float = 60.0) -> tuple[bool, str]:
        """Cancels the job if it lives, and waits until it has ended.

        Args:
            leave: whether a job that cannot be ended is left alone.
            seconds: how long it may take to end.

        Returns:
            Whether it was cancelled; and why it was left alone, empty where it was not.

        Raises:
            ModakError: it lives on, and is not to be left alone.
        """
        try:
            cancelled = self.cancel()
            if cancelled and not self.wait_for_end(seconds):
                words = f"job {self.job_id()} was cancelled and has not ended within {seconds:.0f} s"
                raise self.not_ended(words, "undeploy again later")
        except ModakError as error:
            if leave:
                return False, error.message
            error.hint = "; ".join(filter(None, (error.hint, LEAVE)))
            raise
        return cancelled, ""

    def wait_for_end(self, seconds: float) -> bool:
        """Whether the job has left the scheduler within some seconds; False, too, where it does not answer."""
        deadline = time.monotonic() + seconds
        job_id = self.job_id()
        while job_id:
            with suppress(SchedulerSilent):
                record = self._scheduler.status(self._run, job_id)
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
