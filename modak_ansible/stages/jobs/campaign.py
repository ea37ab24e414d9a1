"""Several trainings of one target: staged, submitted and watched together, their results fetched as they end."""

from __future__ import annotations

import gzip
import itertools
import json
import re
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from modak_ansible.errors import JobFailed, ModakError
from modak_ansible.model.plan import digest_of
from modak_ansible.schedulers.base import LIVING, has_no_room
from modak_ansible.stages.base import LOOK_SECONDS, Outcome, Stage
from modak_ansible.stages.jobs.campaign_results import fetch_all
from modak_ansible.stages.jobs.job import code_archive, deployment_arguments, describe, images_gone, images_of
from modak_ansible.stages.jobs.members import NONE, Member, Members, MemberState
from modak_ansible.stages.results import failure_lines
from modak_ansible.store.record import NOT_RUN, JobNote, RecordData, latest
from modak_ansible.target.jobs.campaign import INCOMING, PLANS
from modak_ansible.transport.lifeline import passing_folder
from modak_ansible.transport.rsync import push

# Jobs that one call submits, but for the points of a sweep; what is broken off in between is known to have been done.
_AT_ONCE = 200
# Seconds at most until it is tried once more to submit jobs for which there was no room.
_LONGEST = 120.0
_SHOWN = 8


def run_campaign(stages: Sequence[Stage], *, wait: bool = True) -> Outcome:
    """Has all jobs run, each after those that it comes after; whatever was done before is not done again.

    Args:
        stages: of deployments on one target.
        wait: whether to watch them to their ends, and to fetch results as they come.

    Raises:
        ModakError: something cannot be staged, or the scheduler refuses it. How the jobs end is no error here.
    """
    campaign = _Campaign(stages, wait=wait)
    campaign.look()
    if stages[0].check:
        count = len(campaign.members.to_submit())
        return Outcome(bool(count), f"would submit {_jobs(count)}" if count else campaign.summary())
    campaign.go_on()
    while wait and campaign.is_going_on():
        campaign.watch()
        campaign.go_on()
    not_run = [member.training for member in campaign.members if member.known.explanation.startswith(NOT_RUN)]
    return Outcome(campaign.submitted > 0, campaign.summary(), {"not_run": not_run})


def report_all(stages: Sequence[Stage]) -> Outcome:
    """Says how the trainings ended.

    Raises:
        JobFailed: one or more did not complete, each with its own words.
    """
    found = [(stage, stage.record.read()) for stage in stages]
    failed = [each for each in found if _job(each[1])["state"] not in ("NONE", "COMPLETED", *LIVING)]
    if stages[0].check or not failed:
        states = Counter(_job(state)["state"] for _, state in found)
        facts = {"job_state": " ".join(states), "results": str(stages[0].folder.parent)}
        return Outcome(False, _counts(states), {"facts": facts})
    first = sorted(failed, key=lambda each: _is_skipped(_job(each[1])))
    lines = [f"{len(failed)} of {len(found)} trainings did not complete:", *_failures(first[:_SHOWN])]
    lines += [f"  and {len(failed) - _SHOWN} more"] if len(failed) > _SHOWN else []
    hint = (
        f"all that one wrote: modak logs DEPLOYMENT, such as {first[0][0].folder.name}; one that failed stays as it is "
        "until modak resume runs it again or it is undeployed, and those behind it then run"
    )
    raise JobFailed("\n".join(lines), hint=hint)


def _job(state: RecordData) -> JobNote:
    return {**NONE, **(state.get("job") or JobNote())}


def _failures(failed: list[tuple[Stage, RecordData]]) -> Iterator[str]:
    """How each training failed, with the end of its error output unless that ends as another's above it."""
    shown: dict[str, str] = {}
    for stage, state in failed:
        job, name = _job(state), stage.plan["training"]
        if _is_skipped(job):
            yield f"  {name}: {job['explanation']}"
            continue
        first, *rest = failure_lines(job, state)
        yield f"  {name}: {first}"
        alike = shown.setdefault(job["error_tail"][-1], name) if job["error_tail"] else name
        yield from (
            [f"    its error output ends as that of {alike}"] if alike != name else (f"  {each}" for each in rest)
        )


