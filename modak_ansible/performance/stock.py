"""What of a run's settings differs from stock, as each optimisation says it of its own values."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from modak_ansible.optimisations import optimisations
from modak_ansible.optimisations.base import Optimisation

# what the scripts of benchmarks/ do where a suite says nothing
_BENCHMARKS = {"pytorch": {"input": "memory"}}
_FACTS = {"epochs"}  # of a run, which no optimisation decides
MEASURED_BY_USERS = "jobs"  # the suite of finished jobs: their settings are what was really applied
_OF_ANY_SCRIPT = (MEASURED_BY_USERS, "tuning")


def is_stock(framework: str, name: str, value: str) -> bool:
    """Whether a setting stands where the framework has it by itself."""
    optimisation = _by_name().get(name)
    return optimisation.is_stock(framework, value) if optimisation else value in {"stock", ""}


def switched(framework: str, settings: Mapping[str, str]) -> dict[str, str]:
    """The switches that differ from stock, sorted; what the model sees by other facts of the run is left out."""
    known_optimisations = _by_name()
    return {
        name: value
        for name, value in sorted(settings.items())
        if name not in _FACTS
        and (name not in known_optimisations or known_optimisations[name].is_switch)
        and not is_stock(framework, name, value)
    }


def recorded(framework: str, suite: str, settings: Mapping[str, str]) -> dict[str, str]:
    """The switches of a recorded run, with those that its script sets by itself."""
    own = {} if suite in _OF_ANY_SCRIPT else _BENCHMARKS.get(framework, {})
    return switched(framework, {**own, **settings})


@cache
def suite_switches() -> dict[str, type[Optimisation]]:
    return {name: optimisation for name, optimisation in _by_name().items() if optimisation.suite_default is not None}


@cache
def _by_name() -> dict[str, type[Optimisation]]:
    return {optimisation.name: type(optimisation) for optimisation in optimisations()}
