"""The trainings of a campaign: what each waits for, and what is to be done about it now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from modak_ansible.stages.base import Stage
from modak_ansible.store.record import NOT_RUN
from modak_ansible.target.jobs.campaign import DeploymentStatus
from modak_ansible.target.jobs.situation import LIVING


class Member:
    """A training of a campaign.

    Args:
        stage: its deployment.

    Attributes:
        silence: why nobody says how the job is now, of one whose end was known before; empty elsewhere.
        node: of the blueprint, which the points of a sweep have in common.
        parallel: how many of those may run at once; None for as many as the target takes.
        after: the deployments that have to complete before, and their trainings.
        behind: those that have to end before.
    """

    def __init__(self, stage: Stage) -> None:
        plan = stage.plan
        origin = stage.store.origin
        self.stage = stage
        self.status = DeploymentStatus()
        self.silence = ""
        self.name = stage.deployment
        self.job_name: str = plan["job"]["options"]["job_name"] or ""
        self.training: str = plan["training"]
        self.node: str = origin.get("node") or plan["training"]
        self.parallel: int | None = origin.get("parallel")
        self.after: dict[str, str] = {
            name: deployment["training"] for deployment in plan.get("after", ()) for name in deployment["deployments"]
        }
        self.behind: tuple[str, ...] = ()

    @property
    def is_over(self) -> bool:
        return self.status.state == "COMPLETED" or self.status.situation.has_failed

    @property
    def is_not_run(self) -> bool:
        """Whether its job is not to run, since one before it failed."""
        return self.status.situation.explanation.startswith(NOT_RUN)


class Members:
    """All trainings of a campaign on one target, each behind those that it comes after.

    Args:
        stages: of their deployments.
    """

    def __init__(self, stages: Sequence[Stage]) -> None:
        self._all = {member.name: member for member in _ordered([Member(stage) for stage in stages])}
        self._outside: dict[str, DeploymentStatus] = {}
        _put_behind(self._all.values())

    def __iter__(self) -> Iterator[Member]:
        return iter(self._all.values())

    def __len__(self) -> int:
        return len(self._all)

    @property
    def names(self) -> list[str]:
        return list(self._all)

    @property
    def outside(self) -> list[str]:
        """Deployments that come before, and are deployed by themselves."""
        return sorted({name for member in self._all.values() for name in member.after if name not in self._all})

    def note(self, name: str, status: DeploymentStatus) -> None:
        """Takes over what the target knows of a deployment."""
        if name in self._all:
            self._all[name].status = status
        else:
            self._outside[name] = status

    def __getitem__(self, name: str) -> Member:
        return self._all[name]

    def status(self, name: str) -> DeploymentStatus:
        """What is known of a deployment, be it one of the campaign or one that comes before."""
        return self._all[name].status if name in self._all else self._outside.get(name, DeploymentStatus())

    def count(self, *states: str) -> int:
        return sum(member.status.state in states for member in self._all.values())

    # --- what is to be done

    def to_skip(self) -> dict[str, str]:
        """Those that cannot run, since one before has failed, with the reason; the reason is handed down."""
        reasons: dict[str, str] = {}
        void = self.void()
        for member in self._all.values():
            if member.status.began or member.status.state == "COMPLETED" or member.name in void:
                continue
            reason = self._reason(member, reasons, void)
            if reason:
                reasons[member.name] = reason
        return {name: reason for name, reason in reasons.items() if self.status(name).situation.explanation != reason}

    def _reason(self, member: Member, reasons: dict[str, str], void: set[str]) -> str:
        for name, training in member.after.items():
            if name in reasons:
                return reasons[name]
            status = self.status(name)
            if status.situation.has_failed and name not in void:
                explanation = status.situation.explanation
                title = self._all[name].training if name in self._all else training
                return explanation if explanation.startswith(NOT_RUN) else f"{NOT_RUN}{title} failed"
        return ""

    def to_submit(self) -> list[Member]:
        """Those that are to be submitted, each behind those that it waits for."""
        void = self.void()
        return [member for member in self._all.values() if member.status.state == "NONE" or member.name in void]

    def ready(self) -> list[Member]:
        """Of those to submit as many as may run now, where no scheduler keeps the order."""
        candidates = [
            candidate
            for candidate in self.to_submit()
            if all(self.status(name).state == "COMPLETED" for name in candidate.after)
        ]
        running, ready = self.count(*LIVING), list[Member]()
        for candidate in candidates:
            if running + len(ready) < (candidate.parallel or 1):
                ready.append(candidate)
        return ready

    def is_task(self, name: str) -> bool:
        """Whether the job of a deployment is one of an array."""
        return "_" in self.status(name).situation.job_id

    def living_points(self) -> dict[str, list[str]]:
        """Of each sweep with a limit the points whose jobs wait or run, by the sweep's node."""
        void, points = self.void(), dict[str, list[str]]()
        for member in self._all.values():
            if member.parallel and member.status.situation.is_living and member.name not in void:
                points.setdefault(member.node, []).append(member.name)
        return points

    def void(self) -> set[str]:
        """Deployments whose jobs have not begun, and wait for what is no more, though all before may still end well:
        others are to be in their places."""
        void: set[str] = set()
        for member in self._all.values():
            status = member.status
            if not member.after or status.began or status.state in ("NONE", "COMPLETED"):
                continue
            before = {name: self.status(name) for name in member.after}
            if any(earlier.situation.has_failed and name not in void for name, earlier in before.items()):
                continue
            ids = {name: earlier.situation.job_id for name, earlier in before.items()}
            renewed = any(ids.get(name, job_id) != job_id for name, job_id in status.waited.items())
            if status.skipped or renewed or any(name in void for name in before):
                void.add(member.name)
        return void


def _ordered(members: list[Member]) -> list[Member]:
    """Each behind those that it comes after, else as they are; the planner lets none come after itself."""
    by_name = {member.name: member for member in members}
    ordered: dict[str, Member] = {}
    waiting = list(reversed(members))
    while waiting:
        before = [by_name[name] for name in waiting[-1].after if name in by_name and name not in ordered]
        if before:
            waiting += reversed(before)
        else:
            member = waiting.pop()
            ordered.setdefault(member.name, member)
    return list(ordered.values())


def _put_behind(members: Iterable[Member]) -> None:
    """Has each point of a sweep with a limit wait for the end of the one so many before it."""
    points: dict[str, list[Member]] = {}
    for member in members:
        before = points.setdefault(member.node, [])
        if member.parallel and len(before) >= member.parallel:
            member.behind = (before[-member.parallel].name,)
        before.append(member)
