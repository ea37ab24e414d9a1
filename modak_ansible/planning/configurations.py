"""Whole configurations of a plan: a value for every optimisation, made by letting each optimisation act on a draft."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from modak_ansible.model.measured.prediction import Question
from modak_ansible.optimisations import optimisations
from modak_ansible.optimisations.base import NUMERICS, CannotPlan, Draft, Numerics, Optimisation, Option
from modak_ansible.optimisations.code import framework_of

IMAGE = "image"
MOVES = {"same": "keeps results", "reassociation": "sums in another order", "any": "changes results"}


@dataclass
class Configuration:
    """A draft with a value for every optimisation, and the options that there were."""

    draft: Draft
    values: dict[str, str]
    options: dict[str, tuple[Option, ...]]

    @property
    def build(self) -> str:
        return self.values[IMAGE]

    @cached_property
    def key(self) -> tuple[tuple[str, str], ...]:
        return tuple(self.values.items())

    @cached_property
    def question(self) -> Question:
        return self.draft.question()

    @property
    def numerics(self) -> Numerics:
        """How far its results may move from those of stock."""
        return max((self.option(name).numerics for name in self.values), key=NUMERICS.index)

    def option(self, name: str) -> Option:
        return next(option for option in self.options[name] if option.value == self.values[name])


class _Open(NamedTuple):
    """What is open in one: its options, the value that records cannot change, and what is wrong with a preference."""

    options: tuple[Option, ...]
    fixed: str = ""
    problem: CannotPlan | None = None
    instead: tuple[Option, ...] = ()  # of the default, where records of the very work tell that it is faster
    is_optional: bool = False


# From an optimisation, what is open in it, and nothing else, to a value.
_Pick = Callable[[Optimisation, _Open], str]


class Configurations:
    """Makes configurations of one request; what an optimisation said once, it is not asked again.

    Args:
        start: a draft in which nothing is decided.

    Raises:
        CannotPlan: no build fits, or the one that is asked for cannot be had.
    """

    def __init__(self, start: Draft) -> None:
        all_optimisations = optimisations()
        self.start = start
        self.image = next(optimisation for optimisation in all_optimisations if optimisation.name == IMAGE)
        self.optimisations = tuple(
            optimisation
            for optimisation in all_optimisations
            if optimisation.name != IMAGE and _concerns(optimisation, start)
        )
        self._reads = {
            optimisation.name: _reads(optimisation, all_optimisations) for optimisation in self.optimisations
        }
        self._allowed = NUMERICS.index(start.request.optimisation.numerics)
        self._drafts: dict[str, Draft] = {}
        self._open: dict[tuple[str | None, ...], _Open] = {}
        self.builds = self.image.options(start)
        requested, problem = self._requested(self.image, start, self.builds)
        if problem:
            raise problem
        self.names = (requested,) if requested else tuple(build.value for build in self.builds if self.may(build))

    @property
    def allowed(self) -> Numerics:
        return NUMERICS[self._allowed]

    def permits(self, option: Option) -> bool:
        return NUMERICS.index(option.numerics) <= self._allowed

    def may(self, option: Option) -> bool:
        """Whether an option can be had and may be taken."""
        return not option.why_not and self.permits(option)

    def settled(self, build: str, values: Mapping[str, str]) -> Configuration:
        """The configuration with the values that are wanted, where preferences and safety leave them open, or stock.

        Raises:
            CannotPlan: a preference cannot be kept in it.
        """

        def pick(optimisation: Optimisation, choice: _Open) -> str:
            if choice.problem:
                raise choice.problem
            open_to, default = choice.options, choice.options[0].value
            if choice.fixed:
                open_to, default = choice.instead, choice.fixed
            option = next((option for option in open_to if option.value == values.get(optimisation.name)), None)
            return option.value if option and self.may(option) else default

        return self._configuration(build, pick)

    def exactly(self, build: str, values: Mapping[str, str]) -> Configuration:
        """The configuration with the values that are wanted, whether or not they may be taken; the rest is stock."""

        def pick(optimisation: Optimisation, choice: _Open) -> str:
            value = values.get(optimisation.name, "")
            is_open = any(option.value == value for option in (*choice.options, *choice.instead))
            return value if is_open else choice.options[0].value

        return self._configuration(build, pick)

    def considerate(self, build: str) -> Configuration:
        """Stock, but for preferences and for what others feel who use the node, as they do a job's threads.

        Raises:
            CannotPlan: a preference cannot be kept in it.
        """

        def pick(optimisation: Optimisation, choice: _Open) -> str:
            if choice.problem:
                raise choice.problem
            is_kept = choice.fixed and (choice.is_optional or optimisation.acts_on != "code")
            return choice.fixed if is_kept else choice.options[0].value

        return self._configuration(build, pick)

    def is_fixed(self, optimisation: Optimisation, configuration: Configuration) -> bool:
        """Whether a preference or safety has decided it."""
        return bool(self._find(optimisation, configuration.draft, configuration.values).fixed)

    def tunable(self, optimisation: Optimisation, configuration: Configuration) -> tuple[Option, ...]:
        """What a tuning may try of it in that configuration: nothing of what a preference or safety has decided."""
        choice = self._find(optimisation, configuration.draft, configuration.values)
        return tuple(filter(self.may, choice.instead if choice.fixed else choice.options))

    def _configuration(self, build: str, pick: _Pick) -> Configuration:
        draft = self._draft(build).copy()
        configuration = Configuration(draft, {IMAGE: build}, {IMAGE: self.builds})
        for optimisation in self.optimisations:
            choice = self._find(optimisation, draft, configuration.values)
            if not choice.options:
                if choice.problem:
                    raise choice.problem
                continue
            value = pick(optimisation, choice)
            optimisation.apply(draft, value)
            is_instead = any(option.value == value for option in choice.instead)
            configuration.values[optimisation.name] = value
            configuration.options[optimisation.name] = (*choice.options, *(choice.instead if is_instead else ()))
        return configuration

    def _draft(self, build: str) -> Draft:
        if build not in self._drafts:
            draft = self._drafts[build] = self.start.copy()
            self.image.apply(draft, build)
        return self._drafts[build]

    def _find(self, optimisation: Optimisation, draft: Draft, values: Mapping[str, str]) -> _Open:
        """What is open; it depends on the build and on those that the optimisation comes after."""
        key = (optimisation.name, *map(values.get, self._reads[optimisation.name]))
        if key not in self._open:
            options = optimisation.options(draft)
            requested, problem = self._requested(optimisation, draft, options)
            default = optimisation.default(draft) if options else None
            instead = optimisation.alternatives(draft) if default and not requested else ()
            self._open[key] = _Open(
                options, requested or (default.value if default else ""), problem, instead, bool(requested)
            )
        return self._open[key]

    def _requested(
        self, optimisation: Optimisation, draft: Draft, options: tuple[Option, ...]
    ) -> tuple[str, CannotPlan | None]:
        """The user's preference, and what stands against it."""
        requested = optimisation.requested(draft)
        if not requested or (not options and optimisation.is_stock(framework_of(draft), requested)):
            return "", None
        about = optimisation.about or f"optimisation.{optimisation.name}"
        available = [option.value for option in options if not option.why_not]
        hint = f"use any, or {' or '.join(available)}" if available else "use any"
        option = next((option for option in options if option.value == requested), None)
        if option is None or option.why_not:
            reason = option.why_not if option else f"{about} has no such value here"
            return requested, CannotPlan(about, f"{requested} is not available: {reason}", hint, optional=True)
        if not self.permits(option):
            message = f"{requested} {MOVES[option.numerics]}, and numerics: {self.allowed} is asked for"
            return requested, CannotPlan(about, message, f"numerics: {option.numerics} permits it", optional=True)
        return requested, None


def _concerns(optimisation: Optimisation, start: Draft) -> bool:
    """Whether there is anything to say of it: nothing acts in the code of a program that is no training."""
    return (
        optimisation.acts_on != "code" or start.request.application.is_training or bool(optimisation.requested(start))
    )


def _reads(optimisation: Optimisation, all_optimisations: tuple[Optimisation, ...]) -> tuple[str, ...]:
    """Those whose outcome decides what is open in one: the build, those that it comes after, and those that they do."""
    by_name = {optimisation.name: optimisation for optimisation in all_optimisations}
    names: list[str] = []
    for name in optimisation.after:
        names += [*_reads(by_name[name], all_optimisations), name]
    return tuple(dict.fromkeys((IMAGE, *names)))
