"""The words of a target file, such as modak discover writes: what they say of a target goes to the blueprint's own."""

from __future__ import annotations

from typing import NamedTuple

from modak_ansible.errors import NEAR, Location, nearest
from modak_ansible.model.target import MACHINES, OF_CLOUDS, Pods, Scheduler, Site, Target
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.forms.yaml_tree import Item, entries_of
from modak_ansible.reading.blueprint.target_reader import TARGET
from modak_ansible.reading.blueprint.types.definitions import Definitions
from modak_ansible.reading.blueprint.types.functions import function_name

LOCAL = "modak.nodes.Local"
# Targets of a type of their own, whatever starts jobs there.
_CLOUD, _CLUSTER, _CONTAINER = "cloud", "cloud-cluster", "container"
# The word for the kind of a target, and what it may be.
SCHEDULER = "scheduler"
TYPES = {
    "slurm": "modak.nodes.Slurm", "torque": "modak.nodes.Torque", "pbspro": "modak.nodes.PBSPro",
    "lsf": "modak.nodes.LSF", "none": "modak.nodes.Host", "local": LOCAL, _CLOUD: "modak.nodes.CloudHost",
    _CLUSTER: "modak.nodes.CloudCluster", _CONTAINER: "modak.nodes.ContainerHost",
    "kubernetes": "modak.nodes.Kubernetes",
}  # fmt: skip
_FRONTEND = "frontend"
_PROPERTIES = (
    "username", "port", "identity_file", "workspace", "container_runtime", "image_base", "partitions", "hosts",
    *OF_CLOUDS, MACHINES, *Pods.model_fields,
)  # fmt: skip
# A capability, and which of its properties is meant where a word gives no mapping of them.
_CAPABILITIES = {
    "processor": "model", "accelerator": "model", "home": "path", "scratch": "path", "network": "bandwidth",
    "site": "account", "host": "num_cpus", "os": "distribution",
}  # fmt: skip
_PATHS: dict[str, tuple[str, ...]] = {
    _FRONTEND: ("attributes", "public_address"),
    **{name: ("properties", name) for name in _PROPERTIES},
    "account": ("capabilities", "site", "properties", "account"),
    **{
        name: ("capabilities", "processor", "properties", name)
        for name in ("architecture", "peak_gflops", "peak_gflops_bf16", "memory_bandwidth")
    },
}
_MACHINE_PROPERTIES = tuple(name for name in _PROPERTIES if name != "workspace")
WORDS = (SCHEDULER, *_PATHS, *_CAPABILITIES)


class TargetDefaults(NamedTuple):
    """What is known otherwise of a target that a file describes without a name."""

    name: str = ""  # what it is called; empty for its scheduler's name
    scheduler: str = ""  # what starts jobs there, where the file does not say it


NO_DEFAULTS = TargetDefaults()


def type_of(target: Target) -> str:
    """The type of a target's node."""
    if target.is_this_machine:
        return LOCAL
    if target.cloud:
        return TYPES[_CLUSTER if target.cloud.machines else _CLOUD]
    is_container_host = target.scheduler is Scheduler.NONE and target.container_runtime in ("podman", "docker")
    return TYPES[_CONTAINER if is_container_host else target.scheduler.value]


def needed_properties(target: Target) -> dict[str, str]:
    """What a node of the target's type has to say, even where a target file says it, too."""
    part = target.cloud or target.pods
    fields = type(part).model_fields.items() if part else ()
    needed = [name for name, field in fields if field.is_required() or (name == MACHINES and getattr(part, name))]
    return {name: getattr(part, name) for name in needed}


def is_target_file(tree: Item) -> bool:
    """Whether a file says where a target is or what starts jobs there: of one, or of several under their names."""
    if "tosca_definitions_version" in tree.entries:
        return False
    return describes_machine(tree) or bool(_target_names(tree))


def describes_machine(words: Item) -> bool:
    """Whether values say what machine a target is, and not only something of it."""
    return _FRONTEND in words.entries or SCHEDULER in words.entries


def _target_names(words: Item) -> list[str]:
    """The names under which a file describes targets."""
    return [name for name, entry in words.entries.items() if describes_machine(entry)]


def template_of(words: Item, base: Item, defaults: TargetDefaults, mistakes: Mistakes) -> Item | None:
    """A service template with the targets of a target file, or None where none of them has a type.

    Args:
        base: a service template whose imports have the types.
        defaults: what is known otherwise.
    """
    is_single = any(name in WORDS for name in words.entries)
    kind = words.get(SCHEDULER)
    name = defaults.name or str(kind.value if kind else defaults.scheduler)
    nodes = {}
    for target_name, target_words in {name: words}.items() if is_single else words.entries.items():
        scheduler = target_words.get(SCHEDULER)
        kind = scheduler or Item(target_words.location, defaults.scheduler)
        if (node_type := _type_meant(kind, mistakes)) is not None:
            nodes[target_name] = with_words(Item(target_words.location, {"type": node_type}), target_words, mistakes)
    topology = Item(words.location, {"node_templates": Item(words.location, nodes)})
    return with_value_at(base, ("topology_template",), topology) if nodes else None


