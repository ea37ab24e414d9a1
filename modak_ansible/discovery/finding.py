"""One line of a preflight: what was looked at, what was seen, and what to do about it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum


class State(StrEnum):
    """OK; WARNING: a deployment works, and something is worth knowing; MISSING: it does not."""

    OK = "ok"
    WARNING = "warning"
    MISSING = "missing"


@dataclass(frozen=True)
class Finding:
    about: str  # one or two words, such as ``rsync``
    state: State
    seen: str  # what was found
    todo: str = ""  # what to do; empty where all is well

    def as_json(self) -> dict[str, str]:
        return {name: str(value) for name, value in asdict(self).items()}


def ok(about: str, seen: str) -> Finding:
    return Finding(about, State.OK, seen)


def warning(about: str, seen: str, todo: str = "") -> Finding:
    return Finding(about, State.WARNING, seen, todo)


def missing(about: str, seen: str, todo: str) -> Finding:
    return Finding(about, State.MISSING, seen, todo)
