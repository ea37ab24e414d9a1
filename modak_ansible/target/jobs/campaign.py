"""The jobs of deployments of a target, of one or of many: staged, submitted, watched and removed together."""

from __future__ import annotations

import gzip
import json
import shutil
import time
from dataclasses import dataclass, field, replace
from typing import Callable, Iterable, Mapping, Sequence, TypeVar

from ...errors import ModakError
from ...schedulers.base import (
    AccountingSilent,
    JobRecord,
    JobState,
    SchedulerSilent,
    SubmissionRefused,
    Waits,
    has_no_room,
)
from ...schedulers.registry import SCHEDULERS
from ..core.commands import TimedRun
from ..core.files import changed_at, read_on
from ..core.staging import Files
from ..core.workspace import Workspace
from ..garbage.uses import Uses, paths_of
from .arrays import Arrays, remove_arrays
from .intent import refusal_error
from .job import Deployment
from .judgement import GRACE, Ask
from .situation import LIVING, Forecast, Situation, forecast

# What the controller sends: the plans in one file, and each different set of files in an archive.
PLANS = "plans.json.gz"
INCOMING = ".incoming-"
_FORGOTTEN_AFTER = 24 * 3600
# What undeploy offers where a job cannot be ended.
LEAVE = "modak undeploy --leave-job leaves the job to the scheduler"
# How long a job's output gathers before it is handed on, and a job that ran a moment ago is taken to run still.
_GATHER = 1.0
_TRUST = 5.0
# How long a scheduler may take for a forecast.
_BRIEF = 10.0

_Done = TypeVar("_Done")


@dataclass
class JobRequest:
    """A deployment of which something is wanted."""

    deployment: str  # its name
    job_name: str = ""  # what the scheduler knows its job by; the deployment's name where it is empty
    job_id: str = ""  # of its job as far as the caller knows it to live, to find it where the folder was removed
    digest: str = ""  # of its plan, where it may be staged
    ended: str = ""  # the id of the job that the caller saw ended, to set aside
    reason: str = ""  # why its job is not to run, to skip
    # state, explanation: of its job as the caller knows it, to watch
    state: str = ""
    explanation: str = ""
    # after, behind: deployments that have to complete, and to end, before it
    after: list[str] = field(default_factory=list)
    behind: list[str] = field(default_factory=list)
    again: bool = False  # whether what was submitted is void
    node: str = ""  # of the blueprint; those of one that come after the same may be submitted as an array
    array: str = ""  # the name of that; empty for a job of its own
    parallel: int | None = None  # how many of the array may run at once; None for as many as the target takes
    barrier: list[str] = field(default_factory=list)  # what has to end before the array


@dataclass
class DeploymentStatus:
    """What the target knows of a deployment."""

    situation: Situation = field(default_factory=Situation)  # of its job
    there: bool = False  # whether its folder is
    staged: bool = False  # whether its files are, or its job was submitted
    began: bool = False  # whether the job has ever started
    skipped: bool = False  # whether the job is void, since one before it failed
    # the ids that it was submitted to run after, by their deployments
    waited: dict[str, str] = field(default_factory=dict)

    @property
    def state(self) -> str:
        return self.situation.state


@dataclass
class Submitted:
    """Which jobs were submitted, by their deployments, and whether that was now."""

    jobs: dict[str, tuple[str, bool]] = field(default_factory=dict)  # the ids, and whether each was submitted now
    refused: tuple[str, ModakError] | None = None  # the first that was not, and why; None where all were


@dataclass
class News:
    """What has changed while jobs were watched."""

    situations: dict[str, Situation] = field(default_factory=dict)  # those that the caller does not know, by deployment
    output: str = ""  # what was added to the log of the one that is read, in whole lines
    offset: int = 0  # how many bytes of that are known now


