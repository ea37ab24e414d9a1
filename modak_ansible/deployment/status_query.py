"""Asks the targets of many deployments how their jobs are: each target once for all of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from threading import Event, Thread

from modak_ansible.deployment.status import StatusEntry, may_live, may_tell
from modak_ansible.errors import ModakError
from modak_ansible.stages.base import words_of_disk
from modak_ansible.stages.jobs.query import Asking, QueriedJob, ask_for_jobs
from modak_ansible.store.deployment import DeploymentStore
from modak_ansible.store.project import read_origin
from modak_ansible.transport.lifeline import signals_as_interrupts
from modak_ansible.transport.ssh import Connection, Way, connect


@dataclass(frozen=True)
class _Group:
    """Deployments that are asked for together; the first one's plan says where."""

    entries: tuple[StatusEntry, ...]
    asking: Asking

    def take(self, jobs: Mapping[str, QueriedJob], problem: str) -> None:
        for entry in self.entries:
            entry.problem = problem
            if not problem and entry.name in jobs:
                entry.answer, entry.asked = jobs[entry.name], time.monotonic()


def ask_targets(
    entries: Iterable[StatusEntry],
    every: float = 0.0,
    heard: Callable[[], None] | None = None,
    *,
    inside: str = "",
    meanwhile: Callable[[], object] = lambda: None,
) -> None:
    """Brings entries up to date by their targets, all at once; those whose end is known, and what they came to, are not
    asked for.

    Args:
        entries: what is known; a target that does not answer is noted in those of its own.
        every: seconds between two looks, until all jobs have ended; 0 to look once.
        heard: is called after each answer; what it raises ends the asking.
        inside: whether those that run are measured (``usage``), or it is told how they are entered (``way``, and
            ``way=3`` into the container of rank 3).
        meanwhile: is called while the targets are asked, once.

    Raises:
        KeyboardInterrupt: the user, or a signal, ended it.
    """
    has_news = may_live if every else may_tell  # a watch does not wait for a target that has only ends to tell
    groups = _groups([entry for entry in entries if has_news(entry.store)], every, inside)
    news: SimpleQueue[Callable[[], None] | BaseException | None] = SimpleQueue()
    over = Event()

    def listen(group: _Group) -> None:
        """Asks one target, in a thread of its own; what it says is taken by whoever asked."""
        ended: BaseException | None = None
        try:
            ask_for_jobs(group.asking, lambda *answer: news.put(partial(group.take, *answer)), over.wait)
        except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
            ended = error
        news.put(ended)

    threads = [Thread(target=listen, args=(group,), daemon=True) for group in groups]
    with signals_as_interrupts():
        try:
            for thread in threads:
                thread.start()
            meanwhile()
            running = len(threads)
            while running:
                new = news.get()
                if isinstance(new, BaseException):
                    raise new
                if new is None:
                    running -= 1
                    continue
                new()
                if heard:
                    heard()
        finally:
            over.set()


def _groups(entries: list[StatusEntry], every: float, inside: str) -> list[_Group]:
    """Entries by the way to their targets; those whose plan does not say it are left out."""
    by_queue: dict[str, list[StatusEntry]] = {}
    for entry in entries:
        try:
            queue = entry.store.queue
        except (KeyError, TypeError, AttributeError) as error:
            entry.problem = f"its plan is damaged: {error}"
            continue
        by_queue.setdefault(queue, []).append(entry)
    groups = [_group(group_entries, every, inside) for group_entries in by_queue.values()]
    return [group for group in groups if group]


def connection_of(store: DeploymentStore) -> Connection:
    """The way to a deployment's target.

    Raises:
        OSError, ValueError, KeyError, TypeError: its files do not say it.
        ModakError: an identity file, or what stands in a testbed's folder, cannot be taken into an SSH configuration.
    """
    origin = read_origin(store.plan_file)
    way, folder = Way.of(store.plan["target"]), origin["blueprint"].parent
    return connect(way, origin["testbed"], folder, store.folder, origin["state"])


def _group(entries: list[StatusEntry], every: float, inside: str) -> _Group | None:
    """The group of some deployments, by the first of them whose files say how its target is entered."""
    problem = "origin.json beside its plan cannot be read; deploy its blueprint again"
    for entry in entries:
        store = entry.store
        try:
            connection = connection_of(store)
        except ModakError as error:
            problem = str(error)
            continue
        except OSError as error:
            problem = words_of_disk(error)
            continue
        except (ValueError, KeyError, TypeError):
            continue
        records = {entry.name: entry.store.record for entry in entries}
        asking = Asking(connection, store.plan, store.folder.parent, [*records], every, inside, records)
        return _Group(tuple(entries), asking)
    for entry in entries:
        entry.problem = problem
    return None
