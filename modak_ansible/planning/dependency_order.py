"""The trainings of a blueprint in the order in which they can be carried out."""

from __future__ import annotations

from collections.abc import Iterable

from modak_ansible.model.application import Predecessor
from modak_ansible.model.plan import Plan
from modak_ansible.model.request import Request


def is_meant(request: Request, training: str | None) -> bool:
    """Whether a training is the one that is named, or a point of it; without a name each is."""
    return training in (None, request.training, request.node)


def in_order(requests: list[Request], wanted: set[str]) -> list[Request]:
    """The wanted trainings and all that have to complete before them, those first; else in the order that is given.

    Args:
        requests: of a blueprint; none may come after itself, in however wide a circle.
    """
    of_node: dict[str, list[Request]] = {}
    for each in requests:
        of_node.setdefault(each.node, []).append(each)
    done: dict[str, Request] = {}
    waiting = [request for request in reversed(requests) if request.training in wanted]
    while waiting:
        request = waiting[-1]
        before = [each for one in request.after for each in of_node.get(one.training, [])]
        missing = [each for each in before if each.training not in done]
        if missing and request.training not in done:
            waiting += reversed(missing)
        else:
            done[waiting.pop().training] = request
    return list(done.values())


def after_planned(request: Request, planned: Iterable[tuple[Request, Plan]]) -> Request:
    """The request with the names of the deployments that it comes after, which are planned already."""
    if not request.after:
        return request
    deployments: dict[str, list[str]] = {each.training: [] for each in request.after}
    for other, plan in planned:
        if other.node in deployments:
            deployments[other.node].append(plan.deployment)
    after = tuple(Predecessor(training=name, deployments=tuple(names)) for name, names in deployments.items())
    return request.model_copy(update={"after": after})
