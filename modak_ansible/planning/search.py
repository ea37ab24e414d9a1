"""Settles every matter of a draft: by the user's preferences, by safety, and otherwise by what was measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from modak_ansible.model.measured.prediction import Gain
from modak_ansible.model.plan import Candidate, Choice
from modak_ansible.optimisations.base import CannotPlan, Draft, Optimisation, Option
from modak_ansible.optimisations.code import switches_of
from modak_ansible.planning.comparison import PerformanceModel, Weighing
from modak_ansible.planning.configurations import IMAGE, Configuration, Configurations
from modak_ansible.planning.rationale import Teller

# Matters hardly depend on each other: the second sweep changes little, the third has changed nothing yet.
_SWEEPS = 4


class Chosen(NamedTuple):
    """A draft in which everything is settled, why, and what else was weighed."""

    draft: Draft
    choices: tuple[Choice, ...]
    candidates: tuple[Candidate, ...]
    best: Configuration  # what was chosen
    stock: Configuration  # the same build, with nothing else chosen
    # what a tuning may try, by the names of the matters
    free: dict[str, tuple[Option, ...]]
    # the configuration with other values, by their matters; it raises CannotPlan where a preference stands against
    settle: Callable[[dict[str, str]], Configuration]
    considerate: Callable[
        [], Configuration
    ]  # stock, but for preferences and what others on the node feel; raises as settle
    gain: Callable[[Configuration, Configuration], Gain]  # of a configuration over another


# What was chosen for requests before, by all that a choice depends on.
Shared = dict[str, Chosen]


def choose(draft: Draft, model: PerformanceModel | None, shared: Shared | None = None) -> Chosen:
    """Settles every matter, by coordinate descent over those that are left to the optimiser.

    An option other than stock is taken where the request permits what it does to results, and the gain is
    one with a probability of 80 %, by what it surely is; without a model everything is unknown, and stock stays.

    Args:
        shared: what was chosen for other requests with the same catalogue, refusals and model; it is added to.

    Raises:
        CannotPlan: a preference that cannot be kept, or contradicts another.
    """
    if shared is None:
        return _Chooser(draft, model).choose()
    key = _key(draft)
    if key not in shared:
        shared[key] = _Chooser(draft, model).choose()
    return _for_request(shared[key], draft)


def _key(draft: Draft) -> str:
    """All of a request that choices depend on, as one text: neither its names, nor what the script alone reads."""
    application = draft.request.application
    relevant = switches_of(application)
    arguments = [argument for argument in application.arguments if argument[0].replace("-", "_") in relevant]
    left_out = {"name": True, "arguments": True, "outputs": True, "environment": True}
    names = dict.fromkeys(("blueprint", "training", "node", "after", "parallel", "beside"), True)
    text = draft.request.model_dump_json(exclude={**names, "application": left_out})
    return f"{text}{arguments}{draft.partition}{draft.layout}{draft.scaled}"


def _for_request(chosen: Chosen, draft: Draft) -> Chosen:
    """What was chosen for a request that differs in nothing that matters."""
    changed = chosen.draft.copy()
    application = draft.request.application.model_copy(
        update={
            "framework": changed.request.application.framework,
            "script": changed.request.application.script,
        }
    )
    changed.request = draft.request.model_copy(update={"application": application})
    return chosen._replace(draft=changed)


class _Chooser:
    def __init__(self, draft: Draft, model: PerformanceModel | None) -> None:
        self._configurations = Configurations(draft)
        self._weighing = Weighing(model)

    def choose(self) -> Chosen:
        names = self._configurations.names
        configurations = [self._descend(name) for name in names]
        best = self._weighing.best(configurations[0], configurations[1:])
        stock = self._configurations.exactly(names[0], {})
        teller = Teller(self._configurations, self._weighing, best, stock, configurations)
        return Chosen(
            best.draft,
            teller.choices(),
            teller.candidates(),
            best,
            self._configurations.exactly(best.build, {}),
            self._free(best),
            lambda values: self._configurations.settled(values[IMAGE], values),
            lambda: self._configurations.considerate(best.build),
            self._weighing.gain,
        )

    def _free(self, best: Configuration) -> dict[str, tuple[Option, ...]]:
        """What a tuning may try of each optimisation."""
        open_optimisations = [
            optimisation for optimisation in self._configurations.optimisations if optimisation.name in best.values
        ]
        return {
            optimisation.name: self._configurations.tunable(optimisation, best) for optimisation in open_optimisations
        }

    def _descend(self, build: str) -> Configuration:
        """The best configuration of a build, one optimisation at a time."""
        now = self._configurations.settled(build, {})
        if self._weighing.model is None:
            return now
        for _ in range(_SWEEPS):
            before = now.key
            for optimisation in self._configurations.optimisations:
                if optimisation.name not in now.values:
                    continue
                if not self._configurations.is_fixed(optimisation, now):
                    now = self._best_of(optimisation, now)
                elif instead := self._configurations.tunable(optimisation, now):
                    neighbours = [self._with(now, optimisation, option.value) for option in instead]
                    now = self._weighing.best(now, [neighbour for neighbour in neighbours if neighbour])
            if now.key == before:
                break
        return now

    def _best_of(self, optimisation: Optimisation, now: Configuration) -> Configuration:
        stock, *alternatives = now.options[optimisation.name]
        open_to = [alternative.value for alternative in alternatives if self._configurations.may(alternative)]
        if not open_to and now.values[optimisation.name] == stock.value:
            return now
        first = self._with(now, optimisation, stock.value) or now
        configurations = [
            configuration
            for configuration in (self._with(now, optimisation, value) for value in open_to)
            if configuration
        ]
        combined = [
            combination
            for configuration in configurations
            for combination in self._with_what_it_opens(optimisation, now, configuration)
        ]
        instead = [
            replacement
            for configuration in configurations
            for replacement in self._in_place_of_others(optimisation, first, configuration)
        ]
        return self._weighing.best(first, [*configurations, *combined, *instead])

    def _in_place_of_others(
        self, optimisation: Optimisation, first: Configuration, configuration: Configuration
    ) -> list[Configuration]:
        """Where nobody measured a value beside the others: configurations with it and one other at stock."""
        if not self._weighing.gain(first, configuration).apart:
            return []
        candidates = [
            other
            for other in self._configurations.optimisations
            if other.name in configuration.values
            and other is not optimisation
            and not self._configurations.is_fixed(other, configuration)
        ]
        changed = [self._with(configuration, other, configuration.options[other.name][0].value) for other in candidates]
        return [change for change in changed if change and change.key != configuration.key]

    def _with_what_it_opens(
        self, optimisation: Optimisation, now: Configuration, configuration: Configuration
    ) -> list[Configuration]:
        """Configurations with a value that can be had only beside the one that is tried: the two may pay together."""
        combinations = []
        for other in self._configurations.optimisations:
            if optimisation.name not in other.after or other.name not in now.values:
                continue
            before = {option.value for option in now.options[other.name] if self._configurations.may(option)}
            for option in configuration.options.get(other.name, ()):
                if self._configurations.may(option) and option.value not in before:
                    combinations.append(self._with(configuration, other, option.value))
        return [combination for combination in combinations if combination]

    def _with(self, now: Configuration, optimisation: Optimisation, value: str) -> Configuration | None:
        """The configuration with another value; None where a preference could not be kept with it."""
        if now.values[optimisation.name] == value:
            return now
        try:
            return self._configurations.settled(now.values[IMAGE], {**now.values, optimisation.name: value})
        except CannotPlan:
            return None
