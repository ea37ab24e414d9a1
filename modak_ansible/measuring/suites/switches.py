"""The switches that are no script's: what the plan decides for a run, and what stands where nothing is said.

Stock means stock: what a suite does not name is as a user would have it without this project.
"""

from __future__ import annotations

from collections.abc import Mapping

from modak_ansible.model.application import Optimisation
from modak_ansible.model.target import Target

NATIVE = "native"
PLAN_SWITCHES: dict[str, tuple[str, ...]] = {
    "container": ("image", NATIVE),
    "allocator": ("system", "tcmalloc"),
    "wait_policy": ("active", "passive"),
    "staging": ("shared", "node-local"),
    "huge_pages": ("none", "transparent"),
    "binding": ("none", "cores"),
    "operators": ("all", "exact", "none"),
    "pipeline_tuning": ("stock", "off"),
    "threads": (),
}


def plan_switch_problem(settings: Mapping[str, str], name: str) -> tuple[str, str] | None:
    """What is wrong with one of the plan's switches, and what would be right; None where it is none of the plan's."""
    if name not in PLAN_SWITCHES:
        return None
    value, valid = settings[name], PLAN_SWITCHES[name]
    if name == "threads":
        good = value.isascii() and value.isdigit() and int(value) > 0
        return ("", "") if good else (f"threads cannot be {value}", "a whole number")
    return ("", "") if value in valid else (f"{name} cannot be {value}", ", ".join(valid))


def script_switches(settings: Mapping[str, str]) -> dict[str, str]:
    """The switches that are the script's own."""
    return {name: value for name, value in settings.items() if name not in PLAN_SWITCHES}


def optimisation_of(settings: Mapping[str, str], entry: str) -> Optimisation:
    """What the planner is asked for: nothing that is not named, and nothing of its own choice.

    What a script's own switches decide is not the planner's: it knows nothing of the workload. Results may be what they
    are: a build with operators of ours is measured with all of them.
    """
    return Optimisation(
        entry=entry,
        numerics="any",
        operators=settings.get("operators", "any"),
        huge_pages=settings.get("huge_pages", "none"),
        binding=settings.get("binding", "none"),
        pipeline_tuning=settings.get("pipeline_tuning", "any"),
        allocator=settings.get("allocator", "system"),
        wait_policy=settings.get("wait_policy", "stock"),
        threads=int(settings["threads"]) if "threads" in settings else None,
        staging=settings.get("staging", "shared"),
    )


def target_for(settings: Mapping[str, str], target: Target) -> Target:
    """The target with the container runtime that a set of switches wants: its own, or none."""
    return target.model_copy(update={"container_runtime": "none"}) if settings.get("container") == NATIVE else target
