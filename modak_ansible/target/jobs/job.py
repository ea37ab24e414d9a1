"""A deployment's job on the target: staged, submitted exactly once, kept from beginning, set aside, removed."""

from __future__ import annotations

import shutil
import time
from contextlib import suppress
from typing import cast

from ...errors import ModakError, SchedulerAway
from ...schedulers.base import NO_WAITS, JobState, SchedulerSilent, SubmissionRefused, SubmissionUncertain, Waits
from ...schedulers.registry import SCHEDULERS
from ..core.commands import TimedRun
from ..core.files import Lock, make_private, read_json, read_text, write_json, write_whole
from ..core.plan import Plan
from ..core.staging import PLAN, SCRIPT, STATE, Files, is_staged, stage
from ..core.workspace import Workspace
from .attempts import earlier_jobs, remember_jobs, set_aside
from .intent import Intents, refusal_error, unreached, withdraw_intent, write_intent
from .judgement import CANCELLED, FOLDER_LOST, SKIPPED, WAITS, Ask, Judgement
from .markers import claimed_by, known_job, noted_code, submitted_job
from .situation import UNKNOWN, Situation

# How long a job that is cancelled may take to leave the queue.
_LEAVE = 30.0
# How long a process whose job has left the queue, such as a container that is being stopped, may still write.
_LAST_WRITES = 15.0


