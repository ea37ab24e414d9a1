"""The one root of every error that a user sees: what is wrong, where, and what to do about it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

# Exit codes of the modak command; the table of docs/errors.md lists them.
FAILED = 1
USAGE = 2
INVALID_BLUEPRINT = 3
TARGET_UNREACHABLE = 4
JOB_FAILED = 5
TIME_OVER = 6
INTERRUPTED = 130


class Location(NamedTuple):
    """A place in a file; lines and columns count from 1, and 0 means that the whole file is meant."""

    path: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}" if self.line else self.path


class Mistake(NamedTuple):
    """One thing wrong in a blueprint or an inputs file, with the rule that it breaks."""

    location: Location
    rule: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        hint = f" ({self.hint})" if self.hint else ""
        return f"{self.location}: {self.rule}: {self.message}{hint}"


class ModakError(Exception):
    """An error for the user: never shown as a traceback."""

    exit_code = FAILED

    def __init__(self, message: str, *, location: Location | None = None, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.location = location
        self.hint = hint

    def __str__(self) -> str:
        place = f"{self.location}: " if self.location else ""
        hint = f"\n  {self.hint}" if self.hint else ""
        return f"{place}{self.message}{hint}"


class UsageError(ModakError):
    """The command line asks for something that cannot be done as written."""

    exit_code = USAGE


class InvalidBlueprint(ModakError):
    """A blueprint, its inputs or a file that it names is wrong; carries every mistake that was found."""

    exit_code = INVALID_BLUEPRINT

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        self.mistakes = sorted(mistakes, key=lambda mistake: (mistake.location, mistake.rule))
        super().__init__("\n".join(str(mistake) for mistake in self.mistakes))


class CannotPlan(ModakError):
    """A request that no plan fits.

    Attributes:
        about: the part of the request, such as ``resources.nodes``.
        optional: whether a plan without that part would serve: it is then left out, unless strictness is asked for.
    """

    exit_code = INVALID_BLUEPRINT

    def __init__(self, about: str, message: str, hint: str = "", *, optional: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.about = about
        self.optional = optional


class TargetUnreachable(ModakError):
    """The target refuses, does not answer, or is not the host that it was."""

    exit_code = TARGET_UNREACHABLE


class LoginRefused(TargetUnreachable):
    """The target no longer lets the user in without a prompt, or never did."""


class NotReached(ModakError):
    """An address that does not answer where it is asked: another machine may reach it."""


class SchedulerAway(ModakError):
    """The target can be reached, and its scheduler does not answer."""

    exit_code = TARGET_UNREACHABLE


class JobFailed(ModakError):
    """The job ended without success."""

    exit_code = JOB_FAILED


class TimeIsOver(ModakError):
    """The time limit that the user set is over; what runs on the target goes on."""

    exit_code = TIME_OVER


def harmless(text: str) -> str:
    """A text for a terminal: what a terminal would obey, such as an escape sequence, stands there as it is written."""
    return "".join(
        character if character.isprintable() or character in "\n\t" else character.encode("unicode_escape").decode()
        for character in text
    )


def unwrapped(error: Exception) -> str:
    """Why another machine could not be asked, without what Python wraps the reason in."""
    reason = getattr(error, "reason", None) or error
    return str(getattr(reason, "strerror", None) or reason)


def last_line(text: str, otherwise: str = "no reason given") -> str:
    """The last line of what a program said that says anything, which mostly tells why it failed."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else otherwise


def close_to(name: str, valid: Iterable[str]) -> str:
    """The name that one was mistyped from, as it seems; empty where none is near."""
    close = difflib.get_close_matches(name, sorted(set(valid)), n=1, cutoff=0.8)
    return close[0] if close else ""


# How a hint begins that has a near name.
NEAR = "did you mean "


def visible(name: str) -> str:
    """A name for a message: in quotes where nothing would be seen of it."""
    return name if name.strip() else repr(name)


_SURELY = 0.8  # how alike a name is that was mistyped


def nearest(name: str, valid: Iterable[str]) -> str:
    """A hint with the nearest valid name, or with all of them when none is near and they are few."""
    names = sorted(set(valid))
    if not names:
        return ""
    lowered = {name.lower(): name for name in names}
    close = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.5)
    # a part of a name is meant for the name that has it, cores for cores per process, not for nodes
    holding = [known for lower, known in lowered.items() if name.lower() in re.split(r"[\W_]+", lower)]
    if len(holding) == 1 and not (close and difflib.SequenceMatcher(None, close[0], name.lower()).ratio() > _SURELY):
        return f"{NEAR}{holding[0]}?"
    if close:
        return f"{NEAR}{lowered[close[0]]}?"
    # the last part of a dotted type name is what people remember
    last = {name.rsplit(".", 1)[-1].lower(): name for name in names}
    close = difflib.get_close_matches(name.rsplit(".", 1)[-1].lower(), last, n=1, cutoff=0.6)
    if close:
        return f"{NEAR}{last[close[0]]}?"
    return f"valid: {', '.join(names)}" if len(names) <= 12 else ""
