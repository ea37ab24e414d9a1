"""The whole story of a plan: where its numbers come from, every option, and what is brought to the target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from modak_ansible.commands.plan.facts import NUMERICS, clock, clocks, measured, settings_of
from modak_ansible.commands.wrapping import wrapped
from modak_ansible.model.plan import Candidate, Choice, Plan, by_reason
from modak_ansible.model.quantities import counted


def plan_story(plan: Plan, width: int, model: str) -> str:
    """What the table leaves out.

    Args:
        model: what the performance model rests on.
    """
    lines = ["", "Where the numbers come from", *_wrapped(model, width, 2)]
    lines += _candidates([candidate for candidate in plan.candidates if candidate.prediction], width)
    shown_choices = [choice for choice in plan.choices if choice.rejected or choice.value != choice.stock]
    lines += ["", "Every option (modak_ansible/optimisations has a page on each)"]
    for choice in shown_choices:
        lines += _choice(choice, width)
    defaults = [
        f"{choice.name.replace('_', ' ')} {choice.value}" for choice in plan.choices if choice not in shown_choices
    ]
    if defaults:
        lines += _wrapped(f"at their defaults, with no alternative here: {', '.join(defaults)}", width, 2)
    lines += ["", "Copied to the target, in this order", *_brought(plan)]
    return "\n".join(lines)


def _brought(plan: Plan) -> Iterator[str]:
    """A line for each image and dataset, and one for all files of the script."""
    workspace, code = plan.target.workspace, [item for item in plan.staging if item.what == "code"]
    for item in plan.staging:
        if item.what != "code":
            yield f"  {item.what:<8} {item.source} -> {workspace}/{item.destination}"
    if code:
        folder = plan.application.folder or "."
        yield f"  {'code':<8} {folder}, {counted(len(code), 'file')} -> {workspace}/deployments/*/code"


def plan_texts(plan: Plan) -> str:
    """The definitions of the image's layers and the job's script."""
    lines: list[str] = []
    for layer in plan.image.layers:
        lines += ["", f"Definition of {layer.name} ({layer.digest[:12]})", "", _indented(layer.definition)]
    return "\n".join([*lines, "", "Job script", "", _indented(plan.job.script)])


def _candidates(candidates: Sequence[Candidate], width: int) -> list[str]:
    """What is predicted of each candidate, in a line or two, and before them the doubts that all share."""
    doubts = [candidate.prediction.doubts for candidate in candidates if candidate.prediction]
    if not any(candidate.prediction and candidate.prediction.known for candidate in candidates):
        return []  # the table has said why
    shared = [doubt for doubt in doubts[0] if all(doubt in own_doubts for own_doubts in doubts)]
    lines = [""]
    for candidate in candidates:
        lines += _wrapped(_candidate(candidate, shared), width, 2)
    if shared:
        of_all = " of all of them" if len(candidates) > 1 else ""
        lines += ["", f"  doubtful{of_all}:", *(line for doubt in shared for line in _wrapped(f"- {doubt}", width, 4))]
    return lines


def _candidate(candidate: Candidate, shared: Sequence[str]) -> str:
    prediction = candidate.prediction
    assert prediction is not None  # noqa: S101 - the others are left out
    note = "chosen" if candidate.chosen else candidate.note
    text = f"{candidate.entry}, {settings_of(candidate)}{f' ({note})' if note and note != 'stock' else ''}: "
    own_doubts = [doubt for doubt in prediction.doubts if doubt not in shared]
    if prediction.known:
        parts = ", ".join(f"{name.replace('_', ' ')} {clock(part.middle)}" for name, part in prediction.parts.items())
        text += (
            f"{clock(prediction.seconds.middle)} ({clocks(prediction.seconds)}), "
            f"{counted(prediction.records, 'record')}"
        )
        text += f"; of which {parts}" if parts else ""
    else:
        text += "time not known"
    return text + "".join(f"; {doubt}" for doubt in own_doubts)


def _choice(choice: Choice, width: int) -> Iterator[str]:
    stock = " (stock)" if choice.value == choice.stock else f" (stock: {choice.stock})" if choice.stock else ""
    place = f", set in the {choice.reaches}" if choice.reaches else ""
    speed = f"; {measured(choice, ' of stock')}" if choice.speed else ""
    evidence = f"; {choice.evidence}" if choice.evidence and not choice.evidence.endswith(f"/{choice.name}.md") else ""
    name = choice.name.replace("_", " ")
    text = f"{name} {choice.value}{stock}: {choice.reason}{speed}; {NUMERICS[choice.numerics]}{place}{evidence}"
    yield from _wrapped(text, width, 2)
    for reason, values in by_reason(rejected for rejected in choice.rejected if not rejected.speed).items():
        yield from _wrapped(f"not {', '.join(values)}: {reason}", width, 6)
    for rejected in choice.rejected:
        if rejected.speed:
            yield from _wrapped(f"not {rejected.value}, {measured(rejected)}: {rejected.reason}", width, 6)


def _wrapped(text: str, width: int, indent: int) -> list[str]:
    return wrapped(text, max(width, 60), " " * indent, " " * (indent + 2))


def _indented(text: str) -> str:
    return "\n".join(f"    {line}".rstrip() for line in text.splitlines())
