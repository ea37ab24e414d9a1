"""docs/errors.md: every kind of message that the code has for users, with its advice on what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

import modak_ansible.errors as codes
from generate import Writers, table, with_section
from generate.messages import Message, Source, errors, findings, rules
from modak_ansible.schedulers.base import JobState
from modak_ansible.target.jobs.markers import LIMITS

# In the order of the page: class, head, exit code.
_KINDS = {
    "CannotPlan": ("No plan fits", codes.INVALID_BLUEPRINT),
    "UsageError": ("The command line", codes.USAGE),
    "TargetUnreachable": ("The target cannot be reached", codes.TARGET_UNREACHABLE),
    "SchedulerAway": ("The scheduler does not answer", codes.TARGET_UNREACHABLE),
    "JobFailed": ("Jobs and trials that failed", codes.JOB_FAILED),
    "NotPermitted": ("A job's state does not allow it", codes.FAILED),
    "InvalidPackage": ("A package is refused", codes.INVALID_BLUEPRINT),
    "TimeIsOver": ("The time limit", codes.TIME_OVER),
    "ModakError": ("Everything else", codes.FAILED),
}


def _plain(text: str) -> str:
    """A text of a message in a sentence of Markdown."""
    return re.sub(r"([*_\[\]<>`|~])", r"\\\1", " ".join(text.split()))


def _code(text: str) -> str:
    return f"`{' '.join(text.replace('`', chr(39)).split())}`"


def _lines(messages: list[Message]) -> str:
    """A line a message; one without a hint is left out where the same stands with one."""
    hinted = {message.message for message in messages if message.hint}
    lines = [message for message in messages if message.hint or message.message not in hinted]
    lines.sort(key=lambda message: (re.sub(r"[^a-z]*(?:[A-Z_]{2,}|\.\.\.)[^a-z]*", "", message.message), message))
    return "\n".join(
        f"- {_code(message.message)}{': ' + _plain(message.hint) if message.hint else ''}" for message in lines
    )


def _rules() -> Iterator[str]:
    for name, messages in rules(Source.read()).items():
        yield f"### {name}"
        yield _lines(messages) if messages else "The message gives the value, and what it has to be."


def _errors() -> Iterator[str]:
    source = Source.read()
    by_kind: dict[str, list[Message]] = {}
    for name, messages in errors(source).items():
        by_kind.setdefault(_kind_of(name, source), []).extend(messages)
    for name, (head, code) in _KINDS.items():
        yield f"## {head}"
        yield f"{source.summary_of(name)} Exit code {code}."
        yield _lines(sorted(set(by_kind[name])))


def _kind_of(name: str, source: Source) -> str:
    """The nearest class of errors, upwards of one, that has a head of its own."""
    return name if name in _KINDS else _kind_of(source.errors[name], source)


def _findings() -> str:
    rows = [
        (f"{_plain(about)}", kind, _code(message.message.replace("|", "/")), _plain(message.hint))
        for about, of_one_thing in findings(Source.read()).items()
        for kind, message in of_one_thing
    ]
    return table(("about", "", "what was seen", "what to do"), *rows)


def _states() -> str:
    living = [state for state in JobState if not state.is_final]
    ended = [state for state in JobState if state.is_final and state is not JobState.COMPLETED]
    limits = "; ".join(LIMITS.values())
    return (
        f"A job that may still run is {_listed(living)}, or `UNKNOWN` while its scheduler does not answer. A job that "
        f"ended without success is {_listed(ended)}. `modak status` says why in its last column and, if the job "
        f"reached a limit, which one: *{limits}*. `modak logs` shows what it wrote, and `modak resume` runs it again."
    )


def _listed(states: list[JobState]) -> str:
    return ", ".join(f"`{state}`" for state in states)


@cache
def _all() -> str:
    return "\n\n".join(
        [
            "",
            "## Rules",
            "Errors in a blueprint, its inputs, a target file, a request, a suite or a script, by the name of the rule "
            "that they break. Exit code 3.",
            *_rules(),
            *_errors(),
            "## How jobs end",
            _states(),
            "Exit code 5.",
            "## What modak check finds",
            "A *missing* finding keeps a deployment from working, and the command ends with 1; a *warning* does not.",
            _findings(),
            "",
        ]
    )


FILES: Writers = {"docs/errors.md": lambda text: with_section(text, "messages", _all())}
