"""The jobs of trainings of one target, of one or of many: staged, submitted and watched together."""

from __future__ import annotations

import hashlib
import itertools
import json
import platform
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Unpack, cast

from modak_ansible.errors import ModakError
from modak_ansible.model.quantities import counted
from modak_ansible.model.target import Scheduler
from modak_ansible.stages.base import LOOK_SECONDS, Stage
from modak_ansible.stages.jobs.code import pack_code
from modak_ansible.stages.jobs.members import Member, Members
from modak_ansible.stages.jobs.output import Output
from modak_ansible.stages.jobs.results import fetch_all
from modak_ansible.store.forecasts import BEFORE, directives_of, noted, words_of_start
from modak_ansible.store.record import JobNote, RecordData, latest, living_job
from modak_ansible.target.core.files import Lock
from modak_ansible.target.core.plan import Plan
from modak_ansible.target.jobs.campaign import INCOMING, DeploymentStatus, JobRequest
from modak_ansible.target.jobs.situation import Forecast, Situation
from modak_ansible.transport.lifeline import passing_folder
from modak_ansible.transport.rsync import push

# Jobs that one call submits, but for the points of a sweep; what is broken off in between is known to have been done.
_AT_ONCE = 200
# Seconds at most until it is tried once more to submit jobs for which there was no room.
_LONGEST = 120.0
# How long a job that is measured is left alone; a dropped connection costs no more than this.
_QUIET_SECONDS = 60


