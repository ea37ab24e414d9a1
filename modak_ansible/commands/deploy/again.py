"""What modak deploy says beforehand: which trainings run again that ran before, and why."""

from __future__ import annotations

from collections.abc import Sequence

from modak_ansible.commands.plan.differences import why_again
from modak_ansible.model.quantities import counted
from modak_ansible.planning.service import Planned
from modak_ansible.store.deployments import deployments_of


def lines_again(planned: Sequence[Planned]) -> list[str]:
    """A line for each reason for which trainings run again; none for those that are new, or that run no more.

    Args:
        planned: what is to be deployed, before it is saved.
    """
    new = [each for each in planned if not each.store.is_there]
    known = deployments_of(new[0].blueprint) if new else []
    before = {each.plan.get("training"): each.plan for each in known if each.record.get("job")}  # the newest of each
    reasons: dict[str, list[str]] = {}
    for each in new:
        if each.plan.training in before:
            reason = why_again(before[each.plan.training], each.plan.model_dump(mode="json"))
            reasons.setdefault(reason, []).append(each.plan.training)
    return [f"{_who(names)} again, because {reason}" for reason, names in reasons.items()]


def _who(names: list[str]) -> str:
    return f"{names[0]} runs" if len(names) == 1 else f"{counted(len(names), 'training')} run"
