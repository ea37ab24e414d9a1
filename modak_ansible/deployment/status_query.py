"""Asks the targets of many deployments how their jobs are: each target once for all of its own."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modak_ansible.deployment.playbook import Listener, run_playbook
from modak_ansible.deployment.status import Entry, may_live
from modak_ansible.store.deployment import DeploymentStore, queue_of
from modak_ansible.store.project import read_origin
from modak_ansible.store.record import ANSWERED
from modak_ansible.target.core.files import read_json
from modak_ansible.transport.ssh import Connection, Way, connect


@dataclass(frozen=True)
class _Group:
    """Deployments that are asked for together; the first one's plan says where."""

    entries: tuple[Entry, ...]
    variables: dict[str, object]

    def take(self, answer: dict[str, Any]) -> None:
        jobs, problem = answer.get("jobs", {}), answer.get("problem", "")
        for entry in self.entries:
            entry.problem = problem
            if not problem and entry.name in jobs:
                entry.answer, entry.asked = jobs[entry.name], time.monotonic()


def ask_targets(
    entries: Iterable[Entry], every: float = 0.0, heard: Callable[[], None] | None = None, *, inside: str = ""
) -> None:
    """Brings entries up to date by their targets; those whose end is known are not asked for.

    Args:
        entries: what is known; a target that does not answer is noted in those of its own.
        every: seconds between two looks, until all jobs have ended; 0 to look once.
        inside: whether those that run are measured (``usage``), or it is told how they are entered (``way``, and
            ``way=3`` into the container of rank 3).

    Raises:
        PlaybookError: Ansible could not be run.
        Enough: whoever hears raised it.
        KeyboardInterrupt: the user has seen enough.
    """
    groups = _groups([entry for entry in entries if may_live(entry.known)])
    if not groups:
        return
    with tempfile.TemporaryDirectory(prefix="modak-status-") as folder:
        hosts = {
            f"target{number}": {
                **group.variables,
                "job_deployments": " ".join(entry.name for entry in group.entries),
                "job_answer": str(Path(folder) / f"{number}.json"),
                "job_every": every,
                "job_inside": inside,
            }
            for number, group in enumerate(groups)
        }
        inventory = {"all": {"children": {"modak": {"hosts": hosts}}}}
        run_playbook("jobs", {}, _Answers(Path(folder), groups, heard), inventory=inventory)


class _Answers(Listener):
    """Takes what the targets answer: a listener for the playbook."""

    def __init__(self, folder: Path, groups: list[_Group], heard: Callable[[], None] | None) -> None:
        self._folder, self._groups, self._heard = folder, groups, heard

    def progress(self, stage: str, text: str) -> None:  # noqa: ARG002 - there is only one
        number, _, word = text.partition(" ")
        if word != ANSWERED:
            return
        self._groups[int(number)].take(read_json(self._folder / f"{number}.json") or {})
        if self._heard:
            self._heard()


def _groups(entries: list[Entry]) -> list[_Group]:
    """Entries by the way to their targets; those whose plan does not say it are left out."""
    found: dict[str, list[Entry]] = {}
    for entry in entries:
        try:
            origin = entry.known.origin
            queue = origin.get("queue") or queue_of(entry.known.plan, str(origin.get("blueprint")))
        except (KeyError, TypeError, AttributeError) as error:
            entry.problem = f"its plan is damaged: {error}"
            continue
        found.setdefault(str(queue), []).append(entry)
    groups = [_group(each) for each in found.values()]
    return [group for group in groups if group]


def connection_of(known: DeploymentStore) -> Connection:
    """The way to a deployment's target.

    Raises:
        OSError, ValueError, KeyError, TypeError: its files do not say it.
        ModakError: an identity file, or what stands in a testbed's folder, cannot be taken into an SSH configuration.
    """
    origin = read_origin(known.plan_file)
    way, folder = Way.of(known.plan["target"]), origin["blueprint"].parent
    return connect(way, origin["testbed"], folder, known.folder, origin["state"])


def _group(entries: list[Entry]) -> _Group | None:
    """The group of some deployments, by the first of them whose files say how its target is entered."""
    for entry in entries:
        plan_file = entry.known.plan_file
        try:
            connection = connection_of(entry.known)
        except (OSError, ValueError, KeyError, TypeError):
            continue
        variables = {**connection.ansible_variables(), "job_plan_file": str(plan_file)}
        return _Group(tuple(entries), variables)
    for entry in entries:
        entry.problem = "origin.json beside its plan cannot be read; deploy its blueprint again"
    return None
