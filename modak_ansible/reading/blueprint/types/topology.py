"""Checks a topology against its types and resolves every value in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from modak_ansible.errors import Location, nearest, visible
from modak_ansible.reading.blueprint.forms import text_rules as rules
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.forms.yaml_tree import Item, entries_of
from modak_ansible.reading.blueprint.types.definitions import Definitions
from modak_ansible.reading.blueprint.types.functions import Evaluator, function_name
from modak_ansible.reading.blueprint.types.values import ValueChecker, describe, is_required

_SECTIONS = (
    "tosca_definitions_version", "metadata", "description", "imports", "topology_template", "dsl_definitions",
    "node_types", "data_types", "capability_types", "relationship_types", "artifact_types", "interface_types",
    "repositories", "policy_types", "group_types",
)  # fmt: skip
_TOPOLOGY_SECTIONS = (
    "description", "inputs", "node_templates", "relationship_templates", "groups", "policies", "outputs",
)  # fmt: skip
# Whose types tosca-parser stumbles over where there are none.
_TYPED = {"policies": "policy_types", "groups": "group_types", "relationship_templates": "relationship_types"}
_TEMPLATE_KEYS = (
    "type", "description", "metadata", "directives", "properties", "attributes", "requirements", "capabilities",
    "interfaces", "artifacts",
)  # fmt: skip


@dataclass
class Node:
    """A node template with its values resolved; what is wrong or missing has its default, or is absent.

    ``requirements`` names the node for each requirement that can have one, ``several`` those of each that can have
    more.
    """

    name: str
    type: str
    item: Item
    properties: dict[str, Item] = field(default_factory=dict)
    attributes: dict[str, Item] = field(default_factory=dict)
    capabilities: dict[str, dict[str, Item]] = field(default_factory=dict)
    requirements: dict[str, str] = field(default_factory=dict)
    requirement_locations: dict[str, Location] = field(default_factory=dict)
    several: dict[str, list[Item]] = field(default_factory=dict)
    is_understood: bool = True  # whether nothing is wrong with what it requires
    # the properties whose values were refused, those of a capability as CAPABILITY.NAME: they are not missing
    refused: set[str] = field(default_factory=set)


@dataclass
class Topology:
    """The node templates of a blueprint."""

    definitions: Definitions
    nodes: dict[str, Node]
    root: Item

    def derived_from(self, ancestor: str) -> list[Node]:
        return [node for node in self.nodes.values() if self.is_a(node, ancestor)]

    def is_a(self, node: Node, ancestor: str) -> bool:
        return self.definitions.is_derived(node.type, ancestor)


def read_topology(
    root: Item, definitions: Definitions, given_inputs: Item, mistakes: Mistakes, *, is_of_targets: bool = False
) -> Topology:
    return _Reader(root, definitions, mistakes, is_of_targets).read(given_inputs)


def note_shapes(root: Item, mistakes: Mistakes) -> None:
    """Notes what of its nodes is no mapping and has to be one, as they are written, before a target file is laid over
    them: nothing of it would be seen. So with policies, outputs and groups, over which tosca-parser stumbles."""
    policies = root.get("topology_template", "policies")
    if policies is not None and policies.value not in (None, {}):
        bodies = [body for policy in policies.elements for body in (policy.entries.values() or [policy])]
        wrong = policies if not policies.is_list else next((body for body in bodies if not body.is_map), None)
        if wrong:
            hint = "policies: [ NAME: { type: ..., targets: [ ... ] } ]"
            mistakes.add(wrong.location, "wrong-type", "policies must be a list of mappings", hint)
    for section, hint in (("outputs", "{ value: ... }"), ("groups", "{ type: tosca.groups.Root, members: [ ... ] }")):
        item = root.get("topology_template", section)
        if item and not _is_mapping(item):
            mistakes.add(item.location, "wrong-type", f"{section} must be a mapping", f"{section}: {{ NAME: {hint} }}")
        for name, entry in entries_of(item).items():
            if not entry.is_map:
                message = f"{name} in {section} must be a mapping"
                mistakes.add(entry.location, "wrong-type", message, f"{name}: {hint}")
    for name, node in entries_of(root.get("topology_template", "node_templates")).items():
        for section in ("properties", "attributes", "capabilities"):
            item = node.get(section)
            if item and not _is_mapping(item):
                hint = "site: { properties: ... }" if section == "capabilities" else "NAME: VALUE"
                message = f"the {section} of {name} must be a mapping"
                mistakes.add(item.location, "wrong-type", message, f"{section}: {{ {hint} }}")
        for key, capability in entries_of(node.get("capabilities")).items():
            place, properties = node.entries["capabilities"].key_location(key), capability.get("properties")
            if properties is None:
                hint = f"{key}: {{ properties: {{ NAME: VALUE }} }}, or leave it out"
                mistakes.add(place, "missing-property", f"the capability {key} has no properties", hint)
            elif not properties.is_map:
                message = f"the properties of the capability {key} must be a mapping"
                mistakes.add(properties.location, "wrong-type", message, "properties: { NAME: VALUE }")


class _Reader:
    def __init__(self, root: Item, definitions: Definitions, mistakes: Mistakes, is_of_targets: bool) -> None:
        self._root, self._is_of_targets = root, is_of_targets
        self._definitions = definitions
        self._mistakes = mistakes
        self._values = ValueChecker(definitions, mistakes)
        self._topology_item = root.get("topology_template") or Item(root.location, {})
        self._nodes_item = self._topology_item.get("node_templates") or Item(root.location, {})
        self._templates = self._nodes_item.entries
        self._optional: set[str] = set()  # inputs that need no value, and have none

    def read(self, given_inputs: Item) -> Topology:
        self._check_keys(self._root, _SECTIONS, "a service template")
        self._check_keys(self._topology_item, _TOPOLOGY_SECTIONS, "topology_template")
        for section, kind in _TYPED.items():
            section_item = self._topology_item.get(section)
            for entry in section_item.elements or [section_item] if section_item else ():  # policies are a list
                self._check_types(entry, section, self._definitions.types[kind])
        section_item = self._topology_item.get("node_templates")
        if section_item and not _is_mapping(section_item):
            hint = "NAME: { type: ... }"
            self._mistakes.add(section_item.location, "wrong-type", "node_templates must be a mapping", hint)
        elif not self._templates and self._topology_item.is_map and "node_templates" not in self._root.entries:
            place = self._root.key_location("topology_template")
            self._mistakes.add(
                place, "no-nodes", "the blueprint has no node_templates", "it needs a target and a training"
            )
        inputs = self._read_inputs(given_inputs)
        declared = self._topology_item.get("inputs")
        names = set(entries_of(declared)) if _is_mapping(declared) else None
        evaluator = Evaluator(inputs, self._templates, names, self._optional, self._mistakes, self._definitions)
        nodes = {}
        for name, item in self._templates.items():
            if problem := rules.node_name_problem(name):
                self._mistakes.add(self._nodes_item.key_location(name), "node-name", problem, "such as train-resnet50")
                continue
            node = self._read_node(name, item, evaluator)
            if node:
                nodes[name] = node
        self._check_outputs()
        return Topology(self._definitions, nodes, self._root)

    def _check_types(self, section_item: Item, section: str, types: Mapping[str, Item]) -> None:
        for name, entry in entries_of(section_item).items():
            kind = entry.get("type")
            if kind is None and (entry.is_map or section == "relationship_templates"):
                place = section_item.key_location(name)
                self._mistakes.add(place, "missing-property", f"{name} in {section} has no type", nearest("", types))
            elif kind and str(kind.value) not in types and self._definitions.is_complete:
                message = f"there is no type {visible(str(kind.value))} of {section}"
                self._mistakes.add(kind.location, "unknown-type", message, nearest(str(kind.value), types))
            for word in ("targets", "members"):
                if (nodes := entry.get(word)) and not nodes.is_list:
                    message = f"the {word} of {name} must be a list"
                    self._mistakes.add(nodes.location, "wrong-type", message, f"{word}: [ NODE ]")

    def _check_keys(self, item: Item, valid: tuple[str, ...], owner: str) -> None:
        if not item.is_map:
            self._mistakes.add(item.location, "wrong-type", f"{owner} must be a mapping")
        for key in item.entries:
            if key not in valid:
                is_below = item is self._root and key in _TOPOLOGY_SECTIONS
                hint = "put it below topology_template" if is_below else nearest(key, valid)
                self._mistakes.add(item.key_location(key), "unknown-key", f"{owner} has no {key}", hint)

    # --- inputs

    def _read_inputs(self, values: Item) -> dict[str, Item]:
        section = self._topology_item.get("inputs")
        if section and not _is_mapping(section):
            form = "inputs: { NAME: { type: ... } }"
            self._mistakes.add(section.location, "wrong-type", "the inputs must be a mapping", form)
            return {}
        declared = entries_of(section)
        valid_values: dict[str, Item] = {}
        words = "the description of targets" if self._is_of_targets else "the blueprint"
        for name in values.entries:
            if name not in declared:
                problem = f"{words} has no input {name}"
                self._mistakes.add(values.key_location(name), "unknown-input", problem, nearest(name, declared))
        for name, schema in declared.items():
            if not schema.is_map:
                self._mistakes.add(schema.location, "wrong-type", f"the input {name} must be a mapping with a type")
                continue
            value = values.get(name) or schema.get("default")
            kind = schema.get("type")
            if kind is None:
                self._mistakes.add(schema.location, "missing-property", f"the input {name} has no type")
            elif not isinstance(kind.value, str):
                self._mistakes.add(kind.location, "wrong-type", f"the type of the input {name} must be a name")
            elif not self._definitions.is_known_type(kind.value):
                hint = nearest(str(kind.value), ["string", "integer", "float", "boolean", "list", "map"])
                self._mistakes.add(kind.location, "unknown-type", f"there is no type {visible(str(kind.value))}", hint)
            elif value is None:
                if is_required(schema):
                    self._mistakes.add(
                        schema.location, "missing-input", f"the input {name} has no value", describe(schema)
                    )
                else:
                    self._optional.add(name)
            elif self._values.check(value, schema, name):
                valid_values[name] = value
        return valid_values

    # --- nodes

    def _read_node(self, name: str, item: Item, evaluator: Evaluator) -> Node | None:
        if not item.is_map:
            self._mistakes.add(item.location, "wrong-type", f"the node {name} must be a mapping with a type")
            return None
        self._check_keys(item, _TEMPLATE_KEYS, f"the node {name}")
        kind = item.get("type")
        node_types = self._definitions.types["node_types"]
        if kind is None:
            self._mistakes.add(item.location, "missing-property", f"the node {name} has no type")
            return None
        if not isinstance(kind.value, str):
            self._mistakes.add(kind.location, "wrong-type", f"the type of the node {name} must be a name")
            return None
        if kind.value not in node_types:
            if self._definitions.is_complete:
                own_types = [type_name for type_name in node_types if not type_name.startswith("tosca.")]
                is_ours = kind.value.startswith("modak.") and not own_types
                hint = "imports: [ types/modak.yaml ]" if is_ours else nearest(kind.value, own_types or node_types)
                self._mistakes.add(kind.location, "unknown-type", f"there is no node type {visible(kind.value)}", hint)
            return None
        if parent := self._definitions.broken_parent(kind.value):
            if str(parent.value) in node_types:
                message = f"{kind.value} is derived from itself"
                self._mistakes.add(parent.location, "unknown-type", message, "derived_from: another one")
            elif self._definitions.is_complete:
                message = f"there is no node type {parent.text}, of which {kind.value} is derived"
                self._mistakes.add(parent.location, "unknown-type", message, nearest(parent.text, node_types))
            return None
        node = Node(name, kind.value, item)
        node.properties = self._read_members(item, node, "properties", evaluator)
        node.attributes = self._read_members(item, node, "attributes", evaluator)
        self._read_capabilities(item, node, evaluator)
        self._read_requirements(item, node)
        return node

    def _read_members(self, item: Item, node: Node, section: str, evaluator: Evaluator) -> dict[str, Item]:
        members = self._definitions.members("node_types", node.type, section)
        return self._resolve(item.get(section), members, node, evaluator, node.name, section == "properties")

    def _resolve(
        self, item: Item | None, members: dict[str, Item], node: Node, evaluator: Evaluator, owner: str, required: bool
    ) -> dict[str, Item]:
        """The values of a section, given or by default, checked against their definitions.

        What has a default is always there: in place of a value that is wrong, which was noted, too.
        """
        values: dict[str, Item] = {}
        prefix = f"{owner}.".removeprefix(f"{node.name}.")
        if item is not None and not item.is_map:
            self._mistakes.add(item.location, "wrong-type", f"the values of {owner} must be a mapping")
            item = None
        item = item or Item(node.item.location, {})
        for key, value in item.entries.items():
            if key not in members:
                place = item.key_location(key)
                self._mistakes.add(place, "unknown-property", f"{owner} has no property {key}", nearest(key, members))
                continue
            before, resolved = evaluator.left_out, evaluator.resolve(value, node.name)
            if resolved is not None and self._values.check(resolved, members[key], key):
                values[key] = self._with_defaults(resolved, members[key])
            elif resolved is not None or evaluator.left_out == before:
                node.refused.add(f"{prefix}{key}")
        for key, schema in members.items():
            default = schema.get("default")
            if key in values:
                continue
            if default is not None and function_name(default) is None:
                values[key] = self._with_defaults(default, schema)
            elif required and is_required(schema) and f"{prefix}{key}" not in node.refused:
                problem = f"{owner} needs the property {key}"
                self._mistakes.add(item.location, "missing-property", problem, describe(schema))
        return values

    def _with_defaults(self, value: Item, schema: Item) -> Item:
        """A record with the defaults of its type filled in; anything else as it is."""
        kind = schema.get("type")
        name = str(kind.value) if kind else ""
        if not value.is_map or name not in self._definitions.types["data_types"]:
            return value
        entries = dict(value.entries)
        for key, member in self._definitions.members("data_types", name, "properties").items():
            default = member.get("default")
            if key not in entries and default is not None:
                entries[key] = Item(value.location, default.value, default.text)
        return Item(value.location, entries, keys=value.keys)

    def _read_capabilities(self, item: Item, node: Node, evaluator: Evaluator) -> None:
        definitions = self._definitions.members("node_types", node.type, "capabilities")
        section = item.get("capabilities") or Item(item.location, {})
        for key in section.entries:
            if key not in definitions:
                problem = f"{node.name} has no capability {key}"
                self._mistakes.add(section.key_location(key), "unknown-capability", problem, nearest(key, definitions))
        for key in definitions:
            members = self._definitions.of_capability(node.type, key)
            if (assigned := section.get(key, "properties")) is not None:
                node.capabilities[key] = self._resolve(assigned, members, node, evaluator, f"{node.name}.{key}", True)

    def _read_requirements(self, item: Item, node: Node) -> None:
        definitions = self._definitions.requirements(node.type)
        section = item.get("requirements")
        if section is not None and not section.is_list:
            self._mistakes.add(
                section.location, "wrong-type", "requirements must be a list", "- host: the target's name"
            )
        before = len(self._mistakes)
        for element in _requirement_list(section):
            if not element.is_map:
                message = f"a requirement of {node.name} must be a mapping"
                self._mistakes.add(element.location, "wrong-type", message, f"- {element.text or 'host'}: NODE")
            for key, value in element.entries.items():
                place = element.key_location(key)
                target = value.get("node") if value.is_map else value
                if key not in definitions:
                    hint = nearest(key, definitions)
                    self._mistakes.add(place, "unknown-requirement", f"{node.name} has no requirement {key}", hint)
                elif key in node.requirements or _is_among(target, node.several.get(key, [])):
                    self._mistakes.add(place, "duplicate-requirement", f"{node.name} requires {key} twice")
                elif target is None or not isinstance(target.value, str):
                    self._mistakes.add(
                        value.location, "requirement-target", f"{key} must name a node of this blueprint"
                    )
                else:
                    self._check_target(node, key, target, definitions[key])
        node.is_understood = len(self._mistakes) == before
        for key, definition in definitions.items():
            occurrences = definition.get("occurrences")
            least = occurrences.elements[0].value if occurrences and occurrences.elements else 1
            if least and key not in node.requirements and not self._mentions(section, key):
                node_type = definition.get("node")
                hint = f"- {key}: a node of type {node_type.value}" if node_type else ""
                place = section.location if section else item.location
                self._mistakes.add(place, "missing-requirement", f"{node.name} needs the requirement {key}", hint)

    @staticmethod
    def _mentions(section: Item | None, key: str) -> bool:
        return any(key in element.entries or key == element.value for element in _requirement_list(section))

    def _check_target(self, node: Node, key: str, target: Item, definition: Item) -> None:
        name = str(target.value)
        if name not in self._templates:
            hint = nearest(name, self._templates)
            self._mistakes.add(target.location, "requirement-target", f"there is no node {visible(name)}", hint)
            return
        node_type = definition.get("node")
        kind = self._templates[name].get("type")
        if kind and not self._definitions.is_whole(str(kind.value)):
            return  # reported where the node is read
        if node_type and kind and not self._definitions.is_derived(str(kind.value), str(node_type.value)):
            candidates = [
                node_name
                for node_name, template in self._templates.items()
                if self._definitions.is_derived(str((template.get("type") or node_type).value), str(node_type.value))
            ]
            self._mistakes.add(
                target.location, "requirement-target",
                f"{name} is a {kind.value}, and {key} must be a {node_type.value}", nearest(name, candidates),
            )  # fmt: skip
            return
        if _takes_several(definition):
            node.several.setdefault(key, []).append(target)
            return
        node.requirements[key] = name
        node.requirement_locations[key] = target.location

    # --- outputs

    def _check_outputs(self) -> None:
        outputs = entries_of(self._topology_item.get("outputs"))
        for name, output in outputs.items() if self._templates else ():
            value = output.get("value")
            if value is None:
                self._mistakes.add(output.location, "missing-property", f"the output {name} has no value")
                continue
            for function, argument in _calls(value):
                if function == "get_attribute":
                    self._check_attribute_reference(function, argument)
                elif function == "get_property":
                    self._check_node_reference(function, argument)

    def _check_node_reference(self, function: str, argument: Item) -> str | None:
        """The name of the node that a function asks for its attribute or property, where there is one."""
        name, *rest = [str(element.plain()) for element in argument.elements] or [""]
        if not rest:
            what = function.removeprefix("get_")
            self._mistakes.add(argument.location, "function", f"{function} takes a list: [ node, {what} ]")
        elif name not in self._templates:
            hint = nearest(name, self._templates)
            self._mistakes.add(argument.elements[0].location, "function", f"there is no node {name}", hint)
        else:
            return name
        return None

    def _check_attribute_reference(self, function: str, argument: Item) -> None:
        name = self._check_node_reference(function, argument)
        kind = self._templates[name].get("type") if name else None
        if name is None or kind is None or not self._definitions.is_whole(str(kind.value)):
            return  # reported here, or where the node is read
        members = {
            **self._definitions.members("node_types", str(kind.value), "attributes"),
            **self._definitions.members("node_types", str(kind.value), "properties"),
        }
        attribute, place = str(argument.elements[1].plain()), argument.elements[1].location
        if attribute not in members:
            self._mistakes.add(place, "function", f"{name} has no attribute {attribute}", nearest(attribute, members))


def _calls(value: Item) -> Iterator[tuple[str, Item]]:
    """The functions that a value calls, one within another."""
    for item in value.walk():
        if name := function_name(item):
            yield name, item.entries[name]


def _is_mapping(section: Item | None) -> bool:
    """Whether a section is one, or is left out."""
    return section is None or section.value is None or section.is_map


def _requirement_list(requirements: Item | None) -> list[Item]:
    """Each of the requirements; a mapping in place of their list is noted, and read as if it were one."""
    if requirements is None:
        return []
    return [requirements] if requirements.is_map else requirements.elements


def _takes_several(definition: Item) -> bool:
    """Whether a node can have a requirement more than once."""
    occurrences = definition.get("occurrences")
    most = occurrences.elements[-1].value if occurrences and occurrences.elements else 1
    return most == "UNBOUNDED" or (isinstance(most, int) and most > 1)


def _is_among(target: Item | None, items: list[Item]) -> bool:
    return target is not None and any(target.value == item.value for item in items)
