"""Suites are read from YAML, and every mistake in them is told with its place before anything runs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modak_ansible.catalogue import Catalogue, load_catalogue
from modak_ansible.catalogue.entry import script_for
from modak_ansible.errors import ModakError, UsageError, nearest
from modak_ansible.measuring.suites.fields import Fields, members_of
from modak_ansible.measuring.suites.switches import plan_switch_problem
from modak_ansible.measuring.suites.workloads import load_workloads, switch_problem, workloads_folder
from modak_ansible.model.measured.suite import Group, Matrix, Suite
from modak_ansible.model.measured.workload import Workload
from modak_ansible.model.quantities import parse_walltime
from modak_ansible.performance.stock import suite_switches
from modak_ansible.reading.blueprint.forms import text_rules as rules
from modak_ansible.reading.blueprint.forms.mistakes import Mistakes
from modak_ansible.reading.blueprint.forms.yaml_files import read_yaml
from modak_ansible.reading.blueprint.forms.yaml_tree import Item
from modak_ansible.store.project import find_blueprint
from modak_ansible.target.core.files import expanded

_SUITE = ("name", "title", "description", "targets", "rounds", "walltime", "arguments", "groups")
_GROUP = ("name", "title", "workload", "matrix", "arguments", "rounds", "nodes", "targets")
_WALLTIME = 1200
_ROUNDS = 5
DEFAULT_TARGETS = {"testbed": "mnist-pytorch-slurm"}


@dataclass(frozen=True)
class Inventory:
    catalogue: Catalogue
    workloads: Mapping[str, Workload]


def load_inventory() -> Inventory:
    return Inventory(load_catalogue(), load_workloads())


def find_suite(text: str) -> Path:
    """The suite that a user means: a file, or the name of one that ships.

    Raises:
        UsageError: there is none.
    """
    path = expanded(text)
    if path.is_file():
        return path
    folder = workloads_folder() / "suites"
    if "/" not in text and (folder / f"{text}.yaml").is_file():
        return folder / f"{text}.yaml"
    hint = nearest(path.stem, [path.stem for path in folder.glob("*.yaml")])
    raise UsageError(f"there is no suite {text}", hint=hint or "give a suite's file, or the name of one that ships")


def read_suite(path: Path, inventory: Inventory | None = None) -> Suite:
    """The suite of a file.

    Raises:
        InvalidBlueprint: with every mistake and its place.
    """
    mistakes = Mistakes()
    root = read_yaml(path, mistakes)
    suite = _Reader(path, inventory or load_inventory(), mistakes).suite(root) if root is not None else None
    mistakes.raise_if_any()
    assert suite is not None  # noqa: S101 - None comes with a mistake
    return suite


def find_target(suite_file: Path, text: str) -> Path:
    """The blueprint of a suite's target: below the suite's folder, or as the other commands find one."""
    beside = suite_file.parent / text
    return find_blueprint(str(beside) if beside.exists() else text)


class _Reader:
    def __init__(self, path: Path, inventory: Inventory, mistakes: Mistakes) -> None:
        self._path = path
        self._inventory = inventory
        self._mistakes = mistakes

    def suite(self, root: Item) -> Suite | None:
        fields = Fields(root, "the suite", _SUITE, self._mistakes)
        targets = self._targets(fields) or DEFAULT_TARGETS
        names: dict[str, Item] = {}
        groups = [self._group(element, targets, names) for element in fields.elements("groups", required=True)]
        values: dict[str, Any] = {
            "name": fields.text("name", required=True, rule=rules.name_problem),
            "title": fields.text("title", required=True),
            "description": fields.text("description"),
            "rounds": fields.count("rounds", _ROUNDS),
            "walltime": self._walltime(fields),
            "arguments": self._arguments(fields),
            "targets": targets,
        }
        if self._mistakes:
            return None
        digest = hashlib.sha256(self._path.read_bytes()).hexdigest()
        return Suite(**values, groups=tuple(group for group in groups if group), digest=digest)

    def _targets(self, fields: Fields) -> dict[str, str]:
        targets = {}
        for name, place, item in fields.members("targets"):
            if problem := rules.name_problem(name):
                self._mistakes.add(place.location, "unsafe-value", problem)
            text = fields.scalar(item, f"the blueprint of {name}")
            if text is None:
                continue
            try:
                find_target(self._path, text)
            except ModakError as error:
                fields.note(item, "file-not-found", error.message, error.hint)
            targets[name] = text
        if not targets and fields.item.get("targets") and not self._mistakes:
            fields.note(fields.item.entries["targets"], "wrong-type", "targets must name a blueprint")
        return targets

    def _walltime(self, fields: Fields) -> int:
        item = fields.get("walltime")
        try:
            return parse_walltime(item.text) if item else _WALLTIME
        except ValueError as error:
            fields.note(item or fields.item, "walltime", str(error), 'such as "00:20:00"')
            return _WALLTIME

    def _arguments(self, fields: Fields) -> dict[str, str]:
        arguments = {}
        for name, place, item in fields.members("arguments"):
            value = fields.scalar(item, f"the argument {name}")
            if problem := rules.option_problem(name) or rules.value_problem(value or ""):
                self._mistakes.add(place.location, "unsafe-value", problem)
            arguments[name] = value or ""
        return arguments

    # --- groups

    def _group(self, item: Item, targets: Iterable[str], names: dict[str, Item]) -> Group | None:
        fields = Fields(item, "a group", _GROUP, self._mistakes)
        name = fields.text("name", required=True, rule=rules.name_problem)
        self._once(names, name, item.get("name"), "the group")
        workload = self._workload(fields)
        variants: dict[str, Item] = {}
        matrices = [self._matrix(element, workload, variants) for element in fields.elements("matrix", required=True)]
        nodes = fields.count("nodes", 1)
        if workload and nodes < workload.nodes:
            message = f"{workload.name} needs {workload.nodes} nodes"
            fields.note(item.get("nodes") or item, "nodes", message, f"nodes: {workload.nodes}")
        values: dict[str, Any] = {
            "title": fields.text("title", required=True),
            "arguments": self._arguments(fields),
            "rounds": fields.count("rounds", _ROUNDS) if item.get("rounds") else None,
            "targets": tuple(self._chosen(fields, targets)),
        }
        valid_matrices = tuple(matrix for matrix in matrices if matrix)
        if not name or workload is None or not valid_matrices:
            return None
        return Group(name=name, workload=workload.name, matrix=valid_matrices, nodes=nodes, **values)

    def _once(self, names: dict[str, Item], name: str, item: Item | None, what: str) -> None:
        if name and item is not None and names.setdefault(name, item) is not item:
            first = names[name].location.line
            self._mistakes.add(
                item.location, "duplicate-name", f"{what} {name} is defined twice, first in line {first}"
            )

    def _workload(self, fields: Fields) -> Workload | None:
        name = fields.text("workload", required=True)
        workload = self._inventory.workloads.get(name)
        item = fields.item.get("workload")
        if name and item and workload is None:
            fields.note(
                item, "unknown-workload", f"there is no workload {name}", nearest(name, self._inventory.workloads)
            )
        return workload

    def _chosen(self, fields: Fields, targets: Iterable[str]) -> Iterable[str]:
        for item in fields.elements("targets"):
            name = fields.scalar(item, "a target")
            if name is not None and name not in targets:
                fields.note(item, "unknown-target", f"the suite has no target {name}", nearest(name, targets))
            elif name is not None:
                yield name

    def _matrix(self, item: Item, workload: Workload | None, variants: dict[str, Item]) -> Matrix | None:
        fields = Fields(item, "a matrix", ("entries", "settings"), self._mistakes)
        entries = [
            (element, fields.scalar(element, "an entry")) for element in fields.elements("entries", required=True)
        ]
        listed_sets = fields.elements("settings")
        sets = listed_sets or [Item(item.location, {})]
        settings = [(element, self._switches(element, fields)) for element in sets]
        for place, name in entries:
            for set_place, values in settings:
                if name is not None:
                    self._pair(place, name, set_place, values, workload)
                    variant = variant_name(name, values)
                    self._once(variants, variant, set_place if listed_sets else place, "the variant")
        names = tuple(name for _, name in entries if name is not None)
        return Matrix(entries=names, settings=tuple(values for _, values in settings)) if names else None

    def _switches(self, item: Item, fields: Fields) -> dict[str, str]:
        if not item.is_map:
            fields.note(item, "wrong-type", "a set of switches must be a mapping", "{} for none")
        switches = {}
        for name, _, value in members_of(item):
            text = fields.scalar(value, f"the switch {name}")
            if text is not None:
                switches[name] = text
        return switches

    def _pair(
        self, place: Item, name: str, set_place: Item, settings: Mapping[str, str], workload: Workload | None
    ) -> None:
        """Whether an entry can do the work with a set of switches."""
        entry = self._inventory.catalogue.find(name)
        if entry is None:
            names = [entry.name for entry in self._inventory.catalogue.entries]
            self._mistakes.add(
                place.location, "unknown-entry", f"the catalogue has no entry {name}", nearest(name, names)
            )
            return
        script = script_for(workload, entry) if workload else None
        if workload and script is None:
            message = f"{workload.name} has no script for {entry.framework} {entry.version}"
            self._mistakes.add(place.location, "no-script", message)
        for switch in settings:
            is_known = switch in suite_switches() or (script is not None and switch in script.switches)
            problem, right = plan_switch_problem(settings, switch) or (
                switch_problem(script, settings, switch) if script else ("", "")
            )
            if problem:
                location = set_place.entries[switch].location if is_known else set_place.key_location(switch)
                self._mistakes.add(location, "unknown-switch", problem, f"valid: {right}" if right else "")


def variant_name(entry: str, settings: Mapping[str, str]) -> str:
    """How a run is called in its group: its entry and the switches that are not as ever."""
    return " ".join((entry, *(f"{name}={value}" for name, value in settings.items())))