def query_all(stages: Sequence[Stage]) -> Outcome:
    """How all jobs are now."""
    campaign = _Campaign(stages)
    campaign.look(alone=True)
    return Outcome(False, campaign.summary())


def keep_all_results(stages: Sequence[Stage]) -> Outcome:
    """Fetches what the jobs of deployments left, or have written so far, by the records of the deployments."""
    jobs = [(stage, stage.record.read().get("job") or {}) for stage in stages]
    ran = [stage for stage, job in jobs if job.get("job_id") and not _is_skipped(job)]
    begun = [stage for stage, job in jobs if stage in ran and (job["state"] not in LIVING or job.get("started"))]
    return fetch_all(begun) if begun else Outcome(False, "no training has begun")


def _is_skipped(job: JobNote) -> bool:
    return bool(job["explanation"].startswith(NOT_RUN))


class _Campaign:
    def __init__(self, stages: Sequence[Stage], *, wait: bool = True) -> None:
        self.members = Members(stages)
        self._wait = wait
        self._first = stages[0]
        target, job = stages[0].plan["target"], stages[0].plan["job"]
        self._arguments = {"workspace": target["workspace"], "scheduler": job["scheduler"]}
        self._is_queued = job["scheduler"] != "none"
        self._folder = ""
        self._kept: set[str] = set()
        # there was no room for a job: when it is tried once more, how long after the last time, and what was said
        self._try_at, self._pause, self._full = 0.0, float(LOOK_SECONDS), ""
        self._said = ""
        self.submitted = 0

    def _call(self, action: str, **arguments: Any) -> dict[str, Any]:
        return self._first.call("modak_campaign", **self._arguments, action=action, **arguments)

    # --- what is known

    def look(self, *, alone: bool = False) -> None:
        """Asks the target for all deployments, and for those before them unless they are looked at alone."""
        wanted = [{"deployment": member.name, "digest": member.stage.plan["digest"]} for member in self.members]
        wanted += [{"deployment": name, "digest": ""} for name in self.members.outside]
        answer = self._call("look", deployments=wanted)
        self._folder = answer["folder"]
        self.members.note({name: MemberState(**each) for name, each in answer["known"].items()})
        for member in self.members:
            if member.known.state != "NONE":
                self._record(member)
        for member in [] if alone else self.members.to_submit():
            for name, training in member.after.items():
                if name in self.members.outside and self.members.known(name).state == "NONE":
                    hint = f"deploy {training} before, or leave out --training"
                    raise ModakError(f"{member.training} comes after {training}, which was not deployed", hint=hint)

    def is_going_on(self) -> bool:
        """Whether something runs, or will."""
        if any(member.known.is_living for member in self.members) or self._next():
            return True
        waits = bool(self.members.to_submit())
        return waits and any(self.members.known(name).is_living for name in self.members.outside)

    def _next(self) -> list[Member]:
        return self.members.to_submit() if self._is_queued else self.members.ready()

    # --- what is done

    def go_on(self) -> None:
        """Skips what cannot run, submits what can, and fetches the results of what has ended."""
        self._skip(self.members.to_skip())
        wanted = [] if time.monotonic() < self._try_at else self._next()
        if wanted:
            self._stage([member for member in self.members.to_submit() if not member.known.staged])
            for part in _parts(wanted):
                if not self._submit(part, len(wanted)):
                    break
        self._keep_results()

    def _skip(self, reasons: dict[str, str]) -> None:
        there = {name: words for name, words in reasons.items() if self.members.known(name).staged}
        begun = set()
        if there:
            skipped = self._call("skip", reasons=there)["skipped"]
            begun = {name for name, done in skipped.items() if not done}
        for name, words in reasons.items():
            if name in begun:
                self.members[name].known.began = True
                continue
            known = self.members[name].known
            known.situation = {**known.situation, "state": "CANCELLED", "explanation": words}
            known.skipped = True
            self._note(self.members[name])

    def _stage(self, members: list[Member]) -> None:
        """Sends the plans, and each different set of files once."""
        if not members:
            return
        folder = f"{INCOMING}{uuid.uuid4().hex}"
        with passing_folder("modak-campaign-") as temporary:
            files = _packed(members, Path(temporary))
            push(self._first.connection, files, f"{self._folder}/{folder}", self._first.say)
        self._call("stage", folder=folder)
        for member in members:
            member.known.staged = True
        self._first.say(f"{_jobs(len(members))} staged")

    def _submit(self, members: list[Member], count: int) -> bool:
        """Submits some jobs; False where the scheduler takes no more for now."""
        living = self.members.living_points()
        tasks = {
            node: [name for name in names if self.members.is_task(name)] for node, names in living.items()
        }  # whose array keeps their number by itself
        wanted = [
            {
                "deployment": member.name,
                "job_name": deployment_arguments(member.stage.plan)["job_name"],
                "after": self._waiting(member.after),
                "behind": self._waiting([*member.behind, *tasks.get(member.node, [])]),
                "again": self.members.is_void(member),
                "node": member.node,
                "array": _array_name(member.stage.plan, member.node),
                "parallel": member.parallel,
                "barrier": living.get(member.node, []),
            }
            for member in members
        ]
        answer = self._call("submit", deployments=wanted)
        for name, job in answer["jobs"].items():
            member = self.members[name]
            member.known = MemberState(
                {**MemberState().situation, "state": "QUEUED", "job_id": job["job_id"]}, staged=True
            )
            self._record(member)
            self.submitted += job["submitted"]
            self._pause = float(LOOK_SECONDS)
        if answer["refused"]:
            return self._refused(answer["refused"])
        if count > 1:
            self._first.say(f"{self.submitted} of {_jobs(count)} submitted")
        return True

    def _waiting(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if self._is_queued and self.members.known(name).state != "COMPLETED"]

    def _refused(self, refused: dict[str, Any]) -> bool:
        """Waits for room, whoever takes it now; False, since nothing more is submitted for the moment.

        Raises:
            ModakError: it was refused for another reason, or nobody stays to wait.
        """
        is_full = has_no_room(refused["message"])
        training = self.members[refused["deployment"]].training
        living = any(member.known.is_living for member in self.members)
        if not is_full or not (self._wait or living):
            error = ModakError(f"{training}: {refused['message']}", hint=refused["hint"])
            error.exit_code = refused["exit_code"]
            raise error
        if refused["message"] != self._full:
            self._full = refused["message"]
            rest = (
                "the rest follows as jobs end" if self._wait else "modak deploy submits the rest when jobs have ended"
            )
            self._first.say(f"{self._full}; {rest}")
        self._try_at, self._pause = time.monotonic() + self._pause, min(self._pause * 1.5, _LONGEST)
        return False

    # --- the ends

    def watch(self) -> None:
        """Waits for news, and notes it."""
        self._say_counts()
        names = [*(member.name for member in self.members), *self.members.outside]
        seen = {name: self.members.known(name).state for name in names if self.members.known(name).is_living}
        said = {name: self.members.known(name).explanation for name in seen}
        answer = self._call("watch", states=seen, said=said, seconds=LOOK_SECONDS)
        for name, situation in answer["situations"].items():
            known = self.members.known(name)
            known.situation = situation
            known.began = known.began or bool(situation["started"])
            if name not in self.members.outside:
                self._note(self.members[name])
            if not known.is_living:  # there is room for another
                self._try_at = 0.0

    def _note(self, member: Member) -> None:
        known = member.known
        self._record(member)
        if known.has_failed:
            words = known.explanation if known.explanation.startswith(NOT_RUN) else describe(known.situation)
            self._first.say(f"{member.training}: {words}")
        elif known.situation.get("down"):
            self._first.say(f"{member.training}: {describe(known.situation)}")

    def _record(self, member: Member) -> None:
        record = member.stage.record
        if self._first.check:
            member.known.situation = latest(record.read().get("job"), member.known.situation)
        else:
            member.known.situation = record.note_job(member.known.situation, undeployed=None)

    def _keep_results(self) -> None:
        over = [member for member in self.members if member.is_over and member.known.job_id]
        new = [each for each in over if each.name not in self._kept]
        ended = [each for each in new if not each.known.explanation.startswith(NOT_RUN)]
        if ended:
            fetch_all([each.stage for each in ended])
            self._kept.update(each.name for each in ended)

    def _say_counts(self) -> None:
        words = self.summary()
        if words != self._said:
            self._first.say(words)
            self._said = words

    def summary(self) -> str:
        """How many trainings are in each state."""
        return _counts(Counter(member.known.state for member in self.members))


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


