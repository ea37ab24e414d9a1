"""What is known of a deployment's job, as it is told to whoever asks."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from ..schedulers.base import JobState


@dataclass
class Situation:
    """What is known of a deployment's job.

    Attributes:
        state: one of JobState, or NONE before it was submitted, or UNKNOWN while the scheduler does not answer.
        started: when it began, in seconds since the epoch, by the clock that dates its files.
        ended: when it noted its own end; None where it did not.
        attempt: which one of the deployment it is, from 1.
        run: which one it is of a job that its scheduler starts anew after it was stopped, from 1.
        explanation: why it ended as it did, or why it waits.
    """

    state: str = "NONE"
    job_id: str = ""
    exit_code: int | None = None
    signal: int | None = None
    reason: str = ""
    nodes: str = ""
    started: float | None = None
    ended: float | None = None
    attempt: int = 1
    run: int = 1
    explanation: str = ""
    error_tail: list[str] = field(default_factory=list)

    @property
    def is_final(self) -> bool:
        return self.state in {state.value for state in JobState if state.is_final}

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)
