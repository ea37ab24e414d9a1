"""Runs a suite: interleaved, repeated where the machine was busy, recorded one by one, stopped and resumed any time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from modak_ansible.errors import ModakError, TargetUnreachable
from modak_ansible.measuring.executor import NodeFacts, PlaybookExecutor
from modak_ansible.measuring.history import LEFT_OUT, History
from modak_ansible.measuring.load import is_this_machine
from modak_ansible.measuring.plans import SuiteTarget, plan_look, plan_run
from modak_ansible.measuring.progress import Progress
from modak_ansible.measuring.recording import Turn, not_run, now, reason_of, record_of
from modak_ansible.measuring.records import RecordFile
from modak_ansible.measuring.suites.variants import Block, Variant
from modak_ansible.model.measured.record import Record
from modak_ansible.model.measured.suite import Suite
from modak_ansible.planning.plan import CannotPlan
from modak_ansible.planning.service import Planned
from modak_ansible.transport.rsync import Say

ATTEMPTS = 3
# A variant that failed so often is not run any more: the others are not to wait for its wall time again and again.
STRIKES = 2

Plan = Callable[[Suite, Variant, SuiteTarget], Planned]
Wait = Callable[[], None]
Outcome = Literal["failed", "refused"]


class Interrupted(KeyboardInterrupt):
    """The user ended a suite; the job that ran is ended, and what was measured is on record."""


@dataclass
class Runner:
    suite: Suite  # what is run
    blocks: list[Block]  # its groups
    places: dict[str, SuiteTarget]  # its targets by name; what is found out about them is added
    executor: PlaybookExecutor  # carries the runs out
    file: RecordFile  # where the records go
    history: History  # what the file has already
    say: Say  # shows a line
    wait: Wait  # comes back when this machine is quiet
    attempts: int = ATTEMPTS  # how often a disturbed round is begun
    plan: Plan = plan_run  # makes the plan of a run
    _facts: dict[str, NodeFacts] = field(default_factory=dict)
    _left_out: dict[str, set[str]] = field(default_factory=dict)
    _strikes: dict[tuple[str, str], int] = field(default_factory=dict)

    def run(self) -> None:
        """Measures what is not on record yet.

        Raises:
            Interrupted: by the user.
            TargetUnreachable: a target does not answer any more; what was measured is on record.
        """
        blocks = [block for block in self.blocks if self._pending(block)]
        self._look([variant for block in blocks for variant in block.variants])
        self._prepare([variant for block in blocks for variant in block.variants])
        pending = {block.group: self._pending(block) for block in blocks}
        runs = sum(len(pending[block.group]) * len(self._runnable(block)) for block in blocks)
        progress = Progress(runs, self.say)
        for block in blocks:
            for number in pending[block.group]:
                self._round(block, number, progress)

    # --- before anything is measured

    def _pending(self, block: Block) -> list[int]:
        """The rounds of a group that are to be run."""
        left_out = self._left_out.get(block.group, set()) | {
            variant.name for variant in block.variants if self.history.is_refused(variant)
        }
        if len(left_out) == len(block.variants):
            return []
        numbers = range(1, block.rounds + 1)
        return [number for number in numbers if not self.history.is_complete(block, number, self.attempts, left_out)]

    def _runnable(self, block: Block) -> list[Variant]:
        left_out = self._left_out.get(block.group, set())
        return [variant for variant in block.variants if variant.name not in left_out]

    def _prepare(self, variants: list[Variant]) -> None:
        """Has all images and data where they are needed; what cannot be had is on record, and the others go on."""
        problems: dict[tuple[str, str], str] = {}
        for variant in variants:
            if self.history.is_refused(variant):
                self._leave_out(variant)
                continue
            try:
                planned = self._planned(variant)
            except CannotPlan as error:
                self._drop(variant, "refused", reason_of(error))
                continue
            key = (variant.target, planned.plan.image.digest)
            if key not in problems:
                problems[key] = self._image_problem(planned)
            if problems[key]:
                self._drop(variant, *self._classified(variant, problems[key]))

    def _classified(self, variant: Variant, problem: str) -> tuple[Outcome, str]:
        """Whether an image that cannot be had is refused by its own probe: plans do not take it any more then."""
        try:
            self._planned(variant)
        except CannotPlan as error:
            return "refused", reason_of(error)
        return "failed", problem

    def _planned(self, variant: Variant) -> Planned:
        """The plan of a new run."""
        return self.plan(self.suite, variant, self.places[variant.target])

    def _look(self, variants: list[Variant]) -> None:
        """Finds out what the targets are: a build for the processor can be planned only for one that is known."""
        for name in dict.fromkeys(variant.target for variant in variants):
            place = self.places[name]
            self.say(f"inspecting the target {name}")
            with_data = any(variant.workload.dataset for variant in variants if variant.target == name)
            facts = self.executor.look(plan_look(place, with_data=with_data))
            self._facts[name] = facts
            self.places[name] = SuiteTarget(place.blueprint, place.request, facts["architecture"])

    def _image_problem(self, planned: Planned) -> str:
        entry = planned.plan.image.entry
        kind = "image" if planned.plan.image.container_runtime != "none" else "environment"
        self.say(f"{kind} {entry} ({planned.plan.image.digest[:12]})")
        try:
            self.executor.prepare(planned)
        except TargetUnreachable:
            raise
        except ModakError as error:
            return reason_of(error)
        return ""

    def _drop(self, variant: Variant, outcome: Outcome, reason: str) -> None:
        self.say(f"{variant} is {outcome}: {reason.splitlines()[0]}")
        self._leave_out(variant)
        if not self.history.is_recorded(variant, reason):
            target = self.places[variant.target].request.target
            facts = self._facts.get(variant.target)
            self._note(not_run(self.suite, variant, Turn(), target, facts, outcome, reason))

    def _leave_out(self, variant: Variant) -> None:
        self._left_out.setdefault(variant.group, set()).add(variant.name)

    # --- rounds

    def _round(self, block: Block, number: int, progress: Progress) -> None:
        attempt = self.history.attempt(block, number)
        disturbed = self.history.disturbed(block, number)
        while True:
            attempt, disturbed = attempt + 1, disturbed + 1
            if not self._attempt(block, Turn(number, 1, attempt), progress, is_last=disturbed >= self.attempts):
                return
            if disturbed >= self.attempts:
                self.say(f"{block.group}, round {number}: disturbed {disturbed} times; going on")
                return
            self.say(f"{block.group}, round {number}: the machine was busy; the round begins again")

    def _attempt(self, block: Block, turn: Turn, progress: Progress, *, is_last: bool) -> bool:
        """Runs a round once; tells whether it was disturbed, which ends it early unless it is the last try."""
        disturbed = False
        left_out = self._left_out.get(block.group, set())
        for position, variant in enumerate(
            (variant for variant in block.order(turn.round) if variant.name not in left_out), start=1
        ):
            record = self._run(variant, Turn(turn.round, position, turn.attempt), progress, block.rounds)
            disturbed = disturbed or record.outcome == "disturbed"
            if disturbed and not is_last:
                progress.repeats(position)
                return True
        return disturbed

    def _run(self, variant: Variant, turn: Turn, progress: Progress, rounds: int) -> Record:
        place, facts = self.places[variant.target], self._facts[variant.target]
        if self._strikes.get((variant.group, variant.name), 0) >= STRIKES:
            reason = f"{LEFT_OUT}: it failed {STRIKES} times before"
            record = not_run(self.suite, variant, turn, place.request.target, facts, "failed", reason)
            self._note(record)
            progress.ended(record, rounds)
            return record
        if is_this_machine(place.request.target):
            self.wait()
        planned = self._planned(variant)
        date = now()
        progress.begins()
        try:
            outcome = self.executor.run(planned)
        except KeyboardInterrupt:
            self._end(planned)
            raise Interrupted from None
        record = record_of(self.suite, variant, turn, date, planned.plan, facts, outcome)
        if record.outcome == "failed":
            key = (variant.group, variant.name)
            self._strikes[key] = self._strikes.get(key, 0) + 1
        self._note(record)
        progress.ended(record, rounds)
        return record

    def _end(self, planned: Planned) -> None:
        self.say("interrupted: ending the job that runs")
        try:
            self.executor.end(planned)
        except ModakError as error:
            self.say(f"the job may still run: {error.message}; modak undeploy {planned.plan.deployment} ends it")

    def _note(self, record: Record) -> None:
        self.file.append(record)
        self.history.add(record)
