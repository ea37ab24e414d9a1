"""Plans carried out, from the image to the results: one training and a thousand go the same way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from modak_ansible.deployment.fetching import fetch_if_completed
from modak_ansible.deployment.playbook import Listener, run_playbook
from modak_ansible.errors import UsageError
from modak_ansible.model.application import runs_nothing
from modak_ansible.planning.service import Planned
from modak_ansible.store.deployment import DeploymentStore


@dataclass(frozen=True)
class Deployed:
    """What came of plans that were carried out."""

    changed: int  # how many tasks changed something, here or on the target; 0 where all was done before
    stores: tuple[DeploymentStore, ...]  # what this machine keeps of each deployment, in the order of the plans


def plans_of(stores: Sequence[DeploymentStore]) -> dict[str, object]:
    """The variables by which a playbook knows its deployments."""
    files = [str(store.plan_file) for store in stores]
    return {"modak_plans": files} if len(files) > 1 else {"modak_plan": files[0]}


def check_that_all_run(plans: Sequence[Planned], *, wait: bool) -> None:
    """
    Args:
        plans: what is to be carried out.
        wait: whether somebody stays until all have ended.

    Raises:
        UsageError: a request is for the choice of an image alone, or nobody would start one training after another.
    """
    for plan in [planned.plan for planned in plans if runs_nothing(planned.plan.application)]:
        hint = f"modak catalogue build {plan.image.entry} makes its image; job.application says what runs"
        raise UsageError(f"{plan.name} asks for an image, but for nothing to run in it", hint=hint)
    if len(plans) > 1 and not wait and not all(planned.plan.target.scheduler.keeps_order for planned in plans):
        hint = "leave --detach out, or deploy them one by one with --training"
        raise UsageError("with --detach, nothing would start one training after another", hint=hint)


def deploy(
    plans: Sequence[Planned], *, wait: bool = True, deadline: float | None = None, listener: Listener | None = None
) -> Deployed:
    """Carries plans out: builds images, stages data, submits each job once, and fetches the results.

    Run again, it continues where it was, and changes nothing if everything is done.

    Args:
        plans: each behind those that it comes after.
        deadline: when it is to end, by time.monotonic(); None for when all have ended.

    Raises:
        UsageError: there is nothing to run.
        TimeIsOver: the deadline came first; what runs on the target goes on.
        PlaybookError: a stage failed, or a training did not complete.
    """
    check_that_all_run(plans, wait=wait)
    stores = tuple(DeploymentStore(planned.save()) for planned in plans)
    if (changed := fetch_if_completed(stores, listener, deadline)) is not None:
        return Deployed(changed, stores)
    outcome = run_playbook("deploy", {**plans_of(stores), "job_wait": wait}, listener, deadline=deadline)
    return Deployed(outcome.changed, stores)
