"""A blueprint and its inputs in, requests out."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from modak_ansible.errors import Location, UsageError
from modak_ansible.model.application import Predecessor
from modak_ansible.model.dataset import field_of
from modak_ansible.model.job_options import OPTIONS
from modak_ansible.model.plan import Note
from modak_ansible.model.request import Request
from modak_ansible.model.target import Target
from modak_ansible.reading.blueprint.forms.kept_tree import read_kept_yaml
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.forms.secret_rules import note_secrets
from modak_ansible.reading.blueprint.forms.yaml_files import parse_yaml, read_yaml
from modak_ansible.reading.blueprint.forms.yaml_tree import Item, entries_of
from modak_ansible.reading.blueprint.inputs import Inputs
from modak_ansible.reading.blueprint.order import read_order
from modak_ansible.reading.blueprint.script.folder import ScriptFolders
from modak_ansible.reading.blueprint.target_reader import TARGET, read_target
from modak_ansible.reading.blueprint.target_words import (
    NO_DEFAULTS,
    TargetDefaults,
    describes_machine,
    is_target_file,
    placed_on,
    template_of,
    with_targets,
    with_value_at,
)
from modak_ansible.reading.blueprint.training_reader import DATASET, IMAGE, TRAINING, TrainingReader
from modak_ansible.reading.blueprint.types.definitions import check_version, load_definitions
from modak_ansible.reading.blueprint.types.topology import Node, Topology, note_shapes, read_topology
from modak_ansible.store.project import shipped
from modak_ansible.store.targets import target_file
from modak_ansible.target.core.files import exists, expanded, is_file

__all__ = ["Blueprint", "Inputs", "read_blueprint"]

SERVICE_FILE = "service.yaml"


@dataclass
class Blueprint:
    path: Path  # the service template
    # one for every training, or for every point of its sweep, in the order of the file
    requests: list[Request] = field(default_factory=list)
    targets: dict[str, Target] = field(default_factory=dict)  # every target by the name of its node
    # for every node, the names of the trainings that it belongs to
    related: dict[str, list[str]] = field(default_factory=dict)
    # for every training and point, where the values of its request stand
    places: dict[str, dict[str, Location]] = field(default_factory=dict)
    # the files of types that it imports, with the path as the import has it
    imported: list[tuple[str, Path]] = field(default_factory=list)
    inputs: dict[str, Any] = field(default_factory=dict)  # the values that were given for its inputs
    template: Item | None = None  # the service template, with what was given of its targets
    warnings: Mistakes = field(default_factory=Mistakes)  # what is read, and would be better written otherwise
    # for every training, how its file names the fields that a planner's refusal may be about
    paths: dict[str, dict[str, str]] = field(default_factory=dict)
    notes: dict[str, tuple[Note, ...]] = field(
        default_factory=dict
    )  # for every training, the preferences that are not kept
    text: str = ""  # the template's text, where it was made of a script and is in no file

    @property
    def folder(self) -> Path:
        return self.path.parent

    def place(self, training: str, about: str) -> Location:
        """Where the value stands that an error is about; the training itself when it stands nowhere."""
        places = self.places.get(training, {})
        return places.get(about) or places.get("") or Location(str(self.path))

    def shown(self, training: str, about: str) -> str:
        """What the file calls the value that an error is about."""
        return self.paths.get(training, {}).get(about, about)


def read_blueprint(path: Path, inputs: Inputs, mistakes: Mistakes) -> Blueprint | None:
    """What a blueprint asks for; whatever is wrong is noted, and what depends on it is left out.

    Args:
        path: the service template, or the folder that holds it as ``service.yaml``.

    Returns:
        The blueprint, or None when it cannot be read at all.
    """
    folder = path if exists(path) and path.is_dir() else path.parent if path.name == SERVICE_FILE else None
    path = folder / SERVICE_FILE if folder else path
    if not is_file(path):
        if candidates := " or ".join(_candidates(folder) if folder else ()):
            mistakes.add(Location(str(path)), "file-not-found", "there is no such file", f"give {candidates}")
        else:
            hint = "give the folder of a blueprint or its service.yaml"
            mistakes.add(Location(str(path)), "file-not-found", "there is no such blueprint", hint)
        return None
    root = read_kept_yaml(path, mistakes)
    return read_template(path, root, inputs, mistakes) if root else None


def _candidates(folder: Path) -> list[str]:
    """What may be meant by a folder that is no blueprint."""
    files, scripts = (sorted(map(str, folder.glob(pattern)))[:3] for pattern in ("*.y*ml", "*.py"))
    return [*files, *(f"what modak init {script} writes" for script in scripts)]


def read_template(path: Path, root: Item, inputs: Inputs, mistakes: Mistakes) -> Blueprint | None:
    """As :func:`read_blueprint`, for a service template that was read, or made, already.

    Args:
        path: beside which its files lie.
    """
    values = _read_inputs(inputs, mistakes, root.get("topology_template", "inputs"))
    if not _is_service_template(root, mistakes):
        return None
    note_secrets(root, mistakes)
    note_shapes(root, mistakes)
    definitions = load_definitions(root, path.parent, mistakes)
    file = inputs.targets or _own_target(root, values, mistakes)
    words = _read_target_file(file, mistakes) if file else None
    if words is not None:
        root, values = placed_on(root, words, values, definitions, mistakes, names_it=not inputs.targets)
    root, values = with_targets(root, values, definitions, mistakes)
    topology = read_topology(root, definitions, values, mistakes)
    blueprint = _Reader(path, topology, mistakes, inputs).read()
    blueprint.inputs, blueprint.template, blueprint.imported = values.plain(), root, definitions.files
    return blueprint


def read_targets(
    path: Path, inputs: Inputs, mistakes: Mistakes, defaults: TargetDefaults = NO_DEFAULTS
) -> dict[str, Target]:
    """The targets of a service template by the names of their nodes, or those of a target file.

    Args:
        path: the service template, which need not have a training, or the target file.
        inputs: values for the inputs of the one, or more words of the other.
        defaults: what is known otherwise of the target of a file that describes one without a name.
    """
    root = read_yaml(path, mistakes)
    values = _read_inputs(inputs, mistakes)
    if root is None:
        return {}
    folder = path.parent
    if is_target_file(root):
        note_secrets(root, mistakes)
        words = Item(root.location, {**root.entries, **values.entries}, keys={**root.keys, **values.keys})
        shipped_ones = shipped("tosca") / "targets.yaml"
        folder, values = shipped_ones.parent, Item(values.location, {})
        root = template_of(words, read_yaml(shipped_ones, mistakes) or root, defaults, mistakes)
    if root is None or not _is_service_template(root, mistakes):
        return {}
    note_secrets(root, mistakes)
    note_shapes(root, mistakes)
    topology = read_topology(root, load_definitions(root, folder, mistakes), values, mistakes, is_of_targets=True)
    targets = {node.name: read_target(topology, node, path.parent, mistakes) for node in topology.derived_from(TARGET)}
    return {name: target for name, target in targets.items() if target}


def _own_target(root: Item, values: Item, mistakes: Mistakes) -> Path | None:
    """The target file that a template names in its metadata, unless what is given describes another target."""
    target_name = root.get("metadata", "target")
    if target_name is None or describes_machine(values):
        return None
    if not isinstance(target_name.value, str):
        mistakes.add(target_name.location, "wrong-type", "target must be the name of one", "modak targets lists them")
        return None
    try:
        return target_file(target_name.value)
    except UsageError as error:
        mistakes.add(target_name.location, "unknown-target", error.message, error.hint)
        return None


def _read_target_file(path: Path, mistakes: Mistakes) -> Item | None:
    """The words of a target file; a key that it names beside itself is found from anywhere."""
    tree = read_yaml(path, mistakes)
    if tree is None:
        return None
    if not is_target_file(tree):
        hint = "give a file as modak discover writes it: frontend: ..., scheduler: ..."
        mistakes.add(
            tree.location, "inputs-form", "a blueprint has a target of its own, which this file does not describe", hint
        )
        return None
    note_secrets(tree, mistakes)
    for name, words in [("", tree), *tree.entries.items()]:
        key = words.get("identity_file")
        if key is not None and isinstance(key.value, str) and key.value:
            key_path = str((path.parent / expanded(key.value)).absolute())
            where = (name, "identity_file") if name else ("identity_file",)
            tree = with_value_at(tree, where, Item(key.location, key_path, key_path))
    return tree


def _is_service_template(root: Item, mistakes: Mistakes) -> bool:
    if not root.is_map:
        hint = "give a blueprint, a request (JSON or YAML), or a script of Python"
        mistakes.add(root.location, "tosca-version", "not a TOSCA file: it is not a mapping", hint)
        return False
    if is_target_file(root):
        hint = "give a blueprint or a script, and this file with --on"
        mistakes.add(root.location, "tosca-version", "this is a target file, not a blueprint", hint)
        return False
    return check_version(root, mistakes)


def _read_inputs(inputs: Inputs, mistakes: Mistakes, declared: Item | None = None) -> Item:
    """The given values as one mapping; every value keeps the place where it was given.

    Args:
        declared: the template's inputs; what is a string by them is taken as it is written, be it 2.10 or 10:00:00.
    """
    entries: dict[str, Item] = {}
    keys: dict[str, Location] = {}
    location = Location("--input")
    if inputs.file is not None:
        tree = read_yaml(inputs.file, mistakes)
        location = Location(str(inputs.file))
        if tree is not None and not tree.is_map:
            mistakes.add(tree.location, "inputs-form", "an inputs file must be a mapping of names to values")
        elif tree is not None:
            entries, keys = dict(tree.entries), dict(tree.keys)
    for name, text in inputs.values:
        place = f"--input {name}"
        value = parse_yaml(text, place, mistakes) if text.strip() else Item(Location(place), text, text)
        kind = declared.get(name, "type") if declared else None
        if value is not None and kind and kind.value == "string" and isinstance(value.value, int | float):
            value = Item(value.location, text.strip(), text)
        if value is not None:
            entries[name], keys[name] = value.at(Location(place)), Location(place)
    values = Item(location, entries, keys=keys)
    note_secrets(values, mistakes)
    return values


class _Reader:
    def __init__(self, path: Path, topology: Topology, mistakes: Mistakes, inputs: Inputs) -> None:
        self._path = path
        self._inputs = inputs
        self._topology = topology
        self._mistakes = mistakes
        self._folders = ScriptFolders()

    def read(self) -> Blueprint:
        blueprint = Blueprint(self._path)
        for node in self._topology.derived_from(TARGET):
            target = read_target(self._topology, node, self._path.parent, self._mistakes)
            if target:
                blueprint.targets[node.name] = target
        trainings = self._topology.derived_from(TRAINING)
        templates = entries_of(self._topology.root.get("topology_template", "node_templates"))
        if not trainings and self._topology.nodes and len(self._topology.nodes) == len(templates):
            place = self._topology.root.key_location("topology_template")
            self._mistakes.add(place, "no-training", "the blueprint has no training", f"add a node of type {TRAINING}")
        order = read_order(self._topology, trainings, self._mistakes)
        for node in trainings:
            self._read_training(node, blueprint, order[node.name])
        self._check_used(trainings)
        return blueprint

    def _read_training(self, node: Node, blueprint: Blueprint, after: tuple[Predecessor, ...]) -> None:
        for name in (node.name, *node.requirements.values(), *_datasets_of(node)):
            blueprint.related.setdefault(name, []).append(node.name)
        self._check_one_host(node)
        target = blueprint.targets.get(node.requirements.get("host", ""))
        folder, mistakes = self._path.parent, self._mistakes
        reader = TrainingReader(self._topology, node, folder, mistakes, blueprint.warnings, self._folders)
        places = {"": node.item.key_location("type"), **_places(self._topology, node)}
        request = reader.read(self._blueprint_name(), target)
        trials = [point for name, point in self._inputs.points if name == node.name]
        points = reader.points(request.model_copy(update={"after": after}), trials) if request else []
        blueprint.requests += points
        blueprint.places.update(dict.fromkeys((node.name, *(point.training for point in points)), places))

    def _check_one_host(self, node: Node) -> None:
        host = node.requirements.get("host")
        required = {name: item.location for name, item in _datasets_of(node).items()}
        if "image" in node.requirements:
            required[node.requirements["image"]] = node.requirement_locations["image"]
        for name, place in required.items():
            other = self._topology.nodes.get(name)  # none where it was refused
            other_host = other.requirements.get("host") if other else None
            if host and other_host and other_host != host:
                self._mistakes.add(
                    place, "another-host", f"{name} is on {other_host}, not on {host}",
                    f"host both on {host}",
                )  # fmt: skip

    def _check_used(self, trainings: list[Node]) -> None:
        """A dataset or an image that no training reads is a slip of the pen, not a preference."""
        used_names = {name for node in trainings for name in (*node.requirements.values(), *_datasets_of(node))}
        are_understood = all(node.is_understood for node in trainings)
        for kind in (DATASET, IMAGE):
            for node in self._topology.derived_from(kind):
                if node.name not in used_names and trainings and are_understood:
                    self._mistakes.add(
                        node.item.location, "not-used", f"no training requires {node.name}",
                        f"- {'dataset' if kind == DATASET else 'image'}: {node.name}",
                    )  # fmt: skip

    def _blueprint_name(self) -> str:
        template_name = self._topology.root.get("metadata", "template_name")
        if template_name and isinstance(template_name.value, str):
            return template_name.value
        return self._path.parent.resolve().name


def _places(topology: Topology, node: Node) -> dict[str, Location]:
    """Where the values stand that the planner may refuse."""
    places: dict[str, Location] = {}
    datasets = [(topology.nodes.get(name), field_of(number)) for number, name in enumerate(_datasets_of(node))]
    owners = [(topology.nodes.get(node.requirements.get(key, "")), key) for key in _OWNERS]
    for owner, prefix in ((node, ""), *datasets, *owners):
        if owner is None:
            continue
        if prefix:
            places[prefix] = owner.item.location
        for name, item in owner.properties.items():
            _collect(item, f"{prefix}.{name}" if prefix else name, places)
    for name, option in OPTIONS.items():  # what stands there in place of a resource
        if option.resource and (place := places.get(f"job_options.{name}")):
            field_name = "walltime" if option.resource == "walltime" else f"resources.{option.resource}"
            places.setdefault(field_name, place)
    return places


_OWNERS = ("image", "host")


def _datasets_of(node: Node) -> dict[str, Item]:
    """The datasets that a training requires, by the names of their nodes."""
    return {str(item.value): item for item in node.several.get("dataset", [])}


def _collect(item: Item, name: str, places: dict[str, Location]) -> None:
    places[name] = item.location
    children: dict[str, Any] = item.entries
    for key, child in (*children.items(), *enumerate(item.elements)):
        _collect(child, f"{name}.{key}", places)
