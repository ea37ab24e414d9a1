"""How a job is, or how it ended: judged by its own markers and by the scheduler's word."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from signal import Signals
from typing import Callable, Optional

from ...schedulers.base import AccountingSilent, JobRecord, JobState, Scheduler, SchedulerSilent
from ..core.commands import TimedRun
from ..core.files import changed_at, clock_of, lack_of_room, read_json, read_text, tail
from ..core.staging import RANKS, RUNTIMES_OWN, STATE
from .attempts import number_of
from .markers import (
    LIMITS,
    FailedRank,
    Kill,
    claimed_by,
    failed_rank,
    kill_of,
    known_job,
    last_sign,
    missed_for,
    noted_code,
    noted_start,
    outgrew_memory,
)
from .situation import PENDING, UNKNOWN, Situation, known_end, note_end

GRACE = 15.0  # seconds that a job's last words may take to be seen through a shared file system
# The marker of a job that was cancelled, with who did that: modak, or the job itself.
CANCELLED = "cancelled"
# The marker of one that is not to begin, with the reason.
SKIPPED = "skipped"
# The marker of a job whose deployment's folder was removed while it lived.
FOLDER_LOST = "folder_lost"
_FOLDER_WENT = "its folder was removed while it ran, with everything it had written"
# The ids of the jobs that one was submitted to run after, by their deployments.
WAITS = "waits.json"
# The ends in which what became of a rank is no cause.
_ENDED_FROM_OUTSIDE = (JobState.CANCELLED, JobState.TIMEOUT, JobState.PREEMPTED)

_OF_A_RUN = ("started", "finished", "ended")
# Seconds: what was noted since may be younger than the scheduler's answer.
_FRESH = 60.0

# Gives what the scheduler says of a job, by its id.
Ask = Callable[[str], Optional[JobRecord]]


class Judgement:
    """What has become of a deployment's job.

    Args:
        folder: the deployment's.
        scheduler: that has the job.
        job_name: what the scheduler knows the job by.
    """

    def __init__(self, folder: Path, scheduler: Scheduler, job_name: str) -> None:
        self.path = folder
        self._scheduler = scheduler
        self._job_name = job_name
        self._state = folder / STATE
        self._run = TimedRun(folder)

    def situation(self, ask: Ask | None = None) -> Situation:
        """What has become of the job, by its own marker and by the scheduler's word, which ``ask`` may have already."""
        job_id = known_job(self._state)
        skipped = read_text(self._state / SKIPPED)
        if skipped and not claimed_by(self._state):
            return self._situation(job_id, JobState.CANCELLED, None, explanation=skipped)
        if not job_id:
            return Situation()
        finished = noted_code(self._state)
        if finished == 0:  # nobody has more to say
            return self._judge(job_id, finished, None)
        try:
            record = _own(ask(job_id) if ask else self._scheduler.status(self._run, job_id), self._job_name, self.path)
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
        finished = noted_code(self._state) if finished is None else finished
        if finished is None and is_noted and record and (record.state, record.exit_code) == (JobState.COMPLETED, 0):
            finished = 0  # it came to its end, and the scheduler knows which
        end = self._known_end(job_id) if record is None else None
        if end and end.state != JobState.LOST and (finished is None or end.state != JobState.FAILED):
            return end  # which the scheduler has forgotten
        situation = self._judge(job_id, finished, record)
        note_end(self._state, situation)
        return situation

    def lost(self, job_id: str, ask: Ask) -> Situation:
        """How a job is whose note went with the deployment's folder; one that has ended since has left nothing."""
        try:
            record = _own(ask(job_id), self._job_name, self.path)
        except SchedulerSilent as error:
            return self._situation(job_id, UNKNOWN, None, explanation=f"the scheduler does not answer: {error}")
        state = record.state if record and not record.state.is_final else JobState.LOST
        return self._situation(job_id, state, record, explanation=_FOLDER_WENT)

    def _known_end(self, job_id: str) -> Situation | None:
        return known_end(self._state, self._situation(job_id, JobState.LOST, None))

    def _judge(self, job_id: str, finished: int | None, record: JobRecord | None) -> Situation:
        if finished == 0:
            return self._situation(job_id, JobState.COMPLETED, record, exit_code=0)
        if record and not record.state.is_final:
            state = _living_state(self._state, finished, record)
            waits_for = f": {record.obstacle}" if record.obstacle else ""
            words = _explained(self._state, state, record.reason + waits_for)
            if record.down and state is JobState.RUNNING:
                title = self._scheduler.title
                words = f"{title} says {record.down} is down; whether the job still runs is known when it is back"
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
        by_signal = ""
        with suppress(ValueError):
            by_signal = f" ({Signals(finished - 128).name})"  # as shells have it
        words = f"the training ended with exit code {finished}{by_signal}"
        return self._judge_end(job_id, state, record, finished, words)

    def _judge_silence(self, job_id: str, record: JobRecord | None) -> Situation:
        """No marker, and the scheduler says success or nothing at all."""
        if by := read_text(self._state / CANCELLED):
            return self._situation(job_id, JobState.CANCELLED, record, explanation=f"by {by}")
        if missed_for(self._state) < GRACE:
            return self._situation(job_id, JobState.ENDING, record, explanation="waiting for the job's own marker")
        is_known = record is not None and record.exit_code == 0 and self._scheduler.knows_success
        if is_known and claimed_by(self._state) and not (self._state / "requeued").exists():
            # it had not even the room to say so
            return self._situation(job_id, JobState.COMPLETED, record, exit_code=0)
        if (self._state / FOLDER_LOST).exists():
            words = _FOLDER_WENT
        elif claimed_by(self._state):
            words = "the job began and disappeared without a trace: its node may have died, or it was killed"
            if self._scheduler.brings_output and not (self.path / "scheduler.log").exists():
                words += f"; {self._scheduler.title} has not delivered its output (scheduler.log)"
        else:
            words = "the scheduler no longer knows the job, and it never began: it may have been deleted"
        return self._judge_end(job_id, JobState.LOST, record, words=words)

    def _explain(self, state: JobState, record: JobRecord | None) -> str:
        limit = record.limit if record else ""
        words = {
            JobState.TIMEOUT: LIMITS.get(limit, LIMITS["walltime"]),
            JobState.OUT_OF_MEMORY: LIMITS["mem"],
            JobState.CANCELLED: f"by {by}" if (by := read_text(self._state / CANCELLED)) else self._cancelled_for(),
            JobState.NODE_FAIL: "its node failed",
            JobState.PREEMPTED: "it was preempted for another job",
            JobState.BOOT_FAIL: "its node did not start it",
            JobState.FAILED: "it failed before it could record its own end",
        }.get(state, "")
        reason = record.reason if record and record.reason not in ("", "NonZeroExitCode") else ""
        return ", ".join(part for part in (words, reason) if part)

    def _cancelled_for(self) -> str:
        """Why the scheduler calls a job cancelled, of which nobody has noted that."""
        before = read_json(self._state / WAITS) or {}
        has_failed = any(noted_code(self.path.parent / name / STATE) for name in before)
        return (
            "a job that it depends on has failed" if has_failed and not claimed_by(self._state) else "it was cancelled"
        )

    def _situation(
        self, job_id: str, state: JobState | str, record: JobRecord | None, exit_code: int | None = None,
        explanation: str = "", kill: Kill | None = None,
    ) -> Situation:  # fmt: skip
        started, node = noted_start(self._state)
        is_over = isinstance(state, JobState) and state.is_final
        has_failed = is_over and state is not JobState.COMPLETED
        rank = failed_rank(self._state) if has_failed and state not in _ENDED_FROM_OUTSIDE else None
        if rank:
            explanation += f"; {rank.words}" if explanation else rank.words
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
            run=max(1, _run_of(self._state)),
            explanation=explanation,
            held_by=record.held_by if record else "",
            down=record.down if record else "",
            error_tail=self._error_tail(rank) if has_failed else [],
        )

    def _end(self, started: float | None, record: JobRecord | None, kill: Kill | None) -> float | None:
        """When a job ended that did not note its end itself; None where it never began."""
        if started is None:
            return None
        durations = [source.elapsed for source in (record, kill) if source and source.elapsed is not None]
        return started + durations[0] if durations else max(started, last_sign(self.path) or started)

    def _error_tail(self, rank: FailedRank | None) -> list[str]:
        """The last lines of what the job wrote about its failure; of its output where it wrote nothing there."""
        folders = [self.path / RANKS / str(rank.number)] if rank and rank.number else []
        for folder in (*folders, self.path):
            lines = [line for name in ("error.log", "scheduler.log") for line in tail(folder / name, 15)]
            if all(line.startswith(RUNTIMES_OWN) for line in lines):
                lines = tail(folder / "output.log", 15) or lines
            if lines:
                return lines
        return []


