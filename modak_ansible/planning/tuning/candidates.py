"""The configurations that the model cannot separate from the chosen one, in a fixed order."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations

from modak_ansible.model.tuning import TuningCandidate
from modak_ansible.optimisations.base import CannotPlan, Draft
from modak_ansible.planning.configurations import Configuration
from modak_ansible.planning.job import environment_of
from modak_ansible.planning.search import Chosen

MOST = 12  # in the first rung; with three times fewer in each, the last one compares two or three
LISTED = 24  # of which the combinations are tried whose parts were faster

Change = tuple[str, str]  # of one optimisation to one of its values


def candidates(chosen: Chosen) -> tuple[TuningCandidate, ...]:
    """The chosen configuration, the stock one, those that may be as fast and differ in one optimisation, and what
    these combine to.

    All of them live in the chosen image, and keep every preference and good practice. Where stock does not, it is only
    there to be compared with.
    """
    configurations = [chosen.best]
    only_compared = []
    plain = chosen.settle({"image": chosen.best.values["image"]})
    if not any(_runs_alike(chosen.stock, configuration) for configuration in (chosen.best, plain)):
        configurations.append(chosen.stock)
        only_compared.append(chosen.stock)
    is_worth_it = chosen.stock not in configurations or _is_open(chosen, plain)
    singles = _singles(chosen)
    alone: dict[Change, int] = {}  # the places of those that differ in one optimisation
    for change, configuration in ((None, plain), *singles) if is_worth_it else singles:
        if len(configurations) == MOST:
            break
        if not any(_runs_alike(configuration, other) for other in configurations):
            if change:
                alone[change] = len(configurations)
            configurations.append(configuration)
    parts: list[tuple[str, ...]] = [()] * len(configurations)
    for changes, configuration in _combined(chosen, list(alone)):
        if len(configurations) == LISTED:
            break
        if not any(_runs_alike(configuration, other) for other in configurations):
            configurations.append(configuration)
            parts.append(tuple(f"c{alone[change]}" for change in changes))
    return tuple(
        _candidate(chosen, configuration, number, may_win=configuration not in only_compared, parts=parts[number])
        for number, configuration in enumerate(configurations)
    )


def against_stock(chosen: Chosen) -> tuple[TuningCandidate, ...]:
    """The chosen configuration and the stock one; none where they are the same.

    Where stock breaks a preference, or takes more of the node than is its own, what does not comes third: it trains
    where stock is faster.
    """
    if _runs_alike(chosen.best, chosen.stock):
        return ()
    considerate = _considerate(chosen)
    is_kept = considerate is not None and _runs_alike(chosen.stock, considerate)
    pair = _candidate(chosen, chosen.best, 0, may_win=True), _candidate(chosen, chosen.stock, 1, may_win=is_kept)
    if considerate is None or is_kept or _runs_alike(chosen.best, considerate):
        return pair
    return *pair, _candidate(chosen, considerate, 2, may_win=True)


def _considerate(chosen: Chosen) -> Configuration | None:
    """What may train in the place of stock; None where the preferences want what stock has not."""
    try:
        return chosen.considerate()
    except CannotPlan:
        return None


def _singles(chosen: Chosen) -> list[tuple[Change, Configuration]]:
    """Those that differ in one optimisation, the most promising first."""
    singles = []
    for name, options in chosen.free.items():
        for option in options:
            configuration = _settled(chosen, {name: option.value})
            if configuration is None or configuration.values.get(name) != option.value:
                continue
            if option.value != chosen.best.values[name] and _is_open(chosen, configuration):
                singles.append(((name, option.value), configuration))
    return sorted(singles, key=lambda single: -_promise(chosen, single[1]))  # stable


def _combined(chosen: Chosen, singles: list[Change]) -> Iterator[tuple[tuple[Change, ...], Configuration]]:
    """All that changes combine to, those of the most promising first: of two, then of three, and so on."""
    for size in range(2, len(singles) + 1):
        for changes in combinations(singles, size):
            values = dict(changes)
            if len(values) < size or not (configuration := _settled(chosen, values)):
                continue
            is_whole = all(configuration.values.get(name) == value for name, value in changes)
            if is_whole and _is_open(chosen, configuration):
                yield changes, configuration


def _settled(chosen: Chosen, changes: Mapping[str, str]) -> Configuration | None:
    """The chosen configuration with other values; None where nothing can be planned beside them."""
    try:
        return chosen.settle({**chosen.best.values, **changes})
    except CannotPlan:
        return None


def _is_open(chosen: Chosen, configuration: Configuration) -> bool:
    gain = chosen.gain(chosen.best, configuration)
    return not gain.known or gain.ratio.high >= 1


def _promise(chosen: Chosen, configuration: Configuration) -> float:
    gain = chosen.gain(chosen.best, configuration)
    return gain.ratio.middle if gain.known else 1.0


def _runs_alike(one: Configuration, other: Configuration) -> bool:
    """Whether the same command runs in the same environment; where the data lie is no matter of single steps."""
    return (
        one.draft.environment == other.draft.environment
        and one.draft.arguments == other.draft.arguments
        and one.draft.choices == other.draft.choices
    )


def _candidate(
    chosen: Chosen, configuration: Configuration, number: int, *, may_win: bool, parts: tuple[str, ...] = ()
) -> TuningCandidate:
    # what is chosen may be shared by trainings whose arguments and environment differ
    draft = replace(configuration.draft, request=chosen.draft.request)
    own, samples = _samples(chosen.draft), _samples(draft)
    return TuningCandidate(
        name=f"c{number}",
        title=_title(chosen, configuration) if number else "the plan's choice",
        values=dict(configuration.values),
        settings={**draft.own, **draft.settings},
        numerics=configuration.numerics,
        environment=environment_of(draft),
        arguments=draft.arguments,
        threads=draft.threads,
        may_win=may_win,
        parts=parts,
        is_stock=_runs_alike(configuration, chosen.stock),
        total_steps=_total_steps(draft),
        work_per_step=samples / own if own and samples else 1.0,
    )


def _title(chosen: Chosen, configuration: Configuration) -> str:
    """What differs from the plan's choice."""
    changed = {name: value for name, value in configuration.values.items() if chosen.best.values.get(name) != value}
    words = ", ".join(f"{name} {value}" for name, value in changed.items())
    return f"stock: {words}" if configuration is chosen.stock else words


def _samples(draft: Draft) -> int | None:
    """Of a step of the optimiser, which may come after several batches."""
    batch = draft.question().work.batch_size
    return batch and batch * int(draft.settings.get("accumulation", 1))


def _total_steps(draft: Draft) -> int | None:
    work, samples = draft.request.application.work, _samples(draft)
    if not (work.epochs and work.samples and samples):
        return None
    return work.epochs * math.ceil(work.samples / samples)
