"""What a switch's value means: nothing where it is what the framework does anyway."""

from __future__ import annotations

from collections.abc import Mapping

_EVERYWHERE = {
    "compiler": {"none", "default", "off"},
    "memory_format": {"contiguous", "default"},
    "precision": {"fp32"},
    "matmul": {"default"},
    "operators": {"all"},
    "step_loop": {"plain"},
    "allocator": {"system", "default"},
    "wait_policy": {"active", "any"},
    "staging": {"shared"},
    "huge_pages": {"system", "default", "off"},
    "container": {"image"},
    "input": {"memory"},
}
_OF_FRAMEWORK = {
    # a script of PyTorch's own examples reads through a DataLoader
    "pytorch": {"input": {"loader"}},
    "jax": {"compiler": {"xla", "default"}, "memory_format": {"channels_last", "default"}},
}
# what the scripts of benchmarks/ do where a suite says nothing
_BENCHMARKS = {"pytorch": {"input": "memory"}}
# facts of the run, which are no switches of their own
_FACTS = {"batch_size", "threads", "epochs", "container", "staging"}
MEASURED_BY_USERS = "jobs"  # the suite of finished jobs: their settings are what was really applied
_OF_ANY_SCRIPT = (MEASURED_BY_USERS, "tuning")


def is_stock(framework: str, name: str, value: str) -> bool:
    """Whether a switch stands where the framework has it by itself."""
    stock = _OF_FRAMEWORK.get(framework, {}).get(name) or _EVERYWHERE.get(name, set())
    return value in {"stock", ""} or value in stock


def switched(framework: str, settings: Mapping[str, str]) -> dict[str, str]:
    """The switches that differ from stock, sorted; what says how large the run is, is left out."""
    return {
        name: value
        for name, value in sorted(settings.items())
        if name not in _FACTS and not is_stock(framework, name, value)
    }


def recorded(framework: str, suite: str, settings: Mapping[str, str]) -> dict[str, str]:
    """The switches of a recorded run, with those that its script sets by itself."""
    own = {} if suite in _OF_ANY_SCRIPT else _BENCHMARKS.get(framework, {})
    return switched(framework, {**own, **settings})