def placed_on(
    root: Item, words: Item, values: Item, definitions: Definitions, mistakes: Mistakes, *, names_it: bool = False
) -> tuple[Item, Item]:
    """A service template on the target of a target file, and the values that are given, with the file's behind them.

    What the template says of its own machine is forgotten, by whatever input; what is given goes before the file.

    Args:
        names_it: whether the template itself names the file: what it says beside that, and of no address of another
            machine, is of this target and goes before the file, too.
        mistakes: collects words that are unknown, or say nothing of which of several targets.
    """
    templates = entries_of(root.get("topology_template", "node_templates"))
    targets = [name for name, entry in templates.items() if _is_target(entry, definitions)]
    if describes_machine(words) and not targets:  # which is told where the template should have one
        return root, values
    if not describes_machine(words) or len(targets) != 1:  # several, which it tells apart by their names
        other_names = [name for name in _target_names(words) if name not in targets]
        if other_names and targets:
            verb = "is" if len(other_names) == 1 else "are"
            message = f"{' and '.join(other_names)} {verb} described here, and the blueprint has {', '.join(targets)}"
            hint = "give a file of one target, without its name"
            mistakes.add(words.key_location(other_names[0]), "several-targets", message, hint)
        remaining = {name: entry for name, entry in words.entries.items() if not targets or name not in other_names}
        return root, Item(values.location, {**remaining, **values.entries}, keys={**words.keys, **values.keys})
    node = templates[targets[0]]
    declared = entries_of(root.get("topology_template", "inputs"))
    inputs = _used_inputs(root) & set(declared)
    own_words = {name: entry for name, entry in values.entries.items() if name in WORDS and name not in inputs}
    target_words = {**{name: entry for name, entry in words.entries.items() if name not in values.entries}, **own_words}
    keys = {**words.keys, **values.keys}
    bare = _without_machine(node, frozenset(values.entries))
    bare = with_words(bare, Item(words.location, target_words, keys=keys), mistakes, is_bare=True)
    # what is missing is missing in the file
    bare = bare._replace(location=words.location)
    if properties := bare.get("properties"):
        bare = with_value_at(bare, ("properties",), properties._replace(location=words.location))
    if names_it and node.get("attributes", "public_address") is None:
        bare = _with_literals(bare, node)
    root = with_value_at(root, ("topology_template", "node_templates", targets[0]), bare)
    remaining = {name: entry for name, entry in values.entries.items() if name not in own_words}
    # what the template used of its target elsewhere, too, is the new one's there
    for input_name in _used_inputs(node) & _used_inputs(root) & inputs - set(remaining):
        value = words.get(input_name)
        if value is not None and not (value.is_map and _is_text(declared[input_name])):
            remaining[input_name] = value
    return root, Item(values.location, remaining, keys=keys)


def with_targets(root: Item, values: Item, definitions: Definitions, mistakes: Mistakes) -> tuple[Item, Item]:
    """A service template with what is given of its targets, and the values that are left for its inputs.

    A word is an input's value where the template declares such an input and uses it. Otherwise it describes the only
    target, or the one under whose name it stands.

    Args:
        mistakes: collects words that are unknown, or say nothing of which of several targets.
    """
    declared = entries_of(root.get("topology_template", "inputs"))
    templates = entries_of(root.get("topology_template", "node_templates"))
    targets = [name for name, entry in templates.items() if _is_target(entry, definitions)]
    used_inputs = _used_inputs(root) & set(declared)
    remaining, own_words = dict(values.entries), {}
    by_target: dict[str, Item] = {}
    for name, value in values.entries.items():
        is_text = name in used_inputs and _is_text(declared[name])
        if name in used_inputs and not (value.is_map and is_text):  # a mapping says more than that input can
            continue
        if name in WORDS and targets:
            own_words[name] = value
        elif name in targets and value.is_map:
            by_target[name] = value
        else:
            continue
        if name not in declared or (value.is_map and is_text):
            del remaining[name]
    if own_words and len(targets) > 1:
        first = next(iter(own_words))
        message = f"the blueprint has several targets, {', '.join(targets)}, and {first} is not said of any of them"
        hint = f"put it below the name of one: {targets[0]}: {{ {first}: ... }}"
        mistakes.add(values.key_location(first), "several-targets", message, hint)
    elif own_words:
        by_target[targets[0]] = Item(
            values.location, {**own_words, **entries_of(by_target.get(targets[0]))}, keys=values.keys
        )
    for name, words in by_target.items():
        node = templates[name]
        root = with_value_at(root, ("topology_template", "node_templates", name), with_words(node, words, mistakes))
    return root, Item(values.location, remaining, keys=values.keys)


def _is_text(declaration: Item) -> bool:
    kind = declaration.get("type")
    return kind is not None and kind.value == "string"


