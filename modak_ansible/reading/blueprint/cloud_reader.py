"""The machine of a cloud, out of the node that asks for one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from ipaddress import ip_network
from typing import Any, get_args

from modak_ansible.model.plan import digest_of
from modak_ansible.model.quantities import parse_size
from modak_ansible.model.target import OF_ONE_PROVIDER, Cloud, Partition, Shape, System, Target, Terms
from modak_ansible.reading.blueprint.forms import text_rules as rules
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.forms.yaml_tree import Item
from modak_ansible.reading.blueprint.types.topology import Node

TYPE, CLUSTER = "modak.nodes.CloudHost", "modak.nodes.CloudCluster"
# That of a cluster's hosts, which all are in it.
PARTITION = "cloud"
# What a target has that makes its machine another one.
_OWN = ("name", "cloud", "username", "port", "identity_file")
_SIZES = {"mem_size": "memory", "disk_size": "disk"}


def with_cloud(target: Target, node: Node, mistakes: Mistakes) -> Target:
    """The target with the machine that is to be made for it; what is wrong is noted.

    Its address is a name that follows from what the machine is to be, and stands for the address that it will have.
    """
    properties = {name: item for name, item in node.properties.items() if item.value not in (None, "")}
    for place, rule, message, hint in _problems(node, properties):
        mistakes.add(place.location, rule, message, hint)
    plain = {name: item.plain() for name, item in properties.items()}
    shape, system = _shape(node), node.capabilities.get("os", {})
    os_fields = {name: str(item.value) for name, item in system.items() if name in System.model_fields and item.value}
    if plain.get("provider") not in get_args(Cloud.model_fields["provider"].annotation):
        return target  # which was refused where it was read
    cloud = Cloud(**_fields_of(Cloud, plain), shape=shape, system=System(**os_fields))
    terms = Terms.model_construct(**{**Terms().model_dump(), **_fields_of(Terms, plain)})
    processor = target.processor
    sizes = {"cores": processor.cores or shape.cpus, "memory": processor.memory or shape.memory}
    target = target.model_copy(update={"cloud": cloud, "terms": terms, "processor": processor.model_copy(update=sizes)})
    if cloud.machines:  # roles/cluster has Slurm keep jobs to their cores
        all_hosts = Partition(name=PARTITION, nodes=cloud.machines, cores=sizes["cores"], own_cores=True, default=True)
        target = target.model_copy(update={"partitions": (all_hosts,)})
    identity = target.model_dump(mode="json", include=set(_OWN))
    return target.model_copy(update={"address": f"{_plain(node.name)}-{digest_of(identity)[:8]}"})


def _plain(name: str) -> str:
    """A name as part of a host's."""
    plain = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in name)
    return plain[:40].strip("-") or "cloud"


def _fields_of(model: type[Cloud] | type[Terms], plain: dict[str, Any]) -> dict[str, Any]:
    values = {name: value for name, value in plain.items() if name in model.model_fields}
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


def _shape(node: Node) -> Shape:
    host = node.capabilities.get("host", {})
    values: dict[str, Any] = {"cpus": host["num_cpus"].plain()} if "num_cpus" in host else {}
    for name, field in _SIZES.items():
        if name in host:
            values[field] = parse_size(host[name].text)
    return Shape(**values)


def _problems(node: Node, items: dict[str, Item]) -> Iterator[tuple[Item, str, str, str]]:
    """What is wrong: where, the rule, in what way, and what to do."""
    yield from rules.unsafe(items, _RULES)
    provider = str(items["provider"].value) if "provider" in items else ""
    for name, item in items.items():
        if provider and OF_ONE_PROVIDER.get(name, provider) != provider and item.value:
            yield item, "unknown-property", f"{provider} takes no {name}, {OF_ONE_PROVIDER[name]} does", "leave it out"
    host, system = node.capabilities.get("host", {}), node.capabilities.get("os", {})
    stated = {*items, *node.refused}  # of what was refused nothing more is told
    if not stated & {"flavor", "host.num_cpus", "host.mem_size"} and not host.keys() & {"num_cpus", "mem_size"}:
        hint = "flavor: the provider's name for it; or capabilities: { host: { properties: { num_cpus: 8 } } }"
        yield node.item, "missing-property", f"nothing says how large the machine of {node.name} is to be", hint
    is_named = all(name in system or f"os.{name}" in node.refused for name in ("distribution", "version"))
    if "image" not in stated and not is_named:
        hint = 'image: its id; or capabilities: { os: { properties: { distribution: debian, version: "12" } } }'
        yield node.item, "missing-property", f"nothing says from what image {node.name} starts", hint
    if "ssh_from" not in node.refused and not (items.get("ssh_from") and items["ssh_from"].elements):
        hint = "ssh_from: [ 203.0.113.7/32 ], the address that this machine has on the internet"
        yield node.item, "missing-property", f"nothing says who may log in to {node.name}: nobody could", hint
    if "username" not in stated:
        hint = "username: the user that the image lets in, such as admin (Debian) or ubuntu (Ubuntu)"
        yield node.item, "missing-property", f"no user for the login to {node.name} is named", hint
    if not stated & {"key", "identity_file"}:
        hint = "identity_file: a private key, with its public half (.pub) beside it; or key: the provider's key pair"
        yield node.item, "missing-property", f"no key for the login to {node.name} is named", hint
    if "machines" in items and items.get("partitions") and items["partitions"].elements:
        yield items["partitions"], "unknown-property", f"the hosts of {node.name} are its one partition", "leave it out"
    if "budget" in items and "price_per_hour" not in stated:
        yield items["budget"], "missing-property", "a budget needs a price", "price_per_hour: an hour's price"


def _cidr_problem(text: str) -> str:
    try:
        ip_network(text)
    except ValueError as error:
        return f"{rules.quote(text)} is not a range of addresses: {error}"
    return ""


def _image_problem(text: str) -> str:
    good = all(letter.isascii() and (letter.isalnum() or letter in "-_./*:()[] ") for letter in text)
    return "" if good and len(text) <= 255 else f"{rules.quote(text)} is not an image's id or name"


_RULES: dict[str, Callable[[str], str]] = {
    "region": rules.name_problem,
    "flavor": rules.name_problem,
    "image": _image_problem,
    "key": rules.user_problem,
    **dict.fromkeys(("subnet", "cloud", "network", "floating_ip", "zone"), rules.name_problem),
    "packages": rules.name_problem,
    "ssh_from": _cidr_problem,
    "currency": rules.name_problem,
}