# --- the runs of a job that its scheduler starts anew after it was stopped, by what the job notes of them


def _run_of(state: Path) -> int:
    """How often a job that may be queued again has begun, by the folder of its markers; 0 where nobody counts."""
    return len(read_text(state / "runs").splitlines())


def _living_state(state: Path, finished: int | None, record: JobRecord) -> JobState:
    """The state of a job that the scheduler has, and that may have noted its end, or that it is to run again.

    Args:
        state: the folder of its markers.
        finished: the exit code that it noted.
    """
    if record.state in PENDING:
        ended = changed_at(state / "finished")
        if finished is not None and ended is not None and clock_of(state) - ended > _FRESH:
            # the scheduler runs it again: what its earlier life noted no longer counts
            for name in _OF_A_RUN:
                (state / name).unlink(missing_ok=True)
        return record.state
    if (state / "requeued").exists():
        return JobState.QUEUED
    return record.state if finished is None else JobState.ENDING


def _own(record: JobRecord | None, name: str, folder: Path) -> JobRecord | None:
    """The scheduler's word of a deployment's job; None where it is of a stranger's, as where ids have begun anew.

    Args:
        folder: the deployment's; the task of an array was submitted from a folder beside it.
    """
    if record is None or not (record.name and record.folder) or record.name == name:
        return record
    place = Path(record.folder).name
    return record if place == folder.name or place.startswith(".array-") else None


def _explained(state: Path, living: JobState, reason: str) -> str:
    """Which of a job's runs comes next or goes on, where there are several, and the scheduler's reason."""
    run = _run_of(state)
    words = f"queued again for run {run + 1}" if living in PENDING and run else f"run {run}" if run > 1 else ""
    lost = _FOLDER_WENT if (state / FOLDER_LOST).exists() else ""
    return ", ".join(part for part in (words, reason, lost) if part)
