"""The trainings of a blueprint in the order in which they can be carried out."""

from __future__ import annotations

from collections.abc import Iterable

from modak_ansible.model.application import Predecessor
from modak_ansible.model.plan import Plan
from modak_ansible.model.request import Request


def is_meant(request: Request, training: str | None) -> bool:
    """Whether a training is the one that is named, or a point of it; without a name each is."""
    return training in (None, request.training, request.node)


def in_order(requests: list[Request], names: set[str]) -> list[Request]:
    """The wanted trainings and all that have to complete before them, those first; else in the order that is given.

    Args:
        requests: of a blueprint; none may come after itself, in however wide a circle.
    """
    of_node: dict[str, list[Request]] = {}
    for request in requests:
        of_node.setdefault(request.node, []).append(request)
    ordered: dict[str, Request] = {}
    waiting = [request for request in reversed(requests) if request.training in names]
    while waiting:
        request = waiting[-1]
        before = [earlier for predecessor in request.after for earlier in of_node.get(predecessor.training, [])]
        unordered = [earlier for earlier in before if earlier.training not in ordered]
        if unordered and request.training not in ordered:
            waiting += reversed(unordered)
        else:
            ordered[waiting.pop().training] = request
    return list(ordered.values())


def after_planned(request: Request, plans: Iterable[tuple[Request, Plan]]) -> Request:
    """The request with the names of the deployments that it comes after, which are planned already."""
    if not request.after:
        return request
    deployments: dict[str, list[str]] = {predecessor.training: [] for predecessor in request.after}
    for other, plan in plans:
        if other.node in deployments:
            deployments[other.node].append(plan.deployment)
    after = tuple(Predecessor(training=name, deployments=tuple(names)) for name, names in deployments.items())
    return request.model_copy(update={"after": after})