def with_words(node: Item, words: Item, mistakes: Mistakes, *, is_bare: bool = False) -> Item:
    """A node template of a target with what a target file says of it.

    Where that says what machine it is, what the template itself says of another one is forgotten; its inputs and its
    workspace stay.

    Args:
        words: what is said, by the words of a target file.
        is_bare: whether the template says of no machine any more.
    """
    if describes_machine(words) and not is_bare:
        node = _without_machine(node)
    for name, value in words.entries.items():
        place = words.key_location(name)
        if name in _CAPABILITIES:
            members = value.entries if value.is_map else {_CAPABILITIES[name]: value}
            for key, member in members.items():
                path = ("capabilities", name, "properties", key)
                node = with_value_at(node, path, member, value.key_location(key) if value.is_map else place)
        elif name in _PATHS:
            node = with_value_at(node, _PATHS[name], value, place)
        elif name != SCHEDULER:
            hint = f"site: {{ {name}: ... }}" if name in Site.model_fields else nearest(name, WORDS)
            mistakes.add(place, "unknown-property", f"a target has no {name}", hint)
    kind = words.get(SCHEDULER)
    if kind is not None:
        node_type = _type_meant(kind, mistakes)
        node = with_value_at(node, ("type",), node_type) if node_type else node
    elif _FRONTEND in words.entries and _type(node) == LOCAL:
        message = "the blueprint's target is this machine, and another one is described"
        mistakes.add(words.key_location(_FRONTEND), "contradiction", message, "name the scheduler: scheduler: slurm")
    return node


def _type_meant(kind: Item, mistakes: Mistakes) -> Item | None:
    """The type of a target's node by the word for what starts jobs there; None where it is none, which is noted."""
    if str(kind.value) in TYPES:
        return Item(kind.location, TYPES[str(kind.value)])
    reason = f"{kind.text or kind.plain()} is not a known scheduler"
    message = reason if kind.value else "no scheduler is named"
    near = nearest(str(kind.value), TYPES)
    hint = near if near.startswith(NEAR) else f"scheduler: one of {', '.join(TYPES)}"
    mistakes.add(kind.location, "unknown-scheduler", message, hint)
    return None


def _without_machine(node: Item, inputs: frozenset[str] | None = None) -> Item:
    """A node template without the values that describe a machine, but for those that its inputs give.

    Args:
        inputs: those that have values which somebody gave: what other inputs give is left out, too; None for all.
    """

    def is_kept(value: Item) -> bool:
        name = function_name(value)
        if name is None or inputs is None:
            return name is not None
        argument = value.entries.get(name) or value
        return name == "get_input" and str((argument.elements[0] if argument.elements else argument).value) in inputs

    entries = dict(node.entries)
    if properties := node.get("properties"):
        kept_properties = {
            name: entry
            for name, entry in properties.entries.items()
            if name not in _MACHINE_PROPERTIES or is_kept(entry)
        }
        entries["properties"] = Item(properties.location, kept_properties, keys=properties.keys)
    address = node.get("attributes", "public_address")
    if address and inputs is not None and not is_kept(address):
        attributes = node.entries["attributes"]
        rest = {name: entry for name, entry in attributes.entries.items() if name != "public_address"}
        entries["attributes"] = Item(attributes.location, rest, keys=attributes.keys)
    if capabilities := node.get("capabilities"):
        kept_capabilities = {}
        for name, entry in capabilities.entries.items():
            values = entry.get("properties")
            kept_values = {key: value for key, value in entries_of(values).items() if is_kept(value)}
            if name not in _CAPABILITIES:
                kept_capabilities[name] = entry
            elif values and kept_values:
                kept_capabilities[name] = Item(
                    entry.location, {"properties": Item(values.location, kept_values, keys=values.keys)}
                )
        entries["capabilities"] = Item(capabilities.location, kept_capabilities, keys=capabilities.keys)
    return Item(node.location, entries, node.text, node.keys)


def _with_literals(node: Item, original: Item) -> Item:
    """A node template with what another says of the machine by values that no input gives."""
    sections = [("properties",), *(("capabilities", name, "properties") for name in _CAPABILITIES)]
    for path in sections:
        for name, value in entries_of(original.get(*path)).items():
            if function_name(value) is None:
                node = with_value_at(node, (*path, name), value)
    return node


def with_value_at(item: Item, path: tuple[str, ...], value: Item, place: Location | None = None) -> Item:
    """A tree with another value at a path of names, which need not have been there."""
    if not path:
        return value
    name, *rest = path
    child = item.entries.get(name, Item(place or value.location, {}))
    keys = {name: place or value.location, **item.keys}
    return Item(item.location, {**item.entries, name: with_value_at(child, tuple(rest), value, place)}, item.text, keys)


def _is_target(node: Item, definitions: Definitions) -> bool:
    return definitions.is_derived(_type(node), TARGET)


def _type(node: Item) -> str:
    kind = node.get("type")
    return str(kind.value) if kind else ""


def _used_inputs(root: Item) -> set[str]:
    """The names that a template asks for by get_input."""
    arguments = [item.entries["get_input"] for item in root.walk() if "get_input" in item.entries]
    return {str((argument.elements[0] if argument.elements else argument).value) for argument in arguments}
