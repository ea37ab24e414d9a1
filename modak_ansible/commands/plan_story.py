"""The whole story of a plan: every option of every matter, where each number comes from, and what is brought there."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from modak_ansible.commands.plan_facts import NUMERICS, clock, clocks, counted, factor, settings_of
from modak_ansible.model.plan import Candidate, Choice, Plan, Rejected


def plan_story(plan: Plan, width: int, model: str) -> str:
    """What the table leaves out.

    Args:
        plan: what is told.
        width: of a line, in characters.
        model: what the performance model rests on.
    """
    lines = ["", "Where the numbers come from", *_wrapped(model, width, 2)]
    for candidate in plan.candidates:
        lines += _candidate(candidate, width)
    lines += ["", "Every matter and all its options"]
    for choice in plan.choices:
        lines += ["", *_choice(choice, width)]
    lines += ["", "Brought to the target, in this order"]
    lines += [f"  {each.what:<8} {each.source} -> {plan.target.workspace}/{each.destination}" for each in plan.staging]
    return "\n".join(lines)


def plan_texts(plan: Plan) -> str:
    """The definitions of the image's layers and the job's script."""
    lines: list[str] = []
    for layer in plan.image.layers:
        lines += ["", f"Definition of {layer.name} ({layer.digest[:12]})", "", _indented(layer.definition)]
    return "\n".join([*lines, "", "Job script", "", _indented(plan.job.script)])


def _candidate(candidate: Candidate, width: int) -> list[str]:
    found = candidate.prediction
    if found is None:
        return []
    note = "chosen" if candidate.chosen else candidate.note
    lines = ["", *_wrapped(f"{candidate.entry}, {settings_of(candidate)}{f' ({note})' if note else ''}", width, 2)]
    known = "" if found.known else ", and not to be relied on"
    lines += _wrapped(
        f"{clock(found.seconds.middle)} ({clocks(found.seconds)}), {counted(found.records, 'record')}{known}", width, 4
    )
    lines += [
        f"      {name.replace('_', ' '):<12}{clock(each.middle)} ({clocks(each)})" for name, each in found.parts.items()
    ]
    return lines + [line for doubt in found.doubts for line in _wrapped(f"doubt: {doubt}", width, 6)]


def _choice(choice: Choice, width: int) -> Iterator[str]:
    stock = ", as stock has it" if choice.value == choice.stock else f"; stock: {choice.stock}" if choice.stock else ""
    yield f"  {choice.name.replace('_', ' ')}: {choice.value}{stock}"
    acts = f"; it acts by {choice.reaches}" if choice.reaches else ""
    yield from _wrapped(f"{choice.reason}; {NUMERICS[choice.numerics]}{acts}", width, 6)
    if choice.speed:
        yield from _wrapped(f"{factor(choice.speed)} of stock, {counted(choice.records, 'record')}", width, 6)
    if choice.evidence:
        yield from _wrapped(f"evidence: {choice.evidence}", width, 6)
    for each in choice.rejected:
        yield from _wrapped(_rejected(each), width, 6)


def _rejected(rejected: Rejected) -> str:
    speed = f" {factor(rejected.speed)}, {counted(rejected.records, 'record')}" if rejected.speed else ""
    return f"not {rejected.value}{speed}: {rejected.reason}"


def _wrapped(text: str, width: int, indent: int) -> list[str]:
    return textwrap.wrap(
        text,
        max(width, 60),
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + 2),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _indented(text: str) -> str:
    return "\n".join(f"    {line}".rstrip() for line in text.splitlines())
