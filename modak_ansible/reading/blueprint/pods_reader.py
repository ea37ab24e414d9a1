"""Where the Pods of a Kubernetes cluster run, out of the node that describes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import PurePosixPath

from modak_ansible.model.target import Pods, Target
from modak_ansible.reading.blueprint.forms import text_rules as rules
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.forms.yaml_tree import Item
from modak_ansible.reading.blueprint.types.topology import Node

TYPE = "modak.nodes.Kubernetes"
# The address of a target that is this machine: kubectl is here.
_HERE = "localhost"
# Ways of a site that act where jobs of other schedulers run, and in no Pod.
_NO_WAYS = {
    "account": "no account is charged; its queues have quotas",
    "binds": "a Pod sees the volume of the workspace alone",
    "modules": "an image has no environment modules",
    "launcher": "ranks are started by the job's own script",
    "signing_key": "nodes of Kubernetes look at no signatures of Apptainer's",
}


def with_pods(target: Target, node: Node, mistakes: Mistakes) -> Target:
    """The target with its Pods; what is wrong is noted."""
    properties = {name: item for name, item in node.properties.items() if item.value not in (None, "")}
    problems = [*_problems(node, properties)]
    for place, rule, message, hint in problems:
        mistakes.add(place.location, rule, message, hint)
    plain = {name: properties[name].plain() for name in Pods.model_fields if name in properties}
    plain = {name: tuple(value) if isinstance(value, list) else value for name, value in plain.items()}
    # what is refused is planned with all the same, for the other mistakes that there are
    is_whole = "mount_path" in plain and not problems  # that it is there the type asks for
    pods = Pods(**plain) if is_whole else Pods(mount_path="/", host_path="/")
    return target.model_copy(update={"pods": pods, "local": target.address == _HERE})


def _problems(node: Node, properties: dict[str, Item]) -> Iterator[tuple[Item, str, str, str]]:
    """What is wrong: where, the rule, in what way, and what to do."""
    yield from rules.unsafe(properties, _RULES)
    volumes = [name for name in ("persistent_volume_claim", "host_path") if name in properties]
    if len(volumes) != 1 and not node.refused & {"persistent_volume_claim", "host_path"}:
        message = f"both {volumes[0]} and {volumes[1]} are given" if volumes else f"no volume of {node.name} is named"
        hint = "persistent_volume_claim: a claim of the namespace; or host_path: a folder that every node has"
        yield properties[volumes[1]] if volumes else node.item, "missing-property", message, hint
    mount, workspace = properties.get("mount_path"), properties.get("workspace")
    if mount and (workspace is None or not _is_below(str(workspace.value), str(mount.value))):
        path = str(workspace.value) if workspace else "the workspace"
        message = f"{rules.quote(path)} is not below {rules.quote(str(mount.value))}, which is all that the Pods see"
        place = node.item.get("properties", "workspace") or mount  # its default stands in a file of types
        yield place, "contradiction", message, f"workspace: {mount.value}/modak"
    for name, reason in _NO_WAYS.items():
        capability = node.capabilities.get("site", {}).get(name)
        if capability and (capability.elements or capability.value):
            yield capability, "contradiction", f"{name} have no meaning in Kubernetes: {reason}", "leave it out"


def _is_below(path: str, folder: str) -> bool:
    return path.startswith("/") and PurePosixPath(path).is_relative_to(PurePosixPath(folder))


def _path_problem(text: str) -> str:
    if not text.startswith("/") or text.rstrip("/") == "":
        return f"{rules.quote(text)} is not the absolute path of a folder"
    return rules.path_problem(text)


_RULES: dict[str, Callable[[str], str]] = {
    "namespace": rules.object_problem,
    "mount_path": _path_problem,
    "persistent_volume_claim": rules.object_problem,
    "host_path": _path_problem,
    "image_pull_secrets": rules.object_problem,
}
