"""One line a run, with what it measured and how long the rest may take."""

from __future__ import annotations

import time

from modak_ansible.measuring.statistics import summary
from modak_ansible.model.measured.record import Record
from modak_ansible.model.quantities import format_seconds
from modak_ansible.transport.rsync import Say


class Progress:
    """Counts the runs of a suite.

    Args:
        runs: how many there will be, should none be repeated.
        say: shows a line.
    """

    def __init__(self, runs: int, say: Say) -> None:
        self._runs = runs
        self._say = say
        self._ended = 0
        self._durations: list[float] = []
        self._began = time.monotonic()

    def begins(self) -> None:
        """A job is about to run."""
        self._began = time.monotonic()

    def repeats(self, runs: int) -> None:
        """So many runs that have ended are to be run once more."""
        self._ended -= runs

    def ended(self, record: Record, rounds: int) -> None:
        """Shows what a run amounts to."""
        self._ended += 1
        if record.plan:
            self._durations.append(time.monotonic() - self._began)
        left = max(0, self._runs - self._ended)
        estimate = format_seconds(left * summary(self._durations).median) if self._durations and left else ""
        self._say(
            f"{record.group}  {record.variant}  round {record.round}/{rounds}  {result(record)}"
            + (f"  (about {estimate} left)" if estimate else "")
        )


def result(record: Record) -> str:
    """What a run measured, in a few words; or why it did not."""
    if record.outcome in ("failed", "refused"):
        return f"{record.outcome}: {record.reason.splitlines()[0]}"
    words = "; ".join(_measures(record))
    if record.training and (epochs := record.training.steady or record.training.epochs):
        seconds = summary(epoch.seconds for epoch in epochs).median
        rate = summary(epoch.images_per_second for epoch in epochs).median
        words = f"{seconds:.3g} s an epoch, {rate:.4g} images/s"
    return f"{words}  disturbed: {record.reason}" if record.outcome == "disturbed" else words


def _measures(record: Record) -> list[str]:
    texts = [f"{measure.name} {summary(measure.samples).median:.4g} {measure.unit}" for measure in record.measures]
    return [*texts[:3], *(["..."] if len(texts) > 3 else [])]
