"""What this machine keeps of searches: of each its study, in which nothing that was known is lost, and how it is."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypedDict, cast

from modak_ansible.errors import UsageError
from modak_ansible.store.deployment import FOLDER as DEPLOYMENTS
from modak_ansible.store.deployment import DeploymentStore
from modak_ansible.store.shapes import fits
from modak_ansible.target.core.files import Lock, make_private, read_json, write_json

FOLDER = "searches"
# What optuna calls otherwise.
_WORDS = {"complete": "completed", "fail": "failed"}


class Best(TypedDict):
    """The best trial so far."""

    training: str
    deployment: str
    value: float


class SearchState(TypedDict):
    """How a search is, for whoever asks; the truth is its study.

    Its state is running where a command goes on with it, completed where all trials have ended, and else stopped.
    Its trials' states are optuna's, in lower case; where nobody goes on with it, ended and undeployed, too.
    """

    training: str
    trials: int
    objective: str  # the name of the number, of which more is better where it is rising
    rising: bool
    state: str
    states: dict[str, int]  # how many trials are in each
    running: list[str]  # the deployments of those that are
    best: Best | None


class SearchStore:
    """The files of a search.

    Args:
        folder: they are in.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.journal = folder / "journal.log"
        self._lock = Lock(folder / ".lock")

    def __enter__(self) -> SearchStore:
        """Keeps others from going on with the search, and mends a journal whose writer was killed in the last line.

        Raises:
            UsageError: another command goes on with it.
        """
        make_private(self.folder)
        if not self._lock.take(wait=False):
            hint = "modak status shows its progress; after Ctrl-C there, this command continues it"
            raise UsageError("another modak deploy is running this search", hint=hint)
        if self.journal.exists():
            whole_lines = self.journal.read_bytes().rpartition(b"\n")
            if whole_lines[2]:
                os.truncate(self.journal, len(whole_lines[0]) + len(whole_lines[1]))
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    @property
    def state(self) -> SearchState | None:
        """None where it has not begun, or cannot be read."""
        document = {"running": [], **(read_json(self.folder / "search.json") or {})}
        if not fits(SearchState)(document):
            return None
        saved_state = cast(SearchState, document)
        if self._lock.is_taken():
            return saved_state
        # what became of trials since a command went on with them, their deployments' records tell
        current_states = [self._state_of(name) for name in saved_state["running"]]
        states = Counter(saved_state["states"])
        states.subtract({"running": len(current_states)})
        states.update(current_states)
        counts = {state: count for state, count in states.items() if count > 0}
        running = [
            name for name, state in zip(saved_state["running"], current_states, strict=True) if state == "running"
        ]
        state = "completed" if _over(counts) >= saved_state["trials"] else "stopped"
        return {**saved_state, "state": state, "states": counts, "running": running}

    def _state_of(self, deployment: str) -> str:
        store = DeploymentStore(self.folder.parent.parent / DEPLOYMENTS / deployment)
        if store.record_now().get("undeployed") or not store.is_there:
            return "undeployed"
        return "ended" if store.has_ended else "running"

    def note(self, state: SearchState) -> None:
        """Keeps how it is."""
        write_json(self.folder / "search.json", state)

    def begin_anew(self) -> None:
        """Sets the study aside, of which all was undeployed."""
        number = len(list(self.folder.glob("journal-*.log"))) + 1
        self.journal.rename(self.folder / f"journal-{number}.log")


def searches_of(stores: Iterable[DeploymentStore]) -> list[SearchState]:
    """How the searches are that some deployments are trials of, each once; those that cannot be read are left out."""
    folders = {folder for store in stores if (folder := _folder_of(store))}
    return [state for folder in sorted(folders) if (state := SearchStore(folder).state)]


def search_of(store: DeploymentStore) -> SearchState | None:
    """How the search is that a deployment is a trial of; None where it is none, or cannot be read."""
    folder = _folder_of(store)
    return SearchStore(folder).state if folder else None


def _folder_of(store: DeploymentStore) -> Path | None:
    trial = store.record.get("trial")
    return store.folder.parent.parent / FOLDER / trial["search"] if trial else None


def _over(states: Mapping[str, int]) -> int:
    """How many trials count as such in the study, and have ended."""
    return sum(states.get(state, 0) for state in ("complete", "pruned", "fail"))


def shown(search: SearchState) -> str:
    """How a search is, in a line."""
    finished = _over(search["states"])
    counts = [f"{count} {_WORDS.get(state, state)}" for state, count in sorted(search["states"].items())]
    words = f"search {search['training']}: {finished} of {search['trials']} trials"
    words += f" ({', '.join(counts)})" if counts else ""
    if best := search["best"]:
        words += f"; best {search['objective']} {best['value']:.4g}: {best['training']}"
    return f"{words}; nothing continues it now: modak deploy does" if search["state"] == "stopped" else words