class Deployment:
    """A deployment's folder and its job.

    Args:
        workspace: where the deployments lie.
        name: the deployment's name, unique to its plan.
        scheduler: slurm, torque, pbspro, lsf, kubernetes or none.
        job_name: what the scheduler knows the job by, unique to the plan too; the deployment's name where it is empty.
    """

    def __init__(self, workspace: Workspace, name: str, scheduler: str, job_name: str = "") -> None:
        self._workspace = workspace
        self.scheduler = SCHEDULERS[scheduler]
        self._job_name = job_name or name
        self.path = workspace.deployments / name
        self.state = self.path / STATE
        self.lock = Lock(workspace.deployments / f".{name}.lock")  # held by whoever submits the job
        self.run = TimedRun(self.path)
        self._judgement = Judgement(self.path, self.scheduler, self._job_name)

    # --- what is there

    def is_staged(self, plan: Plan) -> bool:
        """Whether the script and all of the user's files are there as the plan has them."""
        return is_staged(self.path, plan)

    def is_staged_as(self, digest: str) -> bool:
        plan = cast(Plan, read_json(self.path / PLAN) or {})
        return plan.get("digest") == digest and self.is_staged(plan)

    def stage(self, plan: Plan, files: Files) -> None:
        """Brings the deployment's folder into being in one step, with the user's files.

        Raises:
            ModakError: a file is not what the plan says, or there is no room.
        """
        self._workspace.create()
        stage(self.path, plan, files, self.lock)

    def job_id(self) -> str:
        """The id of the job that was submitted; empty before that."""
        return submitted_job(self.state)

    def known_job(self) -> str:
        """The id of the job, as its submitter or the job itself has noted it; empty before that."""
        return known_job(self.state)

    def began(self) -> bool:
        return bool(claimed_by(self.state))

    def finished(self) -> int | None:
        """The exit code that the job has noted at its end; None before that."""
        return noted_code(self.state)

    def is_skipped(self) -> bool:
        return bool(read_text(self.state / SKIPPED))

    def waited(self) -> dict[str, str]:
        """The ids of the jobs that this one was submitted to run after, by their deployments."""
        return read_json(self.state / WAITS) or {}

    def situation(self, ask: Ask | None = None) -> Situation:
        """What has become of the job, by its own marker and by the scheduler's word, which ``ask`` may have already."""
        return self._judgement.situation(ask)

    # --- submission

    def submit(self, waits: Waits = NO_WAITS, waited: dict[str, str] | None = None) -> tuple[str, bool]:
        """Submits the job unless that was done, to begin after others, and gives its id and whether it was done now.

        What is killed between the scheduler's taking the job and our noting its id leaves an intent behind; with
        one, the job is looked for before another is submitted. Should two be submitted all the same, the scripts
        settle by their claim which one trains.

        Args:
            waited: the ids of those that have to complete before, by their deployments.

        Raises:
            ModakError: the scheduler refuses the job, or does not answer.
        """
        self.note_waits(waited or {})
        with self.lock:
            earlier = self.submitted()
            if earlier:
                return earlier, False
            write_intent(self.state, self._job_name)
            # a killed module must not give the lock away while sbatch or qsub are at work
            run = TimedRun(self.path, timeout=120, keep_locks=self.scheduler.name != "none")
            try:
                job_id = self.scheduler.submit(run, SCRIPT, self._job_name, waits)
            except SubmissionRefused as error:
                withdraw_intent(self.state)
                raise refusal_error(self.scheduler, error) from error
            except SchedulerSilent as error:
                withdraw_intent(self.state)
                raise unreached(self.scheduler, error) from error
            except SubmissionUncertain as error:
                hint = "deploy again: modak looks for the job before it submits another one"
                raise SchedulerAway(f"it is not known whether the job was submitted: {error}", hint=hint) from error
            self.record(job_id)
            return job_id, True

    def note_waits(self, waited: dict[str, str]) -> None:
        """Notes the ids of those that have to complete before, by their deployments."""
        if waited and not self.job_id():
            self.state.mkdir(exist_ok=True)  # it went with an earlier attempt
            write_json(self.state / WAITS, waited)

    def was_submitted(self) -> bool:
        """Whether somebody has begun to submit the job, also where nobody can read any more which one it is."""
        return any((self.state / name).exists() for name in ("intent.json", "submitted.json"))

    def submitted(self, intents: Intents | None = None) -> str:
        """The id of the job that was submitted, which is noted; empty before that. To be asked under the lock.

        Raises:
            ModakError: the scheduler does not answer.
        """
        if not self.state.exists():
            return ""
        job_id = self.known_job() or self._find_unrecorded(intents) or ""
        if job_id:
            self.record(job_id)
        return job_id

    def _find_unrecorded(self, intents: Intents | None) -> str | None:
        """The id of a job that was submitted, and whose submitter did not live to note it."""
        if not self.was_submitted():
            return None
        try:
            job_ids = (intents or Intents(self.scheduler, self.run)).jobs(self.path, self._job_name)
        except SchedulerSilent as error:
            hint = "an earlier submission was cut short; deploy again when the scheduler answers"
            raise SchedulerAway(f"it is not known whether the job was submitted: {error}", hint=hint) from error
        before = earlier_jobs(self.path)
        return next((job_id for job_id in job_ids if job_id not in before), None)

    def record(self, job_id: str) -> None:
        if self.job_id() != job_id:
            write_json(self.state / "submitted.json", {"job_id": job_id, "time": time.time()})

    def has_lost(self, job_id: str) -> bool:
        """Whether nothing here tells of a job that was the deployment's, and was not set aside, given up or removed."""
        return not (self.was_submitted() or self.began()) and job_id not in earlier_jobs(self.path)

    def lost(self, job_id: str, ask: Ask) -> Situation:
        """How such a job is."""
        return self._judgement.lost(job_id, ask)

    def restore(self, job_id: str) -> None:
        """Notes such a job anew."""
        with self.lock:
            if self.has_lost(job_id):
                make_private(self.state)
                (self.state / FOLDER_LOST).touch()
                self.record(job_id)

    def array_script(self) -> str:
        """The script of an array that the job may be a task of; empty where it cannot be one."""
        return self.scheduler.array_script(read_text(self.path / SCRIPT))

    # --- a job that is not to begin, and another in its place

    def skip(self, words: str) -> bool:
        """Has a job that has not begun never begin, for a reason; False for one that has.

        Raises:
            ModakError: the scheduler does not answer.
        """
        with self.lock:
            if not self.state.exists() or self.began():
                return False
            self._leave_queue()
            (self.state / SKIPPED).write_text(words + "\n", encoding="utf-8")
            return True

    def start_over(self) -> None:
        """Forgets a job that has not begun, so that another can be submitted in its place; a living one is cancelled.

        Raises:
            ModakError: the scheduler does not answer, or the job does not leave the queue.
        """
        with self.lock:
            if self.began():
                return
            self._leave_queue()
            if not self.wait_for_end(_LEAVE):
                raise ModakError(f"job {self.job_id()} was cancelled but has not left the queue", hint="deploy again")
            if self.began():
                return
            with (self.state / "forgotten").open("a", encoding="utf-8") as file:
                file.write(f"{self.job_id()}\n")
            for name in ("submitted.json", "intent.json", CANCELLED, "missed", SKIPPED, FOLDER_LOST, WAITS):
                if (self.state / name).exists():
                    (self.state / name).unlink()

    def _leave_queue(self) -> None:
        job_id = self.job_id()
        if not job_id:
            return
        try:
            if self._lives(job_id):
                self._cancel(job_id)
        except SchedulerSilent as error:
            hint = "deploy again when it answers"
            raise SchedulerAway(f"job {job_id} could not be removed from the queue: {error}", hint=hint) from error

    def _lives(self, job_id: str) -> bool:
        record = self.scheduler.status(self.run, job_id)
        return record is not None and not record.state.is_final

    def _cancel(self, job_id: str) -> None:
        """Cancels a job; that it ended meanwhile, which some commands call a failure, is as good."""
        try:
            self.scheduler.cancel(self.run, job_id)
        except SchedulerSilent:
            if self._lives(job_id):
                raise

    def wait_for_end(self, seconds: float) -> bool:
        """Whether the job has left the scheduler within some seconds; False, too, where it does not answer."""
        deadline = time.monotonic() + seconds
        job_id = self.job_id()
        while job_id:
            with suppress(SchedulerSilent):
                if not self._lives(job_id):
                    return True
            if time.monotonic() > deadline:
                return False
            time.sleep(0.5)
        return True

    def set_aside(self, ended: str) -> int | None:
        """Makes room for another attempt of a job that has ended without success.

        Args:
            ended: the id of the job that the caller saw ended: whoever was quicker has made room already.

        Returns:
            The number under which the attempt is kept; None where there was nothing to do.

        Raises:
            ModakError: the scheduler does not answer.
        """
        with self.lock:
            situation = self.situation()
            if situation.job_id != ended or not situation.is_final or situation.state == JobState.COMPLETED:
                return None
            try:
                job_ids = self.scheduler.find(self.run, self._job_name, str(self.path.resolve()))
            except SchedulerSilent as error:
                message = f"it is not known which jobs there were, because the scheduler does not answer: {error}"
                raise SchedulerAway(message, hint="resume when the scheduler answers") from error
            return set_aside(self.path, {ended, *job_ids, *filter(None, [claimed_by(self.state)])})

    # --- the end

    def begin_to_cancel(self) -> str:
        """Notes that modak cancels the job, and gives its id; empty where there is none that lives.

        Raises:
            ModakError: the scheduler does not answer.
        """
        with self.lock:
            job_id = self.submitted()
            if job_id:
                write_whole(self.state / CANCELLED, "modak\n")
            return job_id

    def was_not_cancelled(self) -> None:
        """Notes that the scheduler did not hear of it."""
        (self.state / CANCELLED).unlink(missing_ok=True)

    def not_ended(self, message: str, hint: str) -> ModakError:
        """What is said of a job that was to be cancelled, and lives on; on a dead node, only an operator can end it."""
        situation = self.situation()
        if not situation.down:
            return SchedulerAway(message, hint=hint) if situation.state == UNKNOWN else ModakError(message, hint=hint)
        command = self.scheduler.removal_by_operator(situation.job_id)
        by_operator = f", or an operator runs {command}" if command else ""
        message = f"{message}; {situation.down} is down"
        return ModakError(message, hint=f"it will end when the node is back{by_operator}")

    def remove(self) -> bool:
        """Removes the deployment's folder; tells whether there was one."""
        existed = self.path.exists()
        remember_jobs(self.path)
        give_up = time.monotonic() + _LAST_WRITES
        while True:
            shutil.rmtree(self.path, ignore_errors=True)
            if not self.path.exists():
                return existed
            if time.monotonic() > give_up:
                raise ModakError(f"{self.path} could not be removed", hint="remove it by hand")
            time.sleep(0.5)
