"""What jobs have left, brought here: targets are asked over ssh, and no playbook is started."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

from modak_ansible.deployment.playbook import Listener
from modak_ansible.errors import JobFailed, ModakError, TargetUnreachable, TimeIsOver
from modak_ansible.stages.base import Answer, stages_of, timed_stage
from modak_ansible.stages.jobs.campaign import counts
from modak_ansible.stages.jobs.results import fetch, look
from modak_ansible.stages.report import report
from modak_ansible.stages.results import wanted_files
from modak_ansible.store.deployment import DeploymentStore
from modak_ansible.store.record import DeploymentRecord
from modak_ansible.target.jobs.situation import Situation
from modak_ansible.transport.lifeline import signals_as_interrupts


def fetch_results(*stores: DeploymentStore, listener: Listener | None = None) -> None:
    """Brings the results of deployments here; how their jobs ended is no error here.

    Raises:
        ModakError: a target cannot be asked, or a file did not arrive as it left; what others left is here then.
        KeyboardInterrupt: the user, or a signal, ended it.
    """
    problems = []
    with signals_as_interrupts():
        for group in by_target(stores):
            try:
                target = _Target(group, listener)
                target.look()
                target.fetch()
            except ModakError as error:
                problems.append(error)
    if problems:
        raise problems[0]


def fetch_if_completed(
    stores: Sequence[DeploymentStore], listener: Listener | None, deadline: float | None
) -> int | None:
    """Brings what is not here of deployments whose jobs have completed, which needs neither images nor data.

    Args:
        deadline: when it is to end, by time.monotonic(); then nothing is brought, which may take long.

    Returns:
        On how many targets anything had to be brought; None where nothing was done: a job may not have completed, or is
        not there any more, a machine would have to be made, or something be brought in time.

    Raises:
        ModakError: as ``fetch_results``.
        TimeIsOver: the deadline came first.
        KeyboardInterrupt: the user, or a signal, ended it.
    """
    if not all(map(_is_said_to_have_completed, stores)):
        return None
    with signals_as_interrupts():
        targets = [_Target(group, listener) for group in by_target(stores)]
        try:
            for target in targets:
                target.look(deadline)
        except TargetUnreachable:
            if deadline is not None and time.monotonic() > deadline:
                raise TimeIsOver("the time limit is over") from None
            raise
        if not all(target.has_completed for target in targets):
            return None
        if deadline is not None and any(target.lacks_files for target in targets):
            return None
        for store in stores:
            DeploymentRecord(store.folder).note_unchanged("dataset", "image", "job")
        return sum([target.fetch() for target in targets])


def _is_said_to_have_completed(store: DeploymentStore) -> bool:
    record = store.record_now()
    has_completed = (record.get("job") or {}).get("state") == "COMPLETED" and not record.get("undeployed")
    return has_completed and store.is_brought and not store.plan["target"].get("cloud")


class _Target:
    """A target, and what deployments there left.

    Args:
        stores: of the deployments.
        listener: is told what was found.
    """

    def __init__(self, stores: Sequence[DeploymentStore], listener: Listener | None) -> None:
        self._listener = listener
        files = [store.plan_file for store in stores]
        self._stages = stages_of(files, lambda _: self._listed, self._say, noted_as="results")
        self._answer: Answer = {}

    def look(self, deadline: float | None = None) -> None:
        began = time.monotonic()
        self._answer = look(self._stages, None if deadline is None else max(0.0, deadline - began))
        states = Counter(job["situation"]["state"] for job in self._answer["jobs"])
        only = self._answer["jobs"][0]["situation"] if len(self._stages) == 1 else None
        words = Situation.of(only).words if only else counts(states)
        self._tell("modak_job", began, msg=words, changed=False)

    @property
    def has_completed(self) -> bool:
        """Whether all jobs have, by the target's word, and their folders are there."""
        return all(job["there"] and job["situation"]["state"] == "COMPLETED" for job in self._answer["jobs"])

    @property
    def lacks_files(self) -> bool:
        """Whether anything is not here as it is there."""
        return any(wanted_files(stage, self._answer["listed"][stage.deployment]) for stage in self._stages)

    def fetch(self) -> bool:
        """Brings what is not here, and tells whether there was any."""
        began = time.monotonic()
        if all(stage.store.job.get("state", "NONE") == "NONE" for stage in self._stages):
            return False  # no job was submitted; another command may be on the way to that
        outcome = fetch(self._stages)
        self._tell("modak_results", began, msg=outcome.message, changed=outcome.changed)
        if len(self._stages) == 1:
            with suppress(JobFailed), timed_stage(self._stages[0], "report") as finish:
                finish(report(self._stages))
        return outcome.changed

    def _listed(self, *_: object, **__: object) -> Answer:
        """What the module of the results would answer is known."""
        return self._answer

    def _say(self, text: str) -> None:
        if self._listener:
            self._listener.progress("results", text)

    def _tell(self, action: str, began: float, *, msg: str, changed: bool) -> None:
        if self._listener:
            seconds = round(time.monotonic() - began, 2)
            self._listener.finished(action, {"msg": msg, "changed": changed, "seconds": seconds})


def by_target(stores: Sequence[DeploymentStore]) -> list[list[DeploymentStore]]:
    """Those that are in one folder here, and on one target."""
    groups: dict[tuple[object, ...], list[DeploymentStore]] = {}
    for store in stores:
        try:
            queue = store.queue
        except (KeyError, TypeError, AttributeError):  # its plan is damaged, which is said where it is read
            queue = store.name
        groups.setdefault((queue, store.folder.parent), []).append(store)
    return list(groups.values())
