"""Which training of a blueprint comes after which."""

from __future__ import annotations

from modak_ansible.model.application import Predecessor
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.forms.yaml_tree import Item
from modak_ansible.reading.blueprint.types.topology import Node, Topology

# ``after``, and TOSCA's own word for it, which every node has.
REQUIREMENTS = ("after", "dependency")


def read_order(topology: Topology, trainings: list[Node], mistakes: Mistakes) -> dict[str, tuple[Predecessor, ...]]:
    """What each training comes after, in the order of the file; circles and other targets are noted and left out."""
    predecessors = {node.name: _predecessors_of(node, trainings) for node in trainings}
    searches = {node.name for node in trainings if "search" in node.properties}
    for node in trainings:
        for name, item in predecessors[node.name].items():
            if name in searches:
                message = f"{name} is a search, and its trials are not known yet when {node.name} is submitted"
                mistakes.add(item.location, "search", message, f"put {node.name} into a blueprint of its own")
            host, other_host = node.requirements.get("host"), topology.nodes[name].requirements.get("host")
            if host and other_host and host != other_host:
                mistakes.add(
                    item.location, "another-host", f"{name} is on {other_host}, and {node.name} on {host}",
                    "a training can only come after another on the same target",
                )  # fmt: skip
    circles = {node.name: _circle(node.name, predecessors) for node in trainings}
    for name, circle in circles.items():
        if circle and name == min(circle, key=list(predecessors).index):  # each circle is told once
            place = predecessors[name][circle[1] if len(circle) > 1 else name].location
            words = " after ".join([*circle, name])
            mistakes.add(place, "circle", f"{words}: a training cannot come after itself", "leave one of them out")
    return {
        name: () if circles[name] else tuple(Predecessor(training=training) for training in before)
        for name, before in predecessors.items()
    }


def _predecessors_of(node: Node, trainings: list[Node]) -> dict[str, Item]:
    names = {training.name for training in trainings}
    return {
        str(item.value): item
        for requirement in REQUIREMENTS
        for item in node.several.get(requirement, [])
        if item.value in names
    }


def _circle(start: str, predecessors: dict[str, dict[str, Item]]) -> list[str]:
    """The trainings of a circle through one of them, it first and each before what it comes after; empty without."""
    came_from: dict[str, str] = {}
    waiting = [start]
    while waiting:
        name = waiting.pop(0)
        for before in predecessors[name]:
            if before == start:
                circle = [name]
                while circle[-1] != start:
                    circle.append(came_from[circle[-1]])
                return circle[::-1]
            if before not in came_from:
                came_from[before] = name
                waiting.append(before)
    return []
