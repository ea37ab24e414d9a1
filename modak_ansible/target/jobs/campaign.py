"""The jobs of several deployments of a target: staged, submitted, asked for and removed together."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import time
from typing import Any, Callable, Iterable, TypeVar

from ...errors import ModakError
from ...schedulers import SCHEDULERS
from ...schedulers.base import (
    AccountingSilent,
    JobRecord,
    JobState,
    SchedulerSilent,
    SubmissionRefused,
    Waits,
    has_no_room,
)
from ..core.commands import TimedRun
from ..core.workspace import Workspace
from ..garbage.uses import Uses, paths_of
from .arrays import Arrays, remove_arrays
from .intent import refused
from .job import GRACE, LEAVE
from .member import Member
from .situation import Situation

# What the controller sends: the plans in one file, and each different set of files in an archive.
PLANS = "plans.json.gz"
INCOMING = ".incoming-"
_FORGOTTEN_AFTER = 24 * 3600

_Done = TypeVar("_Done")


class Campaign:
    """Some deployments of a workspace.

    Args:
        workspace: where they lie.
        scheduler: slurm, torque or none.
    """

    def __init__(self, workspace: Workspace, scheduler: str) -> None:
        self._workspace = workspace
        self._scheduler = SCHEDULERS[scheduler]
        self._arrays = Arrays(workspace, scheduler)

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
        jobs = [member.known_job() for member in members.values() if member.finished() != 0]
        ask = self._ask([job for job in jobs if job])
        return {name: member.situation(ask) for name, member in members.items()}

    def _ask(self, job_ids: list[str]) -> Callable[[str], JobRecord | None]:
        """What the scheduler says of some jobs, asked for all of them."""
        try:
            records = self._scheduler.statuses(TimedRun(), job_ids)
        except SchedulerSilent as error:
            silence, known = error, error.known if isinstance(error, AccountingSilent) else {}

            def partly_silent(job_id: str) -> JobRecord | None:
                if job_id not in known:
                    raise silence
                return known[job_id]

            return partly_silent
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
            for plan in plans:
                name = plan["archive"]
                if name not in archives:
                    archives[name] = (folder / name).read_bytes()
                self._member(plan["deployment"]).stage(plan["plan"], archives[name])
                used.update(paths_of(plan["plan"]))
            Uses(self._workspace).mark(used)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            self._remove_forgotten()
        return [plan["deployment"] for plan in plans]

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
                ``behind`` (those that have to end before) and ``again`` (whether what was submitted is void); and
                where it may be submitted with the others of its ``node`` that come after the same: ``array``
                (its name), ``parallel`` (how many of it may run at once, or None) and ``barrier`` (what has to end
                before it).

        Returns:
            ``jobs``: for each that was submitted ``job_id``, and ``submitted``, whether it was now; ``refused``:
            ``deployment``, ``message`` and ``hint`` of the one that was not, or None.
        """
        jobs: dict[str, Any] = {}
        for together in _together(wanted):
            try:
                for each in together:
                    if each["again"]:
                        self._member(each["deployment"]).start_over()
                rest = self._submit_arrays(together, jobs) if len(together) > 1 else together
            except ModakError as error:
                return {"jobs": jobs, "refused": _refusal(together[0], error)}
            for each in rest:
                member = self._member(each["deployment"], each["job_name"])
                try:
                    job_id, submitted = self._behind(each["after"], each["behind"], member.submit_behind)
                except ModakError as error:
                    return {"jobs": jobs, "refused": _refusal(each, error)}
                jobs[each["deployment"]] = {"job_id": job_id, "submitted": submitted}
        return {"jobs": jobs, "refused": None}

    def _submit_arrays(self, wanted: list[dict[str, Any]], jobs: dict[str, Any]) -> list[dict[str, Any]]:
        """Submits jobs as arrays, as far as they can be, and notes them; gives those that are to be submitted alone."""
        scripts: dict[str, list[dict[str, Any]]] = {}
        for each in wanted:
            scripts.setdefault(self._member(each["deployment"]).array_script(), []).append(each)
        alone = scripts.pop("", [])
        size = self._arrays.limit() if scripts else 0
        for script, alike in scripts.items():
            alone += self._submit_alike(alike, script, size, jobs)
        return alone

    def _submit_alike(
        self, wanted: list[dict[str, Any]], script: str, size: int, jobs: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """Submits as many arrays as it takes; where there is no room for one, smaller ones, or none."""
        rest, barrier, parallel = wanted, wanted[0]["barrier"], wanted[0]["parallel"]
        while size > 1 and len(rest) > 1:
            part = rest[:size]
            try:
                done = self._submit_array(part, script, barrier)
            except SubmissionRefused as refusal:
                if not has_no_room(str(refusal)):
                    raise refused(self._scheduler, refusal) from refusal
                size = 0 if parallel else len(part) // 2  # those with a limit wait for each other's ends one by one
                continue
            jobs.update({name: {"job_id": each[0], "submitted": each[1]} for name, each in done.items()})
            rest = rest[size:]
            barrier = list(done) if parallel else []
        return [{**each, "behind": [*each["behind"], *barrier]} for each in rest]

    def _submit_array(
        self, wanted: list[dict[str, Any]], script: str, barrier: list[str]
    ) -> dict[str, tuple[str, bool]]:
        first = wanted[0]
        members = [self._member(each["deployment"], each["job_name"]) for each in wanted]

        def submit(waits: Waits, waited: dict[str, str]) -> dict[str, tuple[str, bool]]:
            return self._arrays.submit(members, first["array"], script, first["parallel"], waits, waited)

        return self._behind(first["after"], barrier, submit)

    def _behind(self, names: list[str], ending: list[str], submit: Callable[[Waits, dict[str, str]], _Done]) -> _Done:
        """Submits something behind deployments that have to complete, and others that have to end."""
        after, behind = self._ids(names), self._ids(ending)
        waits = Waits(tuple(after.values()), tuple(behind.values()))
        try:
            return submit(waits, after)
        except (ModakError, SubmissionRefused):
            # a scheduler may forget a job the moment that it ends, and then refuses to wait for it
            situations = self._settled({**after, **behind})
            living = Waits(_living(after, situations, has_to_complete=True), _living(behind, situations))
            if living == waits:
                raise
            return submit(living, after)

    def _settled(self, names: Iterable[str]) -> dict[str, Situation]:
        """How jobs are when none of them is just about to be judged, or when that has taken too long."""
        deadline = time.monotonic() + GRACE + 1
        while True:
            situations = self.situations(names)
            ending = any(situation.state == JobState.ENDING for situation in situations.values())
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

    def watch(self, seen: dict[str, str], seconds: float, said: dict[str, str] | None = None) -> dict[str, Any]:
        """The situations of the jobs whose states are others than those that the caller has seen.

        Of one that runs, what is ``said`` may be news, too, such as that its node is down.

        Waits for the first change, at most for some seconds. The jobs' own markers are looked at often, the scheduler
        is asked less and less often, for all jobs at once.
        """
        deadline, pause = time.monotonic() + seconds, 1.0
        ask_at, ended, known = 0.0, self._ended(seen), said or {}
        while True:
            now_ended = self._ended(seen)
            if time.monotonic() >= ask_at or now_ended != ended:
                situations, ended = self.situations(seen), now_ended
                news = {
                    name: each.as_dict()
                    for name, each in situations.items()
                    if each.is_news(seen[name], known.get(name, ""))
                }
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

    def remove(self, names: Iterable[str], seconds: float = 60.0, *, leave: bool = False) -> dict[str, Any]:
        """Cancels the jobs that live, and removes the deployments; the first submitted is cancelled last.

        Args:
            names: of the deployments.
            seconds: how long cancelled jobs may take to end.
            leave: whether jobs that cannot be ended are left alone.

        Returns:
            ``cancelled``, ``removed``, and why jobs were ``left`` alone, by deployment.

        Raises:
            ModakError: the scheduler does not answer, or a job does not end, and is not to be left alone.
        """
        members = {name: self._member(name) for name in names}
        over = {name for name, each in self.situations(members).items() if each.job_id and each.is_final}
        left: dict[str, str] = {}
        try:
            cancelled = self.cancel([members[name] for name in reversed(members) if name not in over])
            left = self._left(cancelled, seconds)
        except ModakError as error:
            if not leave:
                error.hint = "; ".join(filter(None, (error.hint, LEAVE)))
                raise
            living = {name for name, each in self.situations(members).items() if each.job_id and not each.is_final}
            cancelled, left = [], dict.fromkeys(living, error.message)
        if left and not leave:
            name = min(left)
            problem = members[name].not_ended(left[name], "undeploy again later")
            problem.hint = f"{problem.hint}; {LEAVE}"
            raise problem
        removed = [name for name, each in members.items() if each.remove()]
        remove_arrays(self._workspace.deployments)
        for name in members:
            Uses(self._workspace).forget(name)
        return {"cancelled": [name for name in cancelled if name not in left], "removed": removed, "left": left}

    def _left(self, cancelled: Iterable[str], seconds: float) -> dict[str, str]:
        """Of jobs that were cancelled those that have not ended within some seconds, and what is said of each."""
        deadline, living = time.monotonic() + seconds, set(cancelled)
        while living := {name for name, each in self.situations(living).items() if not each.is_final}:
            if time.monotonic() > deadline:
                break
            time.sleep(0.5)
        words = f"was cancelled and has not ended within {seconds:.0f} s"
        return {name: f"job {self._member(name).job_id()} {words}" for name in living}

    def cancel(self, members: Iterable[Member]) -> list[str]:
        """Cancels the jobs of deployments, all together; tells of which.

        Raises:
            ModakError: the scheduler does not answer.
        """
        ids = {member: job_id for member in members if (job_id := member.begin_to_cancel())}
        try:
            if ids:
                self._scheduler.cancel(TimedRun(), *ids.values())
        except SchedulerSilent as error:
            for each in ids:
                each.was_not_cancelled()
            situations = self.situations(each.path.name for each in ids)
            first = next((each for each in ids if situations[each.path.name].down), next(iter(ids)))
            message = f"the jobs could not be cancelled: {error}"
            raise first.not_ended(message, "try again when it answers") from error
        return [each.path.name for each in ids]


def _together(wanted: Iterable[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Those that may be submitted as one array, in the place of the first of them; others by themselves."""
    groups: dict[Any, list[dict[str, Any]]] = {}
    for each in wanted:
        # the names of two sweeps may be the same to a scheduler
        of_sweep = (each.get("node"), each["array"], *each["after"]) if each.get("array") else ()
        key = of_sweep or each["deployment"]
        groups.setdefault(key, []).append(each)
    return list(groups.values())


def _refusal(wanted: dict[str, Any], error: ModakError) -> dict[str, Any]:
    return {
        "deployment": wanted["deployment"], "message": error.message, "hint": error.hint, "exit_code": error.exit_code
    }  # fmt: skip


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