@dataclass
class Removed:
    """What is gone."""

    cancelled: dict[str, str] = field(default_factory=dict)  # the ids of jobs that were, by deployment
    removed: list[str] = field(default_factory=list)  # the deployments whose folders are
    left: dict[str, str] = field(default_factory=dict)  # why jobs were left alone, by deployment


class Campaign:
    """Some deployments of a workspace, one or many.

    Args:
        workspace: where they lie.
        scheduler: slurm, torque, pbspro, lsf, kubernetes or none.
        job_names: what the scheduler knows their jobs by, by deployment, where that is not the deployment's name.
        job_ids: of jobs that live as far as the caller knows, by deployment.
    """

    def __init__(
        self,
        workspace: Workspace,
        scheduler: str,
        job_names: dict[str, str] | None = None,
        job_ids: dict[str, str] | None = None,
    ) -> None:
        self._workspace = workspace
        self._scheduler = SCHEDULERS[scheduler]
        self._arrays = Arrays(workspace, scheduler)
        self._job_names = job_names or {}
        self._job_ids = job_ids or {}

    def deployment(self, name: str) -> Deployment:
        return Deployment(self._workspace, name, self._scheduler.name, self._job_names.get(name, ""))

    def look(self, requests: Iterable[JobRequest]) -> dict[str, DeploymentStatus]:
        """What is known of deployments, by their names; the scheduler is asked for all of them at once."""
        digests = {request.deployment: request.digest for request in requests}
        deployments = {}
        for name, situation in self.situations(digests).items():
            deployment = self.deployment(name)
            deployments[name] = DeploymentStatus(
                situation,
                there=deployment.path.exists(),
                staged=bool(situation.job_id) or deployment.is_staged_as(digests[name]),
                began=deployment.began(),
                skipped=deployment.is_skipped(),
                waited=deployment.waited(),
            )
        return deployments

    def situations(self, names: Iterable[str]) -> dict[str, Situation]:
        """How the jobs of deployments are; one that noted its success needs no word of the scheduler's."""
        deployments = {name: self.deployment(name) for name in names}
        self.restore(deployments)
        jobs = [deployment.known_job() for deployment in deployments.values() if deployment.finished() != 0]
        ask = self.scheduler_records([job for job in jobs if job])
        return {name: deployment.situation(ask) for name, deployment in deployments.items()}

    def lost(self, names: Iterable[str]) -> dict[str, Situation]:
        """How jobs are that the caller knows to live, and whose notes went with their deployments' folders."""
        living = {name: (self.deployment(name), job_id) for name in names if (job_id := self._job_ids.get(name))}
        lost = {name: lost_job for name, lost_job in living.items() if lost_job[0].has_lost(lost_job[1])}
        if not lost:
            return {}
        ask = self.scheduler_records([job_id for _, job_id in lost.values()])
        return {name: deployment.lost(job_id, ask) for name, (deployment, job_id) in lost.items()}

    def restore(self, names: Iterable[str]) -> None:
        """Notes those of them anew that live: none is to run twice."""
        for name, situation in self.lost(names).items():
            if not situation.is_final:
                self.deployment(name).restore(situation.job_id)

    def scheduler_records(self, job_ids: list[str], *, placed: bool = False) -> Ask:
        """What the scheduler says of some jobs, asked for all of them; and their places in the queue."""
        try:
            records: Mapping[str, JobRecord] = self._scheduler.statuses(TimedRun(), job_ids)
        except SchedulerSilent as error:
            silence, known_records = error, error.known if isinstance(error, AccountingSilent) else {}

            def partly_silent(job_id: str) -> JobRecord | None:
                if job_id not in known_records:
                    raise silence
                return known_records[job_id]

            return partly_silent
        return (self._scheduler.placed(TimedRun(), records) if placed else records).get

    def forecast(self, directives: str) -> Forecast | None:
        """When a job with such directives would begin, were it submitted now; None where nobody says."""
        return forecast(self._scheduler.forecast(TimedRun(timeout=_BRIEF), directives))

    # --- staging

    def stage(self, incoming: str, requests: Sequence[JobRequest] = ()) -> list[str]:
        """Brings deployments into being out of a folder of plans and archives, which is removed.

        Args:
            incoming: the folder's name, below that of the deployments.
            requests: the deployments, by which it is known where that was done before, and only the answer was lost.

        Returns:
            The names of those that were staged now.

        Raises:
            ModakError: a file is not what its plan says, or there is no room.
        """
        folder = self._workspace.deployments / incoming
        if requests and not folder.exists() and all(deployment.staged for deployment in self.look(requests).values()):
            return []
        try:
            plans = json.loads(gzip.decompress((folder / PLANS).read_bytes()).decode())
            archives: dict[str, Files] = {}
            used_paths: set[str] = set()
            for plan in plans:
                name = plan["archive"]
                if name not in archives:
                    archives[name] = Files((folder / name).read_bytes())
                self.deployment(plan["deployment"]).stage(plan["plan"], archives[name])
                used_paths.update(paths_of(plan["plan"]))
            Uses(self._workspace).mark(used_paths)
        finally:  # one that is no good is not gone on with
            shutil.rmtree(folder, ignore_errors=True)
            self._remove_forgotten()
        return [plan["deployment"] for plan in plans]

    def _remove_forgotten(self) -> None:
        """What a controller sent that was killed before it was taken up."""
        for folder in self._workspace.deployments.glob(f"{INCOMING}*"):
            if time.time() - (changed_at(folder) or time.time()) > _FORGOTTEN_AFTER:
                shutil.rmtree(folder, ignore_errors=True)

    # --- submission

    def submit(self, requests: Iterable[JobRequest]) -> Submitted:
        """Submits jobs in turn, each at most once, up to the first that is refused.

        Those that may be are submitted as an array.
        """
        submitted, requests = Submitted(), list(requests)
        self.restore(request.deployment for request in requests)
        for group in _groups(requests):
            try:
                for request in group:
                    if request.again:
                        self.deployment(request.deployment).start_over()
                alone = self._submit_arrays(group, submitted.jobs) if len(group) > 1 else group
            except ModakError as error:
                submitted.refused = group[0].deployment, error
                return submitted
            for request in alone:
                submit = self.deployment(request.deployment).submit
                try:
                    submitted.jobs[request.deployment] = self._submit_behind(request.after, request.behind, submit)
                except ModakError as error:
                    submitted.refused = request.deployment, error
                    return submitted
        return submitted

    def _submit_arrays(self, requests: list[JobRequest], jobs: dict[str, tuple[str, bool]]) -> list[JobRequest]:
        """Submits jobs as arrays, as far as they can be, and notes them; gives those that are to be submitted alone."""
        scripts: dict[str, list[JobRequest]] = {}
        for request in requests:
            scripts.setdefault(self.deployment(request.deployment).array_script(), []).append(request)
        alone = scripts.pop("", [])
        size = self._arrays.limit() if scripts else 0
        for script, members in scripts.items():
            alone += self._submit_alike(members, script, size, jobs)
        return alone

    def _submit_alike(
        self, requests: list[JobRequest], script: str, size: int, jobs: dict[str, tuple[str, bool]]
    ) -> list[JobRequest]:
        """Submits as many arrays as it takes; where there is no room for one, smaller ones, or none."""
        remaining, barrier, parallel = requests, requests[0].barrier, requests[0].parallel
        while size > 1 and len(remaining) > 1:
            part = remaining[:size]
            try:
                jobs_of_array = self._submit_array(part, script, barrier)
            except SubmissionRefused as refusal:
                if not has_no_room(str(refusal)):
                    raise refusal_error(self._scheduler, refusal) from refusal
                size = 0 if parallel else len(part) // 2  # those with a limit wait for each other's ends one by one
                continue
            jobs.update(jobs_of_array)
            remaining = remaining[size:]
            barrier = list(jobs_of_array) if parallel else []
        return [replace(request, behind=[*request.behind, *barrier]) for request in remaining]

    def _submit_array(self, requests: list[JobRequest], script: str, barrier: list[str]) -> dict[str, tuple[str, bool]]:
        first = requests[0]
        members = [self.deployment(request.deployment) for request in requests]

        def submit(waits: Waits, waited: dict[str, str]) -> dict[str, tuple[str, bool]]:
            return self._arrays.submit(members, first.array, script, first.parallel, waits, waited)

        return self._submit_behind(first.after, barrier, submit)

    def _submit_behind(
        self, names: list[str], ending: list[str], submit: Callable[[Waits, dict[str, str]], _Done]
    ) -> _Done:
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
        members = {name: self.deployment(name) for name in names}
        job_ids = {name: member.known_job() for name, member in members.items() if member.finished() != 0}
        for name, job_id in job_ids.items():
            if not job_id:
                raise ModakError(f"{name}, which must run first, was not submitted", hint="deploy it first")
        return job_ids

    # --- watching

    def watch(
        self, requests: Sequence[JobRequest], seconds: float, *, log: str = "", offset: int = 0, quietly: bool = False
    ) -> News:
        """Waits for the first change of the jobs, at most for some seconds.

        The jobs' own markers and the log are looked at often; the scheduler is asked less and less often, for all jobs
        at once, and not at all while one that runs was seen to run a moment ago.

        Args:
            requests: the deployments, with the states and explanations that the caller knows. Of one that runs, what is
                said may be news, too, such as that its node is down.
            log: of the only one, which log is read on; empty to read none.
            offset: how many bytes of the log the caller knows.
            quietly: whether the jobs are measured, and so looked at seldom, and waited for to their ends.
        """
        began = time.monotonic()
        by_name = {request.deployment: request for request in requests}
        states = {name: request.state for name, request in by_name.items()}
        trusted = seconds > _TRUST and all(state == JobState.RUNNING for state in states.values())
        ask_at = began + (seconds if quietly else _TRUST if trusted else 0)
        pause, news = 1.0, News(offset=offset)
        ended: set[str] = set()
        while True:
            waited = time.monotonic() - began
            now_ended = self._ended(states)
            living = [name for name, state in states.items() if not _is_over(state)]
            if living and (began + waited >= ask_at or now_ended != ended):
                situations, ended = self.situations(living), now_ended
                states.update({name: situation.state for name, situation in situations.items()})
                news.situations.update(
                    (name, situation)
                    for name, situation in situations.items()
                    if situation.is_news(by_name[name].state, by_name[name].explanation)
                )
                ask_at = time.monotonic() + pause
                pause = min(pause * 1.5, 15.0) if not quietly else pause
            is_over = bool(states) and all(map(_is_over, states.values()))
            if log:
                (name,) = by_name
                news.output, news.offset = read_on(self.deployment(name).path / log, offset, to_end=is_over)
            has_news = bool(news.situations) and not quietly
            gathered = bool(news.output) and waited >= min(seconds, _GATHER)
            if has_news or is_over or gathered or waited >= seconds:
                return news
            time.sleep(1.0 if quietly else max(0.25, len(by_name) / 500))

    def _ended(self, names: Iterable[str]) -> set[str]:
        return {name for name in names if self.deployment(name).finished() is not None}

    # --- the end

    def skip(self, reasons: dict[str, str]) -> dict[str, bool]:
        """Has the jobs of deployments never begin, each for a reason; tells of which that is so."""
        return {name: self.deployment(name).skip(words) for name, words in reasons.items()}

    def set_aside(self, requests: Iterable[JobRequest]) -> dict[str, int]:
        """Makes room for other attempts; gives the numbers under which those before are kept, by deployment."""
        attempts = {
            request.deployment: self.deployment(request.deployment).set_aside(request.ended) for request in requests
        }
        return {name: attempt for name, attempt in attempts.items() if attempt is not None}

    def remove(self, names: Iterable[str], seconds: float = 60.0, *, leave: bool = False) -> Removed:
        """Cancels the jobs that live, and removes the deployments; the first submitted is cancelled last.

        Args:
            seconds: how long cancelled jobs may take to end.
            leave: whether jobs that cannot be ended are left alone.

        Raises:
            ModakError: the scheduler does not answer, or a job does not end, and is not to be left alone.
        """
        deployments = {name: self.deployment(name) for name in names}
        over = {
            name for name, situation in self.situations(deployments).items() if situation.job_id and situation.is_final
        }
        cancelled: dict[str, str] = {}
        unended: dict[str, str] = {}
        try:
            cancelled = self.cancel(
                [deployment for name, deployment in reversed(list(deployments.items())) if name not in over]
            )
            unended = self._unended(cancelled, seconds)
            if unended:
                raise deployments[min(unended)].not_ended(unended.pop(min(unended)), "undeploy again later")
        except ModakError as error:
            if not leave:
                error.hint = "; ".join(filter(None, (error.hint, LEAVE)))
                raise
            living = [name for name, situation in self.situations(deployments).items() if not situation.is_final]
            unended = {name: unended.get(name, error.message) for name in living if deployments[name].was_submitted()}
        removed = [name for name, deployment in deployments.items() if deployment.remove()]
        remove_arrays(self._workspace.deployments)
        for name in deployments:
            Uses(self._workspace).forget(name)
        return Removed({name: job for name, job in cancelled.items() if name not in unended}, removed, unended)

    def _unended(self, cancelled: dict[str, str], seconds: float) -> dict[str, str]:
        """Of jobs that were cancelled those that have not ended within some seconds, and what is said of each."""
        deadline, living = time.monotonic() + seconds, set(cancelled)
        while living := {name for name, situation in self.situations(living).items() if not situation.is_final}:
            if time.monotonic() > deadline:
                break
            time.sleep(0.5)
        words = f"was cancelled but has not ended within {seconds:.0f} s"
        return {name: f"job {cancelled[name]} {words}" for name in living}

    def cancel(self, deployments: Iterable[Deployment]) -> dict[str, str]:
        """Cancels the jobs of deployments, all together; gives their ids by deployment.

        Raises:
            ModakError: the scheduler does not answer.
        """
        ids = {deployment: job_id for deployment in deployments if (job_id := deployment.begin_to_cancel())}
        try:
            if ids:
                self._scheduler.cancel(TimedRun(), *ids.values())
        except SchedulerSilent as error:
            for deployment in ids:
                deployment.was_not_cancelled()
            situations = self.situations(deployment.path.name for deployment in ids)
            first = next((deployment for deployment in ids if situations[deployment.path.name].down), next(iter(ids)))
            title = "the jobs" if len(ids) > 1 else f"job {ids[first]}"
            raise first.not_ended(f"{title} could not be cancelled: {error}", "try again when it answers") from error
        return {deployment.path.name: job_id for deployment, job_id in ids.items()}


def _is_over(state: str) -> bool:
    return state not in (*LIVING, "NONE")


def _groups(requests: Iterable[JobRequest]) -> list[list[JobRequest]]:
    """Those that may be submitted as one array, in the place of the first of them; others by themselves."""
    groups: dict[tuple[str, ...], list[JobRequest]] = {}
    for request in requests:
        # the names of two sweeps may be the same to a scheduler
        of_sweep = (request.node, request.array, *request.after)
        groups.setdefault(of_sweep if request.array else (request.deployment,), []).append(request)
    return list(groups.values())


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
        raise ModakError(f"{failed[0]}, which must run first, has failed", hint="undeploy it and deploy again")
    return tuple(job_id for name, job_id in jobs.items() if name not in ended)
