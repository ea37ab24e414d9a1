"""What this machine keeps of searches: of each its study, in which nothing that was known is lost, and how it is."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TypedDict, cast

from modak_ansible.errors import UsageError
from modak_ansible.store.deployment import DeploymentStore
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
    """How a search is, for whoever asks; the truth is its study."""

    training: str
    trials: int
    objective: str  # the name of the number, of which more is better where it is rising
    rising: bool
    states: dict[str, int]  # how many trials are in each of optuna's states, in lower case
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
            hint = "modak status shows how it is; Ctrl-C there, and this command goes on with it"
            raise UsageError("another modak deploy goes on with this search", hint=hint)
        if self.journal.exists():
            whole = self.journal.read_bytes().rpartition(b"\n")
            if whole[2]:
                os.truncate(self.journal, len(whole[0]) + len(whole[1]))
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    @property
    def state(self) -> SearchState | None:
        """None where it has not begun."""
        return cast("SearchState | None", read_json(self.folder / "search.json"))

    def note(self, state: SearchState) -> None:
        """Keeps how it is."""
        write_json(self.folder / "search.json", state)

    def begin_anew(self) -> None:
        """Sets the study aside, of which all was undeployed."""
        number = len(list(self.folder.glob("journal-*.log"))) + 1
        self.journal.rename(self.folder / f"journal-{number}.log")


def searches_of(stores: Iterable[DeploymentStore]) -> list[SearchState]:
    """How the searches are that some deployments are trials of, each once; those that cannot be read are left out."""
    trials = ((store, store.record.get("trial")) for store in stores)
    folders = {store.folder.parent.parent / FOLDER / trial["search"] for store, trial in trials if trial}
    return [state for folder in sorted(folders) if (state := SearchStore(folder).state)]


def shown(search: SearchState) -> str:
    """How a search is, in a line."""
    done = sum(count for state, count in search["states"].items() if state != "running")
    states = ", ".join(f"{count} {_WORDS.get(state, state)}" for state, count in sorted(search["states"].items()))
    best = search["best"]
    found = f"; best {search['objective']} {best['value']:.4g}: {best['training']}" if best else ""
    return f"search {search['training']}: {done} of {search['trials']} trials{f' ({states})' if states else ''}{found}"