class Campaign:
    """The trainings of some deployments on one target, be it one: whatever was done before is not done again.

    Args:
        stages: of the deployments.
        wait: whether they are watched to their ends, and results fetched as they come.
        quietly: whether nothing is shown of what jobs write, and looking takes as little of the machine as it can.

    Attributes:
        submitted: how many jobs were, here and now.
    """

    def __init__(self, stages: Sequence[Stage], *, wait: bool = True, quietly: bool = False) -> None:
        self.members = Members(stages)
        self.submitted = 0
        self._first = stages[0]
        self._job = self._first.plan["job"]
        self._is_queued = Scheduler(self._job["scheduler"]).keeps_order
        # where nobody else keeps the order, what comes before a job is waited for here
        self._wait = wait or bool(self.only and self.only.after and not self._is_queued)
        self._quietly = quietly
        self._folder = ""
        self._forecast: Forecast | None = None
        self._kept: set[str] = set()
        # there was no room for a job: when it is tried once more, how long after the last time, and what was said
        self._try_at, self._pause, self._full = 0.0, float(LOOK_SECONDS), ""
        self._said = ""

    @property
    def only(self) -> Member | None:
        """The training where it is one alone."""
        return next(iter(self.members)) if len(self.members) == 1 else None

    def call(self, action: str, requests: Iterable[JobRequest], **arguments: Any) -> Any:
        """Has the target's module do something to jobs, and gives what it answers."""
        where = {"workspace": self._first.plan["target"]["workspace"], "scheduler": self._job["scheduler"]}
        # as texts: Ansible takes long over structures with a thousand parts
        deployments = json.dumps([_compact(request) for request in requests])
        answer = self._first.call("modak_job", **where, action=action, deployments=deployments, **arguments)
        return json.loads(answer["answer"])

    def requests(self, members: Iterable[Member] | None = None) -> list[JobRequest]:
        """Some of the trainings, or all of them, as the module takes them."""
        return [
            JobRequest(
                member.name, member.job_name, living_job(member.stage.record.read()), member.stage.plan["digest"]
            )
            for member in (self.members if members is None else members)
        ]

    # --- what is known

    def look(self, *, alone: bool = False) -> None:
        """Asks the target for all deployments, and for those before them unless they are looked at alone.

        Raises:
            ModakError: one comes after a deployment that is not there.
        """
        answer = self.call(
            "look", [*self.requests(), *map(JobRequest, self.members.outside)], directives=self._to_forecast
        )
        self._folder, self._forecast = answer["folder"], answer["forecast"]
        for name, status in answer["known"].items():
            self.members.note(name, DeploymentStatus(**{**status, "situation": Situation(**status["situation"])}))
        for member in self.members:
            store = member.stage.store
            if member.status.state != "NONE":
                self.record(member, undeployed=None)
            elif store.job and not (alone and store.has_ended and not member.status.there):
                # of one whose folder was cleared since, its record alone knows how it ended
                self.record(member)
        for member in [] if alone else self.members.to_submit():
            for name, training in member.after.items():
                if name in self.members.outside and self.members.status(name).state == "NONE":
                    hint = f"deploy {training} first, or leave out --training"
                    raise ModakError(f"{member.training} comes after {training}, which was not deployed", hint=hint)

    @property
    def _to_forecast(self) -> str:
        """The directives of which it is asked when a job would begin: of the first that waits for no other of ours."""
        free = (member for member in self.members if not member.after) if self._is_queued else iter(())
        first = next(free, None)
        return directives_of(first.stage.plan["job"]["script"]) if first else ""

    def record(self, member: Member, **values: Unpack[RecordData]) -> None:
        """Has a deployment's record know how its job is, and takes from it the end that was known before."""
        now, record = cast(JobNote, asdict(member.status.situation)), member.stage.record
        job = latest(record.read().get("job"), now) if self._first.check else record.note_job(now, **values)
        member.status.situation = Situation.of(job)
        member.silence = "" if job["state"] == now["state"] else now["explanation"]

    @property
    def expected(self) -> str:
        """When the first training would begin, in words; empty where all were submitted, or nobody says."""
        who = "it" if self.only else "the first"
        return f"{who} is expected to begin {words_of_start(self._forecast)}" if self._forecast else ""

    def _is_going_on(self) -> bool:
        """Whether something runs, or will."""
        if any(member.status.situation.is_living for member in self.members) or self._next():
            return True
        waits = bool(self.members.to_submit())
        return waits and any(self.members.status(name).situation.is_living for name in self.members.outside)

    def _next(self) -> list[Member]:
        return self.members.to_submit() if self._is_queued else self.members.ready()

    # --- what is done

    def run(self) -> None:
        """Has all jobs run, each after those that it comes after, and watches them to their ends.

        Raises:
            ModakError: something cannot be staged, or the scheduler refuses it. How the jobs end is no error here.
        """
        if self.expected:
            self._first.tell("job", self.expected)
        self.go_on()
        only, is_watched = self.only, self._wait and bool(self.submitted)
        output = Output(only, self.call) if only and not self._quietly else None
        while self._wait and self._is_going_on():
            is_watched = True
            self.watch(output)
            self.go_on()
        if output and is_watched and only and not only.is_not_run:
            output.drain()

    def go_on(self) -> None:
        """Skips what cannot run, submits what can, and fetches the results of what has ended."""
        self._skip(self.members.to_skip())
        requests = [] if time.monotonic() < self._try_at else self._next()
        if requests and not self._stage([member for member in self.members.to_submit() if not member.status.staged]):
            for part in _parts(requests):
                if not self._submit(part, len(requests)):
                    break
        if not self.only:  # whose results are fetched by the stage behind this one
            self._keep_results()

    def _skip(self, reasons: dict[str, str]) -> None:
        staged = [JobRequest(name, reason=words) for name, words in reasons.items() if self.members.status(name).staged]
        begun_names = set()
        if staged:
            skipped = self.call("skip", staged)["skipped"]
            begun_names = {name for name, is_skipped in skipped.items() if not is_skipped}
        for name, words in reasons.items():
            status = self.members[name].status
            if name in begun_names:
                status.began = True
                continue
            status.situation.state, status.situation.explanation = "CANCELLED", words
            status.skipped = True
            self._note(self.members[name])

    def _stage(self, members: list[Member]) -> bool:
        """Sends the plans, and each different set of files once; the job of a training alone is submitted with that,
        which spares a call, and True given."""
        if not members:
            return False
        lock = Lock(members[0].stage.folder / ".code.lock")  # two deploys of the same plans send in turn
        is_first = lock.take(wait=False)
        if not is_first:
            lock.take(wait=True)
        try:
            if not is_first:
                self.look()
                members = [member for member in members if not member.status.staged]
            if members:
                folder = self._send(members)
                if self.only:
                    self._submit(members, 1, folder)
                else:
                    self.call("stage", self.requests(members), folder=folder)
                    self._first.say(f"{counted(len(members), 'job')} staged")
                for member in members:
                    member.status.staged = True
        finally:
            lock.release()
        return bool(members and self.only)

    def _send(self, members: list[Member]) -> str:
        """Sends what is staged; gives the name of the folder there."""
        # the same name each time, so that a transfer that was cut short goes on, and for each controller its own
        identity = json.dumps([platform.node(), *(str(member.stage.folder.resolve()) for member in members)])
        folder = f"{INCOMING}{hashlib.sha256(identity.encode()).hexdigest()[:32]}"
        with passing_folder("modak-code-") as temporary:
            files = pack_code([member.stage for member in members], Path(temporary))
            push(self._first.connection, files, f"{self._folder}/{folder}", self._first.say)
        return folder

    def _submit(self, members: list[Member], count: int, folder: str = "") -> bool:
        """Submits some jobs; False where the scheduler takes no more for now.

        Args:
            folder: of what is staged before.
        """
        living, void = self.members.living_points(), self.members.void()
        tasks = {
            node: [name for name in names if self.members.is_task(name)] for node, names in living.items()
        }  # whose array keeps their number by itself
        requests = [
            JobRequest(
                member.name,
                member.job_name,
                living_job(member.stage.record.read()),
                member.stage.plan["digest"] if folder else "",
                after=self._waiting(member.after),
                behind=self._waiting([*member.behind, *tasks.get(member.node, [])]),
                again=member.name in void,
                node=member.node,
                array=_array_name(member.stage.plan, member.node),
                parallel=member.parallel,
                barrier=living.get(member.node, []),
            )
            for member in members
        ]
        answer = self.call("submit", requests, **({"folder": folder} if folder else {}))
        for name, job in answer["jobs"].items():
            member = self.members[name]
            situation = Situation(**job["situation"])
            member.status = DeploymentStatus(situation, there=True, staged=True, began=bool(situation.started))
            if member is self.only:
                words = "submitted" if job["submitted"] else "was submitted before"
                member.stage.tell("job", f"job {situation.job_id} {words}")
            forecast = self._forecast if job["submitted"] and not member.after else None
            self._forecast = None if forecast else self._forecast  # it is the first one's
            note = cast(JobNote, asdict(situation))
            forecasts = noted(member.stage.record.read(), note, BEFORE, forecast, member.stage.plan)
            self.record(member, undeployed=None, forecasts=forecasts)
            self.submitted += job["submitted"]
            self._pause = float(LOOK_SECONDS)
        if answer["refused"]:
            return self._refused(**answer["refused"])
        if count > 1:
            self._first.say(f"{self.submitted} of {counted(count, 'job')} submitted")
        return True

    def _waiting(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if self._is_queued and self.members.status(name).state != "COMPLETED"]

    def _refused(self, deployment: str, message: str, hint: str, exit_code: int, *, is_full: bool) -> bool:
        """Waits for room, whoever takes it now; False, since nothing more is submitted for the moment.

        Raises:
            ModakError: it was refused for another reason, or nobody stays to wait.
        """
        living = any(member.status.situation.is_living for member in self.members)
        if not is_full or not (self._wait or living):
            training = self.members[deployment].training
            error = ModakError(message if self.only else f"{training}: {message}", hint=hint)
            error.exit_code = exit_code
            raise error
        if message != self._full:
            self._full = message
            rest = (
                "the rest follows as jobs end" if self._wait else "modak deploy submits the rest when jobs have ended"
            )
            self._first.say(f"{self._full}; {rest}")
        self._try_at, self._pause = time.monotonic() + self._pause, min(self._pause * 1.5, _LONGEST)
        return False

    # --- the ends

    def watch(self, output: Output | None = None, *, alone: bool = False) -> None:
        """Waits for news of jobs, and of those before them unless alone; shows what the only job writes."""
        if not self.only:
            self._say_counts()
        names = [*self.members.names, *([] if alone else self.members.outside)]
        situations = {name: self.members.status(name).situation for name in names}
        living = [
            JobRequest(name, job_id=situation.job_id, state=situation.state, explanation=situation.explanation)
            for name, situation in situations.items()
            if situation.is_living
        ]
        if output and self.only and self.only.status.situation.is_living:
            output.say_state()
        if output and [request.deployment for request in living] == self.members.names:
            answer = output.read(living, LOOK_SECONDS)
        elif self._quietly:
            answer = self.call("watch", living, seconds=_QUIET_SECONDS, quietly=True)
        else:
            answer = self.call("watch", living, seconds=LOOK_SECONDS)
        for name, situation in answer["situations"].items():
            status = self.members.status(name)
            status.situation = Situation(**situation)
            status.began = status.began or bool(status.situation.started)
            if name not in self.members.outside:
                self._note(self.members[name])
            if not status.situation.is_living:  # there is room for another
                self._try_at = 0.0

    def _note(self, member: Member) -> None:
        self.record(member, undeployed=None)
        situation = member.status.situation
        if member is self.only and not member.is_not_run:
            if self._quietly and (situation.down or not situation.is_living):
                self._first.say(situation.words)
        elif situation.has_failed:
            self._first.say(f"{member.training}: {situation.explanation if member.is_not_run else situation.words}")
        elif situation.down:
            self._first.say(f"{member.training}: {situation.words}")

    def _keep_results(self) -> None:
        over = [member for member in self.members if member.is_over and member.status.situation.job_id]
        ended = [member for member in over if member.name not in self._kept and not member.is_not_run]
        if ended:
            fetch_all([member.stage for member in ended])
            self._kept.update(member.name for member in ended)

    def _say_counts(self) -> None:
        words = self.summary()
        if words != self._said:
            self._first.say(words)
            self._said = words

    def summary(self) -> str:
        """How the only job is, or how many trainings are in each state."""
        if self.only and not self.only.is_not_run:
            return self.only.status.situation.words
        return counts(Counter(member.status.state for member in self.members))


def _compact(request: JobRequest) -> dict[str, object]:
    """What is said of a deployment: of a thousand, that is much shorter than all that could be."""
    return {name: value for name, value in asdict(request).items() if value not in ("", [], None, False)}


def _parts(members: list[Member]) -> Iterator[list[Member]]:
    """Members as they are submitted in one call: all points of a sweep together."""
    part: list[Member] = []
    for _, points in itertools.groupby(members, key=lambda member: member.node):
        part += points
        if len(part) >= _AT_ONCE:
            yield part
            part = []
    if part:
        yield part


def _array_name(plan: Plan, node: str) -> str:
    """What the scheduler calls the points of a sweep together."""
    name = plan["job"]["options"]["job_name"] or f"{plan['name']}-{node}"
    return re.sub(r"[^\w.-]", "-", name, flags=re.ASCII)


def counts(states: Counter[str]) -> str:
    """How many jobs are in each state, in words."""
    words = [f"{count} {state.lower().replace('_', ' ')}" for state, count in states.most_common()]
    return f"{counted(sum(states.values()), 'job')}: {', '.join(words)}".replace("none", "not submitted")