def _array_name(plan: dict[str, Any], node: str) -> str:
    """What the scheduler calls the points of a sweep together."""
    name: str = plan["job"]["options"]["job_name"] or f"{plan['name']}-{node}"
    return re.sub(r"[^\w.-]", "-", name, flags=re.ASCII)


def _packed(members: list[Member], folder: Path) -> list[Path]:
    """The plans in one file, and an archive for each different set of the user's files."""
    archives: dict[str, Path] = {}
    plans = []
    for member in members:
        plan = member.stage.plan
        application = plan["application"]
        key = digest_of([application["folder"], application["files"], plan.get("beside", []), plan.get("runtime", [])])
        if key not in archives:
            archives[key] = folder / f"{key[:16]}.tar.gz"
            archives[key].write_bytes(code_archive(plan, member.stage.blueprint_folder))
        plans.append({"deployment": member.name, "archive": archives[key].name, "plan": plan})
    packed = folder / PLANS
    packed.write_bytes(gzip.compress(json.dumps(plans).encode(), compresslevel=6))
    return [packed, *archives.values()]


def remove_all(stages: Sequence[Stage], *, remove_images: bool = False, leave: bool = False) -> Outcome:
    """Cancels the jobs that live and removes the deployments' folders; data stays for others, and so do images.

    Args:
        stages: of deployments on one target.
        remove_images: whether those of their images go that no other deployment on the target uses.
        leave: whether jobs that cannot be ended, such as those on dead nodes, are left alone.

    Raises:
        ModakError: a job cannot be ended, and is not to be left alone.
    """
    campaign = _Campaign(stages)
    names = [{"deployment": member.name, "digest": member.stage.plan["digest"]} for member in campaign.members]
    if stages[0].check:
        known = campaign._call("look", deployments=names)["known"].values()
        there = sum(bool(each["staged"]) for each in known)
        return Outcome(bool(there), f"would remove {there} deployments" if there else "nothing is deployed")
    images = list(dict.fromkeys(path for stage in stages for path in images_of(stage.plan))) if remove_images else []
    answer = campaign._call("remove", deployments=names, images=images, leave=leave)
    for name in answer["removed"]:
        campaign.members[name].stage.record.update(undeployed=time.time())
    words = [f"{_jobs(len(answer['cancelled']))} cancelled"] if answer["cancelled"] else []
    left = list(answer.get("left", {}).values())
    words += [f"{_jobs(len(left))} left alone: {'; '.join(dict.fromkeys(left))}"] if left else []
    words += [f"{len(answer['removed'])} folders removed"] if answer["removed"] else []
    words += images_gone(answer["images"]) if images else []
    return Outcome(bool(answer["removed"] or answer["images"]), ", ".join(words) or "nothing was deployed")


def _jobs(count: int) -> str:
    return f"{count} job{'' if count == 1 else 's'}"


def _counts(states: Counter[str]) -> str:
    words = [f"{count} {state.lower().replace('_', ' ')}" for state, count in states.most_common()]
    return f"{_jobs(sum(states.values()))}: {', '.join(words)}".replace("none", "not submitted")
