"""A plan as a table for people: what it will do, how fast that will be, and what was and was not taken."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from modak_ansible.commands.plan.facts import (
    NUMERICS,
    clock,
    clocks,
    facts_of,
    is_taken,
    measured,
    predicted,
    settings_of,
    target_of,
)
from modak_ansible.commands.wrapping import wrapped
from modak_ansible.model.plan import Candidate, Choice, Note, Plan, by_reason
from modak_ansible.model.quantities import counted
from modak_ansible.planning.costs.money import cost_words

_TITLE = 12
_NARROWEST = 60
# Matters that were not taken: those that might have been come first, and the rest is counted.
_SHOWN = 8
_LONGEST = 160


def plan_table(plan: Plan, width: int, *, with_rest: bool = True, energy: str = "") -> str:
    """The table, in lines of at most so many characters where no single word is longer.

    Args:
        with_rest: whether it says what was not taken.
        energy: what the run may use, in words; empty where nobody knows.
    """
    width = max(width, _NARROWEST)
    head, digest = f"{plan.name}: {plan.training} on {target_of(plan)}", f"plan {plan.digest[:12]}"
    space = width - len(head) - len(digest)
    lines = [f"{head}{' ' * space}{digest}"] if space > 1 else [head, digest]
    lines.append("")
    costs = cost_words(plan.cost, plan.job.walltime) if plan.cost else ""
    extra_facts = (("energy", energy), ("costs", costs))
    for title, text in (*facts_of(plan), ("predicted", predicted(plan)), *(fact for fact in extra_facts if fact[1])):
        lines += _row(title, text, width)
    lines += _not_kept(plan.notes, width)
    lines += _candidates(plan.candidates, width)
    lines += _scale(plan, width)
    lines += _taken([choice for choice in plan.choices if is_taken(choice)], width)
    lines += _not_taken(plan.choices, width) if with_rest else []
    return "\n".join(lines)


def trainings_table(plans: list[Plan], width: int) -> str:
    """All trainings of a blueprint, a line each: how long each takes, and what it has that stock has not."""
    name = max(len("training"), *(len(plan.training) for plan in plans))
    lines = [f"{plans[0].name}: {counted(len(plans), 'training')}", ""]
    lines.append(f"  {'training':<{name}}  {'time':>8}  {'interval':<18}  {'core-h':>6}  what differs from stock")
    for plan in plans:
        chosen = plan.chosen
        start = f"  {plan.training:<{name}}  {_times(chosen)}  "
        text = f"{chosen.entry}, {settings_of(chosen)}" if chosen else "nothing was compared"
        text += f"; after {', '.join(predecessor.training for predecessor in plan.after)}" if plan.after else ""
        lines += wrapped(text, max(width, len(start) + 30), start, " " * len(start))
    for plan in plans:
        lines += [f"    {plan.training}"] * bool(plan.notes) + _not_kept(plan.notes, width)[2:]
    return "\n".join([*lines, "", f"  {_together(plans)}; --training NAME shows more of one"])


def _together(plans: list[Plan]) -> str:
    """What all trainings take together, as far as it is known."""
    chosen = [candidate for plan in plans for candidate in plan.candidates if candidate.chosen and candidate.prediction]
    all_hours = [
        candidate.prediction.core_hours for candidate in chosen if candidate.prediction and candidate.prediction.known
    ]
    hours = [hour for hour in all_hours if hour is not None]
    if not hours:
        return "how long they take is not known"
    some = "" if len(hours) == len(plans) else f", as far as they are known: of {len(hours)} of {len(plans)}"
    return f"{sum(hours):.2g} core-hours are predicted{some}"


def _times(candidate: Candidate | None) -> str:
    prediction = candidate.prediction if candidate else None
    if prediction is None or not prediction.known:
        return f"{'unknown':>8}  {'':<18}  {'':>6}"
    hours = f"{prediction.core_hours:.2g}" if prediction.core_hours is not None else ""
    return f"{clock(prediction.seconds.middle):>8}  {clocks(prediction.seconds):<18}  {hours:>6}"


def _row(title: str, text: str, width: int) -> list[str]:
    return wrapped(text, width, f"  {title:<{_TITLE - 1}} ", " " * (_TITLE + 2))


def _not_kept(notes: Iterable[Note], width: int) -> list[str]:
    """The preferences that the plan does not keep, each by its path."""
    lines = []
    for note in notes:
        hint = f" ({note.hint})" if note.hint else ""
        lines += wrapped(f"{note.path}: {note.reason}{hint}", width, "    ", "      ")
    return ["", "  not kept", *lines] if lines else []


# --- candidates


def _candidates(candidates: Iterable[Candidate], width: int) -> list[str]:
    with_prediction = [candidate for candidate in candidates if candidate.prediction is not None]
    if not any(candidate.prediction and candidate.prediction.known for candidate in with_prediction):
        return []  # a table of times without a time
    chosen = next((candidate for candidate in with_prediction if candidate.chosen), with_prediction[0])
    lines = ["", f"  {'time':>8}  {'interval':<18}  {'core-h':>6}  {'numerics':<13}  candidates"]
    return lines + [line for candidate in with_prediction for line in _candidate(candidate, chosen, width)]


def _candidate(candidate: Candidate, chosen: Candidate, width: int) -> list[str]:
    mark = "*" if candidate.chosen else " "
    start = f"{mark} {_times(candidate)}  {candidate.numerics:<13}  "
    return wrapped(_what(candidate, chosen), width, start, " " * len(start))


def _what(candidate: Candidate, chosen: Candidate) -> str:
    """What a candidate is: all that differs from stock, or what differs from the one that was chosen."""
    if candidate is chosen:
        return f"{settings_of(candidate)} (chosen)"
    entry = [candidate.entry] if candidate.entry != chosen.entry else []
    if candidate.note == "stock":
        return ", ".join([*entry, "stock"])
    new = [f"with {name} {value}" for name, value in candidate.settings.items() if chosen.settings.get(name) != value]
    removed = [f"without {name} {value}" for name, value in chosen.settings.items() if name not in candidate.settings]
    what = ", ".join(entry + (new + removed if not entry else [settings_of(candidate)]))
    return f"{what} ({candidate.note})" if candidate.note else what


# --- nodes


def _scale(plan: Plan, width: int) -> list[str]:
    """The numbers of nodes that were weighed: of many the powers of two, with the one that is taken and the last.

    Where none could be, why it stays as asked.
    """
    if plan.scale is None:
        stays = next((choice for choice in plan.choices if choice.name == "scaling" and not is_taken(choice)), None)
        return ["", *_row("scaling", f"{stays.value}, as asked: {stays.reason}", width)] if stays else []
    last = plan.scale.curve[-1].nodes
    points = [
        point
        for point in plan.scale.curve
        if point.nodes & (point.nodes - 1) == 0 or point.nodes in (plan.job.nodes, last)
    ]
    lines = ["", f"    {'time':>8}  {'interval':<18}  {'core-h':>6}  {'efficiency':>10}  nodes, by {plan.scale.source}"]
    for point in points:
        mark = "*" if point.nodes == plan.job.nodes else " "
        hours = f"{point.core_hours:.2g}" if point.core_hours is not None else ""
        records = f", {counted(point.measured, 'run')} on record" if point.measured else ""
        times = f"{clock(point.seconds.middle):>8}  {clocks(point.seconds):<18}"
        shape = f"{point.nodes} x {point.processes // point.nodes}{records}"
        lines.append(f"  {mark} {times}  {hours:>6}  {point.efficiency:>10.2f}  {shape}")
    return lines


# --- choices


def _taken(choices: list[Choice], width: int) -> list[str]:
    lines = ["", "  taken"] if choices else []
    for choice in choices:
        speed = f"{measured(choice)}; " if choice.speed else ""
        how = f"{choice.value}: {speed}{NUMERICS[choice.numerics]}; {choice.reason}"
        lines += _row(_title(choice.name), how, width)
    return lines


def _not_taken(choices: Sequence[Choice], width: int) -> list[str]:
    """What was not taken, and why; a reason that options of several kinds share is told once."""
    shared = _shared(choices)
    rows = [(choice, _grouped(choice, shared)) for choice in choices]
    rows_to_show = [(choice, text) for choice, text in rows if text and not _says_all(choice)]
    rows_to_show.sort(key=lambda row: -_promise(row[0]))  # stable
    lines = ["", "  not taken"] if rows_to_show or shared else []
    for choice, text in rows_to_show[:_SHOWN]:
        lines += _row(_title(choice.name), text, width)
    for reason, options in shared.items():
        lines += _row("several", f"{', '.join(options)}: {reason}", width)
    other_names = [choice.name.replace("_", " ") for choice, _ in rows_to_show[_SHOWN:]]
    if other_names:
        lines += _row("", f"and of {', '.join(other_names)}; --explain shows all", width)
    return lines


def _shared(choices: Iterable[Choice]) -> dict[str, list[str]]:
    """Options of several kinds, by the reason that keeps all of them out."""
    rejections: dict[str, dict[str, list[str]]] = {}
    for choice in choices:
        for rejected in choice.rejected if not _says_all(choice) and choice.name != "image" else ():
            if not rejected.speed and not (is_taken(choice) and rejected.value == choice.stock):
                rejections.setdefault(rejected.reason, {}).setdefault(choice.name, []).append(rejected.value)
    return {
        reason: [f"{name.replace('_', ' ')} {' or '.join(values)}" for name, values in kinds.items()]
        for reason, kinds in rejections.items()
        if len(kinds) > 1
    }


def _says_all(choice: Choice) -> bool:
    """Whether what was taken says it all, since nothing is known of the speed of the others."""
    return is_taken(choice) and not any(rejected.speed for rejected in choice.rejected)


def _promise(choice: Choice) -> float:
    """The largest factor that something not taken was predicted to have; builds come last."""
    if choice.name == "image":
        return -1.0
    return max((rejected.speed.middle for rejected in choice.rejected if rejected.speed), default=0.0)


def _grouped(choice: Choice, shared: Container[str]) -> str:
    """The alternatives, those with a predicted speed each by itself, the others by their reasons."""
    rejected = [rejected for rejected in choice.rejected if not (is_taken(choice) and rejected.value == choice.stock)]
    with_speed = [f"{option.value} {measured(option)}: {option.reason}" for option in rejected if option.speed]
    without_speed = by_reason(option for option in rejected if not option.speed and option.reason not in shared)
    texts = [*with_speed, *(f"{', '.join(values)}: {reason}" for reason, values in without_speed.items())]
    first_texts = texts[:1]
    for text in texts[1:]:
        if len(" | ".join((*first_texts, text))) > _LONGEST:
            break
        first_texts.append(text)
    suffix = f" | and {len(texts) - len(first_texts)} more" if len(texts) > len(first_texts) else ""
    return " | ".join(first_texts) + suffix if first_texts else ""


def _title(name: str) -> str:
    return name.replace("_", " ").replace("memory format", "mem. format").replace("compare with", "vs.")
