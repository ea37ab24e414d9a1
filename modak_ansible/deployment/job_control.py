"""What is done to the jobs of deployments: over ssh, as act.yml and undeploy.yml do it, and no playbook is started."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from typing import cast

from modak_ansible.deployment.fetching import by_target
from modak_ansible.deployment.playbook import Listener, TaskResult
from modak_ansible.errors import ModakError
from modak_ansible.stages.base import Answer, Outcome, Stage, timed_stage
from modak_ansible.stages.jobs.operations import operate, remove_jobs
from modak_ansible.stages.jobs.reached import reached
from modak_ansible.store.deployment import DeploymentStore
from modak_ansible.target.jobs.actions import acted
from modak_ansible.target.jobs.operations import OperatedJob

# What is done for the deployments on a target, by the actions that do the same in a playbook.
_Outcomes = Iterator[tuple[str, Outcome]]


def act(stores: Sequence[DeploymentStore], state: str, listener: Listener | None = None) -> list[OperatedJob]:
    """Brings the jobs of deployments into a state, as far as theirs permit it, and gives what became of each.

    Args:
        state: cancelled, held, released or requeued.

    Raises:
        ModakError: none of a target's jobs permits it, or it cannot be asked; those of other targets are acted on.
        KeyboardInterrupt: the user, or a signal, ended it.
    """

    def perform(stages: list[Stage]) -> _Outcomes:
        yield "modak_job", operate(stages, state)

    return [job for answer in _on_targets(stores, perform, listener) for job in json.loads(answer["jobs"])]


def undeploy(
    stores: Sequence[DeploymentStore], listener: Listener | None = None, *, images: bool = False, leave: bool = False
) -> list[Answer]:
    """Cancels the jobs of deployments and removes their folders; a machine that was made ends with the last one on it.

    Args:
        images: whether those of their images go, too, that no other deployment on a target uses.
        leave: whether jobs that cannot be ended are left alone.

    Returns:
        What was done, in words as ``msg``, and whether that ``changed`` anything.

    Raises:
        ModakError: a job cannot be ended, or a target cannot be asked; what is on other targets is removed.
        KeyboardInterrupt: the user, or a signal, ended it.
    """

    def perform(stages: list[Stage]) -> _Outcomes:
        if stages[0].plan["target"].get("cloud"):
            from modak_ansible.stages.clouds import machines  # noqa: PLC0415 - slow to import

            outcome = machines.remove_machines(machines.machines_of(stages[0]), stages)
            yield "modak_machine", outcome
            if not outcome.data["there"]:
                return
        with timed_stage(stages[0], "job", keep=len(stages) == 1) as finish:
            outcome = remove_jobs(stages, remove_images=images, leave=leave)
            finish(outcome)
        yield "modak_job", outcome

    return _on_targets(stores, perform, listener)


def _on_targets(
    stores: Sequence[DeploymentStore], perform: Callable[[list[Stage]], _Outcomes], listener: Listener | None
) -> list[Answer]:
    """What the actions would answer.

    Raises:
        ModakError: it cannot be done on one of the targets; it was tried on all.
    """
    answers: list[Answer] = []
    problems: list[ModakError] = []

    def say(text: str) -> None:
        if listener:
            listener.progress("job", text)

    for group in by_target(stores):
        began = time.monotonic()
        try:
            with reached([store.plan_file for store in group], acted, say) as stages:
                for action, outcome in perform(stages):
                    seconds = round(time.monotonic() - began, 2)
                    answer = {"changed": outcome.changed, "msg": outcome.message, "seconds": seconds, **outcome.data}
                    answers.append(answer)
                    if listener:
                        listener.finished(action, cast(TaskResult, answer))
        except ModakError as error:
            problems.append(error)
    if problems:
        raise problems[0]
    return answers
