"""The switches that are no script's: what the plan decides for a run, and what stands where nothing is said.

Stock means stock: what a suite does not name is as a user would have it without this project.
"""

from __future__ import annotations

from collections.abc import Mapping

from modak_ansible.model.application import Optimisation
from modak_ansible.model.target import Target
from modak_ansible.performance.stock import suite_switches

NATIVE = "native"


def plan_switch_problem(settings: Mapping[str, str], name: str) -> tuple[str, str] | None:
    """What is wrong with one of the plan's switches, and what would be right; None where it is none of the plan's."""
    if name not in suite_switches():
        return None
    value, valid = settings[name], suite_switches()[name].property_values()
    good = value in valid if valid else value.isascii() and value.isdigit() and int(value) > 0
    return ("", "") if good else (f"{name} cannot be {value}", ", ".join(valid) or "a whole number")


def script_switches(settings: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in settings.items() if name not in suite_switches()}


def optimisation_of(settings: Mapping[str, str], entry: str) -> Optimisation:
    """What the planner is asked for: nothing that is not named, and nothing of its own choice.

    What a script's own switches decide is not the planner's: it knows nothing of the workload. Results may be what they
    are: a build with operators of ours is measured with all of them.
    """
    values = {
        name: settings.get(name, switch.suite_default) or None
        for name, switch in suite_switches().items()
        if name in Optimisation.model_fields
    }
    return Optimisation.model_validate({"entry": entry, "numerics": "any", **values})


def target_for(settings: Mapping[str, str], target: Target) -> Target:
    """The target with the container runtime that a set of switches wants: its own, or none."""
    return target.model_copy(update={"container_runtime": "none"}) if settings.get("container") == NATIVE else target
