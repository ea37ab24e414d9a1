"""From when on a log is shown: the last minutes, a moment, or a number of lines."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

from modak_ansible.errors import UsageError

Line = TypeVar("Line", str, bytes)
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_AMOUNT = re.compile(r"(\d{1,9})([smhd]?)", re.ASCII)
_CLOCK = ("%H:%M", "%H:%M:%S")
_HINT = "such as 10m, 2h, 14:30, 2026-11-21T14:30, or 100 for the last 100 lines"


@dataclass(frozen=True)
class LogStart:
    """Either is None."""

    lines: int | None = None  # how many of the last lines
    moment: float | None = None  # from when on, in seconds since the epoch

    def last(self, lines: list[Line]) -> list[Line]:
        """The last of some lines, as many as are asked for; all where no number is said."""
        return lines if self.lines is None else lines[max(0, len(lines) - self.lines) :]


def read_since(text: str) -> LogStart:
    """Reads ``100`` (lines), ``10m`` (or s, h, d), ``14:30`` (the last time it was that) or an ISO date and time.

    Raises:
        UsageError: it is none of them.
    """
    amount = _AMOUNT.fullmatch(text)
    if amount and not amount.group(2):
        return LogStart(lines=int(amount.group(1)))
    if amount:
        return LogStart(moment=time.time() - int(amount.group(1)) * _UNITS[amount.group(2)])
    moment = _clock(text) or _date(text)
    if moment is None:
        raise UsageError(f"--since {text} is neither a time nor a number of lines", hint=_HINT)
    return LogStart(moment=moment.timestamp())


def _clock(text: str) -> datetime | None:
    now = datetime.now()
    for form in _CLOCK:
        try:
            clock = datetime.strptime(text, form)
        except ValueError:
            continue
        moment = now.replace(hour=clock.hour, minute=clock.minute, second=clock.second, microsecond=0)
        return moment if moment <= now else moment - timedelta(days=1)
    return None


def _date(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
        moment.timestamp()
    except (ValueError, OverflowError, OSError):
        return None
    return moment
