"""What is known of a deployment's job; its end is kept beside its markers, for a scheduler forgets, or is silent."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Dict, List, Mapping, TypedDict

from ...schedulers.base import JobState
from ..core.files import NO_ROOM, read_json, write_json

_END = "end.json"
# Of a situation, what is looked up anew each time.
_FRESH = ("error_tail", "attempt")

# What is said of a job whose scheduler does not answer; and of all jobs that may live.
UNKNOWN = "UNKNOWN"
LIVING = (*(state.value for state in JobState if not state.is_final), UNKNOWN)
# A job in one of these notes nothing: what it noted is of a run that was before.
PENDING = (JobState.QUEUED, JobState.HELD)


class Progress(TypedDict, total=False):
    """What a training says of itself; what it does not say is left out."""

    step: int
    epoch: int  # the one that it is in, or was in last, from 1
    epochs: int  # that were asked of it
    loss: float
    accuracy: float  # 0 to 1
    crowded: str  # of ranks, which have fewer cores between them than threads
    slow: str  # of a training in many ranks, which one the others wait for
    numbers: Dict[str, float]  # by name, of a script that writes metrics in a form of its own
    remarks: List[str]  # what is wrong with those, in words


class LeftFiles(TypedDict):
    """Files that stay on the target."""

    count: int
    size: int
    names: List[str]


@dataclass
class Situation:
    """What is known of a deployment's job."""

    # one of JobState, or NONE before it was submitted, or UNKNOWN while the scheduler does not answer
    state: str = "NONE"
    job_id: str = ""
    exit_code: int | None = None
    signal: int | None = None
    reason: str = ""
    nodes: str = ""
    started: float | None = None  # when it began, in seconds since the epoch, by the clock that dates its files
    # when it noted its own end, else as its scheduler tells, else when it last wrote something; None while it lives,
    # and where it never began
    ended: float | None = None
    attempt: int = 1  # which one of the deployment it is, from 1
    run: int = 1  # which one it is of a job that its scheduler starts anew after it was stopped, from 1
    explanation: str = ""  # why it ended as it did, or why it waits
    held_by: str = ""  # of a held job ``user`` or ``operator``; empty where that is not known
    down: str = ""  # those of its nodes that its scheduler calls down, while it calls the job running
    error_tail: list[str] = field(default_factory=list)

    @property
    def is_final(self) -> bool:
        return self.state in {state.value for state in JobState if state.is_final}

    @property
    def is_living(self) -> bool:
        """Whether the job waits or runs, or nobody knows."""
        return self.state in LIVING

    @property
    def has_failed(self) -> bool:
        """Whether it ended without success."""
        return self.state not in ("NONE", JobState.COMPLETED, *LIVING)

    def is_news(self, state: str, explanation: str) -> bool:
        """Whether it differs from what somebody knows; why a job waits changes often, and is none."""
        return self.state != state or (state == JobState.RUNNING and self.explanation != explanation)

    @classmethod
    def of(cls, note: Mapping[str, Any] | None) -> Situation:
        """Out of what :func:`asdict` of it gave, perhaps of another version; of None it is that before any job."""
        names = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in (note or {}).items() if name in names})

    @property
    def words(self) -> str:
        """The job's state in words: ``job 12 is running on node01``."""
        if not self.job_id:
            return "no job was submitted"
        words = f"job {self.job_id} is {self.state.lower().replace('_', ' ')}"
        if self.nodes and self.state == "RUNNING":
            words += f" on {self.nodes}"
        return f"{words} ({self.explanation})" if self.explanation else words


def known_end(state: Path, now: Situation) -> Situation | None:
    """How a job was known to have ended; None where that is not known, or of another job, or of another run of it.

    Args:
        state: the folder of its markers.
        now: what they say; all that is newer than the end is taken from it.
    """
    note = read_json(state / _END) or {}
    lasting = {
        name: value for name, value in note.items() if name in Situation.__dataclass_fields__ and name not in _FRESH
    }
    if not lasting or (lasting.get("job_id"), lasting.get("started")) != (now.job_id, now.started):
        return None
    try:
        end = Situation(**{**asdict(now), **lasting})
        return end if end.is_final else None
    except TypeError:  # it is damaged
        return None


def note_end(state: Path, situation: Situation) -> None:
    """Notes how a job ended; of one that lives nothing is noted any more."""
    path = state / _END
    if not situation.is_final:
        path.unlink(missing_ok=True)
        return
    note = {name: value for name, value in asdict(situation).items() if name not in _FRESH}
    if read_json(path) != note:
        try:
            write_json(path, note)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise


class Forecast(TypedDict):
    """In seconds since the epoch."""

    said: float  # when it was made
    starts: float  # when the job was expected to begin, then or later


def forecast(starts: str) -> Forecast | None:
    """Made now, of a local time as schedulers have it; None where they do not say one."""
    now = time.time()
    try:
        moment = time.mktime(time.strptime(starts, "%Y-%m-%dT%H:%M:%S"))
    except (ValueError, OverflowError):
        return None
    return {"said": now, "starts": max(now, moment)}  # what still waits does not begin before
