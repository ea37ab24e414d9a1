"""A target node in, a target of the model out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from modak_ansible.model.quantities import counted, parse_size, parse_walltime
from modak_ansible.model.target import (
    RATES,
    Accelerator,
    Network,
    Partition,
    Processor,
    Scheduler,
    Site,
    Storage,
    Target,
)
from modak_ansible.reading.blueprint import cloud_reader, pods_reader
from modak_ansible.reading.blueprint.forms import text_rules as rules
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.forms.yaml_tree import Item
from modak_ansible.reading.blueprint.rule_reader import read_rules
from modak_ansible.reading.blueprint.types.topology import Node, Topology
from modak_ansible.target.core.files import expanded, is_file

TARGET = "modak.nodes.Target"
HOST = "modak.nodes.Host"
# Hosts by their types, of which each is one machine.
_ALONE = ("modak.nodes.ContainerHost", cloud_reader.TYPE)
_SCHEDULERS = {
    cloud_reader.CLUSTER: Scheduler.SLURM,
    "modak.nodes.Slurm": Scheduler.SLURM,
    "modak.nodes.Torque": Scheduler.TORQUE,
    "modak.nodes.PBSPro": Scheduler.PBSPRO,
    "modak.nodes.LSF": Scheduler.LSF,
    pods_reader.TYPE: Scheduler.KUBERNETES,
    HOST: Scheduler.NONE,
    "modak.nodes.Local": Scheduler.NONE,
}
_SITE_RULES: dict[str, Callable[[str], str]] = {
    "account": rules.account_problem,
    "partition": rules.destination_problem,
    "modules": rules.module_problem,
    "binds": rules.bind_problem,
    "launcher": rules.launcher_problem,
    "gpu_request": rules.gpu_request_problem,
    "apt_mirror": rules.url_problem,
    "certificate_bundle": rules.path_problem,
    "pip_index_url": rules.url_problem,
    "pip_extra_index_urls": rules.url_problem,
    "pip_find_links": rules.value_problem,
    "signing_key": rules.path_problem,
    "image_sources": rules.place_problem,
    "image_signer": rules.path_problem,
}


def read_target(topology: Topology, node: Node, folder: Path, mistakes: Mistakes) -> Target | None:
    """The target that a node describes, or None when its type or its address is wrong."""
    return _TargetReader(topology, node, folder, mistakes).read()


class _TargetReader:
    def __init__(self, topology: Topology, node: Node, folder: Path, mistakes: Mistakes) -> None:
        self._topology = topology
        self._node = node
        self._folder = folder
        self._mistakes = mistakes

    def read(self) -> Target | None:
        kind = next((scheduler for scheduler in _SCHEDULERS if self._topology.is_a(self._node, scheduler)), None)
        if kind is None:
            place = self._node.item.get("type") or self._node.item
            hint = f"use one of {', '.join(_SCHEDULERS)}"
            self._mistakes.add(
                place.location, "abstract-type", f"{self._node.type} does not say which scheduler it has", hint
            )
            return None
        local = kind == "modak.nodes.Local"
        is_made = self._topology.is_a(self._node, cloud_reader.TYPE)
        address = "localhost" if local or is_made else self._address()
        self._check(self._node.properties.get("workspace"), rules.path_problem)
        target = Target(
            name=self._node.name,
            scheduler=_SCHEDULERS[kind],
            local=local,
            address=address or "",
            username=self._text("username", rules.user_problem),
            port=self._value("port") or None,
            identity_file=self._identity_file(),
            hosts=self._hosts(),
            workspace=self._value("workspace") or "modak",
            container_runtime=self._value("container_runtime") or "any",
            image_base=self._value("image_base") or "debootstrap",
            partitions=tuple(self._partitions()),
            processor=Processor(**self._capability("processor", {"memory": parse_size})),
            accelerator=self._accelerator(),
            home=self._storage("home", "shared"),
            scratch=self._storage("scratch", "node-local"),
            network=self._network(),
            site=self._site(),
        )
        if is_made:
            return cloud_reader.with_cloud(target, self._node, self._mistakes)
        if kind == pods_reader.TYPE and address:
            return pods_reader.with_pods(target, self._node, self._mistakes)
        return target if address else None

    def _value(self, name: str) -> Any:
        item = self._node.properties.get(name)
        return item.plain() if item else None

    def _check(self, item: Item | None, rule: Callable[[str], str], name: str = "unsafe-value") -> bool:
        problem = rule(str(item.value)) if item and item.value else ""
        if item and problem:
            self._mistakes.add(item.location, name, problem)
        return not problem

    def _text(self, name: str, rule: Callable[[str], str]) -> str | None:
        item = self._node.properties.get(name)
        return str(item.value) if item and item.value and self._check(item, rule) else None

    def _address(self) -> str | None:
        item = self._node.attributes.get("public_address")
        if "public_address" in self._node.refused:
            return None  # its value was refused where it was read
        if item is None or not item.value:
            place = item.location if item else self._node.item.location
            hint = "attributes: { public_address: the front end }; frontend in a target file"
            self._mistakes.add(place, "missing-address", f"{self._node.name} has no public_address", hint)
            return None
        return str(item.value) if self._check(item, rules.address_problem) else None

    def _identity_file(self) -> str | None:
        item = self._node.properties.get("identity_file")
        if item is None or not item.value:
            return None
        self._check(item, rules.local_path_problem)
        path = expanded(str(item.value))
        if not is_file(self._folder / path):
            hint = "a path is relative to the blueprint's folder, absolute, or begins with ~"
            self._mistakes.add(item.location, "file-not-found", f"there is no identity file {item.value}", hint)
        return str(item.value)

    def _hosts(self) -> tuple[str, ...]:
        section = self._node.properties.get("hosts")
        items = section.elements if section else []
        if items and any(self._topology.is_a(self._node, kind) for kind in _ALONE):
            message = f"{self._node.name} is one machine, and {counted(len(items), 'more host')} are named"
            self._mistakes.add(items[0].location, "unknown-property", message, f"type: {HOST}")
            return ()
        hosts: list[str] = []
        for item in items:
            if not self._check(item, rules.address_problem):
                continue
            if str(item.value) in hosts:
                self._mistakes.add(item.location, "duplicate-key", f"the host {item.value} is given twice")
            hosts.append(str(item.value))
        return tuple(hosts)

    def _partitions(self) -> list[Partition]:
        section = self._node.properties.get("partitions")
        partitions: list[Partition] = []
        for element in section.elements if section else []:
            values = element.plain()
            name = element.get("name")
            if name is None:
                continue
            if problem := rules.name_problem(str(name.value)):
                self._mistakes.add(name.location, "unsafe-value", problem)
                continue
            if any(partition.name == values["name"] for partition in partitions):
                self._mistakes.add(name.location, "duplicate-key", f"the partition {name.value} is given twice")
            sizes = dict.fromkeys(("memory", "usual_memory", "memory_per_core"), parse_size)
            for key, parse in {**sizes, "walltime": parse_walltime}.items():
                values[key] = self._parsed(element.get(key), parse)
            partitions.append(Partition(**values))
        return partitions

    def _parsed(self, item: Item | None, parse: Callable[[str], int]) -> int | None:
        if item is None:
            return None
        try:
            return parse(item.text)
        except ValueError as error:
            self._mistakes.add(item.location, "walltime" if parse is parse_walltime else "size", str(error))
            return None

    def _capability(self, name: str, parsers: dict[str, Callable[[str], int]]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key, item in self._node.capabilities.get(name, {}).items():
            values[key] = self._parsed(item, parsers[key]) if key in parsers else item.plain()
        architecture = self._node.capabilities.get(name, {}).get("architecture")
        self._check(architecture, rules.name_problem)
        return values

    def _accelerator(self) -> Accelerator:
        """Its count is left to the model where nobody says it, so that none is told from not known."""
        values = self._capability("accelerator", {"memory": parse_size})
        if self._node.item.get("capabilities", "accelerator", "properties", "count") is None:
            values.pop("count", None)
        return Accelerator(**values)

    def _storage(self, name: str, sharing: str) -> Storage | None:
        capability = self._node.capabilities.get(name, {})
        path = capability.get("path")
        if path is None or not path.value or not self._check(path, _storage_problem):
            return None
        explicit = self._node.item.get("capabilities", name, "properties", "sharing")
        values = {key: item.plain() for key, item in capability.items()}
        return Storage(
            path=str(path.value),
            sharing=values["sharing"] if explicit else sharing,
            storage_class=values.get("class", "default-common"),
            room=self._parsed(capability["room"], parse_size) if "room" in capability else None,
            **{name: float(values[name]) for name in RATES if name in values},
        )

    def _network(self) -> Network | None:
        """What was measured of it; half of that tells nothing."""
        capability = self._node.capabilities.get("network", {})
        values = {name: item.plain() for name, item in capability.items() if item.value is not None}
        missing = [name for name in Network.model_fields if name not in values]
        if values and missing and f"network.{missing[0]}" not in self._node.refused:
            place = next(iter(capability.values())).location
            self._mistakes.add(place, "missing-key", f"the network has no {missing[0]}", "latency and bandwidth: both")
        return Network(**values) if values and not missing else None

    def _site(self) -> Site:
        values: dict[str, Any] = {}
        for key, item in self._node.capabilities.get("site", {}).items():
            if key == "rules":
                values[key] = read_rules(item, self._mistakes)
                continue
            items = item.elements if item.is_list else [item]
            valid = [item for item in items if self._check(item, _SITE_RULES[key])]
            texts = [str(item.value) for item in valid if item.value]
            values[key] = tuple(texts) if item.is_list else (texts[0] if texts else None)
        return Site(**values)


def _storage_problem(text: str) -> str:
    if not text.startswith(("/", "~", "$")):
        return f"{rules.quote(text)} must be absolute, or begin with ~ or $NAME"
    return rules.path_problem(text)
