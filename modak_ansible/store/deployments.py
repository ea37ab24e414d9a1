"""The deployments that a project knows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from modak_ansible.errors import ModakError, UsageError, nearest
from modak_ansible.store.project import SAVED, blueprint_state, find_blueprint, is_packed, moved_with, state_folder
from modak_ansible.target.core.files import changed_at, read_json


@dataclass
class Known:
    """A deployment's folder, its record and its plan."""

    folder: Path
    record: dict[str, Any]

    @cached_property
    def plan(self) -> dict[str, Any]:
        """Empty where it cannot be read; reading those of a thousand deployments takes half a second."""
        return read_json(self.folder / "plan.json") or {}

    @cached_property
    def saved(self) -> float:
        """When its plan was last deployed; whoever only looks at it does not change that."""
        try:
            return float((self.folder / SAVED).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return changed_at(self.folder / "plan.json") or 0.0

    @property
    def updated(self) -> float:
        value = self.record.get("updated", 0)
        return float(value) if isinstance(value, (int, float)) else 0.0


def known_deployments(state: Path) -> list[Known]:
    """The deployments of a project, the newest last; damaged ones are left out."""
    return survey(state)[0]


def survey(state: Path) -> tuple[list[Known], list[Path]]:
    """The deployments of a project, the newest last, and the folders of those whose plan cannot be read."""
    found, damaged = [], []
    for each in glance(state):
        if each.plan.get("digest"):
            found.append(each)
        else:
            damaged.append(each.folder)
    return found, damaged


def glance(state: Path) -> list[Known]:
    """All that a project has of deployments, the newest last; their plans are read when they are asked for."""
    files = (state / "deployments").glob("*/*.json")
    folders = sorted({path.parent for path in files if path.name in ("plan.json", "state.json")})
    found = [Known(folder, read_json(folder / "state.json") or {}) for folder in folders]
    return sorted(found, key=lambda each: each.saved)


def newest_deployment() -> Path:
    """The folder of the newest deployment of the project here; one that was not undone, if there is.

    Raises:
        UsageError: nothing was deployed.
    """
    known = known_deployments(state_folder(Path.cwd()))
    if not known:
        raise UsageError("nothing was deployed from here", hint="modak deploy BLUEPRINT does")
    return _there(known)[-1].folder


def _there(known: list[Known]) -> list[Known]:
    """Those that were not undone; all where all were."""
    return [each for each in known if not each.record.get("undeployed")] or known


def find_deployments(text: str) -> list[Known]:
    """The deployments that a user means, the newest last: one by its name or the beginning of it, or a blueprint's.

    Raises:
        UsageError: there is none, or the beginning of a name fits several.
    """
    known = known_deployments(state_folder(Path.cwd()))
    named = [each for each in known if each.folder.name == text]
    if named:
        return named
    try:
        blueprint = find_blueprint(text)
    except ModakError:
        return [_only(text, known)]
    of_blueprint = deployments_of(blueprint)
    if not of_blueprint:
        alike = [each.folder.name for each in known if each.folder.name.startswith(f"{text}-")]
        hint = f"of a copy there are {', '.join(alike)}" if alike else "modak status lists what was"
        raise UsageError(f"{text} was not deployed from here", hint=hint)
    return of_blueprint


def find_trainings(text: str, training: str | None = None) -> list[Known]:
    """The deployments that a user means: one by its name, or of each of a blueprint's trainings the newest one.

    Those that were undone are left out while others are there, and so is what the blueprint no longer has.

    Args:
        text: a deployment's name, or the beginning of it, or a blueprint.
        training: the only one that is meant, with all points of its sweep, or one point.

    Raises:
        UsageError: there is none, or the beginning of a name fits several.
    """
    found = find_deployments(text)
    there = _there(found)
    nodes = _nodes_of(text) if len(there) > 1 else None
    current = [each for each in there if nodes is None or _node_of(each) in nodes] or there[-1:]
    newest = {each.plan.get("training", ""): each for each in current}
    meant = [each for name, each in newest.items() if training in (None, name, _node_of(each))]
    if not meant:
        hint = nearest(training or "", list(newest)) or "modak status lists them"
        raise UsageError(f"{text} has no deployment of a training {training}", hint=hint)
    return sorted(meant, key=lambda each: natural(each.plan.get("training", "")))


def natural(text: str) -> list[tuple[float, str]]:
    """Sorts texts by the numbers in them: seed=2 before seed=10."""
    parts = re.split(r"(\d+(?:\.\d+)?)", text)
    return [(float(part), "") if number % 2 else (0.0, part) for number, part in enumerate(parts)]


def _node_of(known: Known) -> str:
    """The blueprint's node of a deployment; a sweep's points share it."""
    noted = read_json(known.folder / "origin.json") or {}
    return str(noted.get("node") or known.plan.get("training", ""))


def _nodes_of(text: str) -> set[str] | None:
    """The names of a blueprint's nodes; None where they cannot be told as simply as this."""
    import yaml

    try:
        template = yaml.safe_load(find_blueprint(text).read_bytes())
        return set(template["topology_template"]["node_templates"])
    except (ModakError, OSError, yaml.YAMLError, KeyError, TypeError):
        return None


def deployments_of(blueprint: Path) -> list[Known]:
    """The deployments of a blueprint, the newest last."""
    return [each for each in known_deployments(blueprint_state(blueprint)) if _is_of(each, blueprint)]


def _only(beginning: str, known: list[Known]) -> Known:
    fitting = [each for each in known if each.folder.name.startswith(beginning)]
    if len(fitting) == 1:
        return fitting[0]
    names = sorted(each.folder.name for each in fitting or known)
    if fitting:
        raise UsageError(f"{beginning} fits several deployments", hint=", ".join(names))
    hint = nearest(beginning, names) or "modak status lists them"
    raise UsageError(f"there is no deployment {beginning}", hint=hint)


def _is_of(known: Known, blueprint: Path) -> bool:
    noted = read_json(known.folder / "origin.json") or {}
    path, state = Path(noted.get("blueprint", "")), Path(noted.get("state", ""))
    origin = moved_with(known.folder, state, path)
    if origin.resolve() == blueprint.resolve():
        return True
    # opera unpacks a package into a folder of its own, and then the deployment is known to come from there
    return is_packed(blueprint) and origin.is_file() and origin.read_bytes() == blueprint.read_bytes()
