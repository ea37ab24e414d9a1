"""The jobs of several deployments of a target: staged, submitted, asked for and removed together."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import time
from typing import Any, Callable, Iterable

from ..errors import ModakError
from ..schedulers import SCHEDULERS
from ..schedulers.base import JobRecord, JobState, SchedulerSilent, Waits
from .commands import TimedRun
from .files import read_json, read_text, write_json
from .job import GRACE, Deployment
from .situation import Situation
from .staging import PLAN
from .uses import Uses, paths_of
from .workspace import Workspace

# What the controller sends: the plans in one file, and each different set of files in an archive.
PLANS = "plans.json.gz"
INCOMING = ".incoming-"
_FORGOTTEN_AFTER = 24 * 3600
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
            for name in ("submitted.json", "intent.json", "cancelled", "missed", "skipped", _WAITS):
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
            raise ModakError(f"job {job_id} could not be taken out of the queue: {error}", hint=hint) from error

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


class Campaign:
    """Some deployments of a workspace.

    Args:
        workspace: where they lie.
        scheduler: slurm, torque or none.
    """

    def __init__(self, workspace: Workspace, scheduler: str) -> None:
        self._workspace = workspace
        self._scheduler = SCHEDULERS[scheduler]

    def _member(self, name: str, job_name: str = "") -> Member:
        return Member(self._workspace, name, self._scheduler.name, job_name or name)

    def look(self, wanted: Iterable[dict[str, Any]]) -> dict[str, Any]:
        """What is known of deployments, by their names; the scheduler is asked for all of them at once.

        Args:
            wanted: with the ``deployment``, and the ``digest`` of its plan where one may be staged.

        Returns:
            ``situation``, ``staged``, ``began``, ``skipped``, and the ids that it ``waited`` for.
        """
        digests = {each["deployment"]: each.get("digest", "") for each in wanted}
        found = {}
        for name, situation in self.situations(digests).items():
            member = self._member(name)
            found[name] = {
                "situation": situation.as_dict(),
                "staged": bool(situation.job_id) or member.is_staged_as(digests[name]),
                "began": member.began(),
                "skipped": member.is_skipped(),
                "waited": member.waited(),
            }
        return found

    def situations(self, names: Iterable[str]) -> dict[str, Situation]:
        """How the jobs of deployments are; one that noted its success needs no word of the scheduler's."""
        members = {name: self._member(name) for name in names}
        jobs = [each.known_job() for each in members.values() if each.finished() != 0]
        ask = self._ask([each for each in jobs if each])
        return {name: member.situation(ask) for name, member in members.items()}

    def _ask(self, job_ids: list[str]) -> Callable[[str], JobRecord | None]:
        """What the scheduler says of some jobs, asked for all of them."""
        try:
            records = self._scheduler.statuses(TimedRun(), job_ids)
        except SchedulerSilent as error:
            silence = error

            def silent(_: str) -> JobRecord | None:
                raise SchedulerSilent(str(silence))

            return silent
        return records.get

    # --- staging

    def stage(self, incoming: str) -> list[str]:
        """Brings deployments into being out of a folder of plans and archives, which is removed.

        Args:
            incoming: the folder's name, below that of the deployments.

        Raises:
            ModakError: a file is not what its plan says, or there is no room.
        """
        folder = self._workspace.deployments / incoming
        try:
            plans = json.loads(gzip.decompress((folder / PLANS).read_bytes()).decode())
            archives: dict[str, bytes] = {}
            used: set[str] = set()
            for each in plans:
                name = each["archive"]
                if name not in archives:
                    archives[name] = (folder / name).read_bytes()
                self._member(each["deployment"]).stage(each["plan"], archives[name])
                used.update(paths_of(each["plan"]))
            Uses(self._workspace).mark(used)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            self._remove_forgotten()
        return [each["deployment"] for each in plans]

    def _remove_forgotten(self) -> None:
        """What a controller sent that was killed before it was taken up."""
        for folder in self._workspace.deployments.glob(f"{INCOMING}*"):
            if time.time() - os.stat(folder).st_mtime > _FORGOTTEN_AFTER:
                shutil.rmtree(folder, ignore_errors=True)

    # --- submission

    def submit(self, wanted: Iterable[dict[str, Any]]) -> dict[str, Any]:
        """Submits jobs in turn, each at most once, up to the first that is refused.

        Args:
            wanted: each with ``deployment``, ``job_name``, ``after`` (deployments that have to complete before),
                ``behind`` (those that have to end before) and ``again`` (whether what was submitted is void).

        Returns:
            ``jobs``: for each that was submitted ``job_id``, and ``submitted``, whether it was now; ``refused``:
            ``deployment``, ``message`` and ``hint`` of the one that was not, or None.
        """
        jobs: dict[str, Any] = {}
        for each in wanted:
            name = each["deployment"]
            member = self._member(name, each["job_name"])
            try:
                if each["again"]:
                    member.start_over()
                job_id, submitted = self._submit(member, each)
            except ModakError as error:
                return {"jobs": jobs, "refused": {"deployment": name, "message": error.message, "hint": error.hint}}
            jobs[name] = {"job_id": job_id, "submitted": submitted}
        return {"jobs": jobs, "refused": None}

    def _submit(self, member: Member, wanted: dict[str, Any]) -> tuple[str, bool]:
        after, behind = self._ids(wanted["after"]), self._ids(wanted["behind"])
        member.note_waits(after)
        waits = Waits(tuple(after.values()), tuple(behind.values()))
        try:
            return member.submit(waits)
        except ModakError:
            # a scheduler may forget a job the moment that it ends, and then refuses to wait for it
            situations = self._settled({**after, **behind})
            living = Waits(_living(after, situations, has_to_complete=True), _living(behind, situations))
            if living == waits:
                raise
            return member.submit(living)

    def _settled(self, names: Iterable[str]) -> dict[str, Situation]:
        """How jobs are when none of them is just about to be judged, or when that has taken too long."""
        deadline = time.monotonic() + GRACE + 1
        while True:
            situations = self.situations(names)
            ending = any(each.state == JobState.ENDING for each in situations.values())
            if not ending or time.monotonic() > deadline:
                return situations
            time.sleep(0.5)

    def _ids(self, names: list[str]) -> dict[str, str]:
        """The ids of the jobs of deployments, but of those that have noted their success."""
        members = {name: self._member(name) for name in names}
        found = {name: each.known_job() for name, each in members.items() if each.finished() != 0}
        for name, job_id in found.items():
            if not job_id:
                raise ModakError(f"{name}, which comes before, was not submitted", hint="deploy it before")
        return found

    # --- watching

    def watch(self, seen: dict[str, str], seconds: float) -> dict[str, Any]:
        """The situations of the jobs whose states are others than those that the caller has seen.

        Waits for the first change, at most for some seconds. The jobs' own markers are looked at often, the scheduler
        is asked less and less often, for all jobs at once.
        """
        deadline, pause = time.monotonic() + seconds, 1.0
        ask_at, ended = 0.0, self._ended(seen)
        while True:
            now_ended = self._ended(seen)
            if time.monotonic() >= ask_at or now_ended != ended:
                situations, ended = self.situations(seen), now_ended
                news = {name: each.as_dict() for name, each in situations.items() if each.state != seen[name]}
                if news:
                    return news
                ask_at, pause = time.monotonic() + pause, min(pause * 1.5, 15.0)
            if time.monotonic() >= deadline:
                return {}
            time.sleep(max(0.25, len(seen) / 500))

    def _ended(self, names: Iterable[str]) -> set[str]:
        return {name for name in names if self._member(name).finished() is not None}

    # --- the end

    def skip(self, reasons: dict[str, str]) -> dict[str, bool]:
        """Has the jobs of deployments never begin, each for a reason; tells of which that is so."""
        return {name: self._member(name).skip(words) for name, words in reasons.items()}

    def remove(self, names: Iterable[str], seconds: float = 60.0) -> dict[str, Any]:
        """Cancels the jobs that live, and removes the deployments; the first submitted is cancelled last.

        Raises:
            ModakError: the scheduler does not answer, or a job does not end.
        """
        members = {name: self._member(name) for name in names}
        over = {name for name, each in self.situations(members).items() if each.job_id and each.is_final}
        cancelled = [name for name in reversed(list(members)) if name not in over and members[name].cancel()]
        deadline, living = time.monotonic() + seconds, set(cancelled)
        while living := {name for name, each in self.situations(living).items() if not each.is_final}:
            if time.monotonic() > deadline:
                job_id = members[min(living)].job_id()
                words = f"job {job_id} was cancelled and has not ended within {seconds:.0f} s"
                raise ModakError(words, hint="undeploy again later")
            time.sleep(0.5)
        removed = [name for name, each in members.items() if each.remove()]
        for name in members:
            Uses(self._workspace).forget(name)
        return {"cancelled": cancelled, "removed": removed}


def _living(
    jobs: dict[str, str], situations: dict[str, Situation], *, has_to_complete: bool = False
) -> tuple[str, ...]:
    """The ids of those jobs that have not ended.

    Raises:
        ModakError: one has failed that has to complete.
    """
    ended = [name for name in jobs if situations[name].is_final]
    failed = [name for name in ended if situations[name].state != JobState.COMPLETED]
    if failed and has_to_complete:
        raise ModakError(f"{failed[0]}, which comes before, has failed", hint="undeploy it and deploy again")
    return tuple(job_id for name, job_id in jobs.items() if name not in ended)
