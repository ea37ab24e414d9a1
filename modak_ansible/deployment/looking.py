"""What is found out about images on a target, and has plans made anew: what is in them, and that they do not serve."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from modak_ansible.deployment.playbook import Listener, PlaybookError, run_playbook
from modak_ansible.deployment.run import plans_of
from modak_ansible.errors import FAILED, ModakError
from modak_ansible.model.plan import Plan
from modak_ansible.planning.service import Planned
from modak_ansible.store.deployment import BUILDS, DeploymentStore


def unseen(plans: Sequence[Planned]) -> list[Planned]:
    """One plan for each image of a user's own that nobody has looked into, on each target."""
    by_image = {_key(planned.plan): planned for planned in plans if _is_unseen(planned.plan)}
    return list(by_image.values())


def look_first(
    plans: list[Planned],
    plan_again: Callable[[], list[Planned]],
    listener: Listener | None = None,
    *,
    deadline: float | None = None,
) -> list[Planned]:
    """The plans, made anew where an image had to be looked into first.

    Args:
        deadline: of time.monotonic(); None for none.

    Raises:
        TimeIsOver: the deadline came first.
        PlaybookError: an image cannot be had, or not be looked into.
    """
    unseen_plans = unseen(plans)
    for planned in unseen_plans:
        store = DeploymentStore(planned.save(planned.state / BUILDS))
        run_playbook("image", {**plans_of([store]), "image_inside": True}, listener, deadline=deadline)
    return plan_again() if unseen_plans else plans


def with_other_builds(
    planned: Sequence[Planned], error: PlaybookError, plan_again: Callable[[], list[Planned]]
) -> list[Planned]:
    """The plans made anew, where a build has failed that the project now knows not to serve there, and another one is
    to be had; none otherwise.

    Args:
        error: what they ended with.
    """
    if error.exit_code != FAILED:
        return []
    try:
        fresh = plan_again()
    except ModakError:  # the first one says what is wrong
        return []
    return fresh if _entries(fresh) != _entries(planned) else []


def _entries(plans: Sequence[Planned]) -> list[str]:
    return [planned.plan.image.entry for planned in plans]


def _is_unseen(plan: Plan) -> bool:
    layers = plan.image.layers
    return (
        plan.application.is_training and bool(layers) and layers[0].source == plan.image.entry and not plan.image.seen
    )


def _key(plan: Plan) -> tuple[str, str, str]:
    return plan.image.entry, plan.image.python, plan.target.address
