"""The deployments that a project knows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modak_ansible.errors import ModakError, UsageError, nearest
from modak_ansible.project import blueprint_state, find_blueprint, is_packed, moved_with, state_folder
from modak_ansible.target.files import read_json


@dataclass(frozen=True)
class Known:
    """A deployment's folder, its plan and its record."""

    folder: Path
    plan: dict[str, Any]
    record: dict[str, Any]

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
    for path in sorted((state / "deployments").glob("*/*.json")):
        folder = path.parent
        if path.name == "plan.json":
            plan = read_json(path)
            if plan and plan.get("digest"):
                found.append(Known(folder, plan, read_json(folder / "state.json") or {}))
            else:
                damaged.append(folder)
        elif path.name == "state.json" and not (folder / "plan.json").exists():
            damaged.append(folder)
    return sorted(found, key=lambda each: each.updated), damaged


def find_deployment(text: str) -> Path:
    """The folder of the deployment that a user means; the newest one that was not undone where that is a blueprint.

    Raises:
        UsageError: there is none, or the beginning of a name fits several.
    """
    found = find_deployments(text)
    there = [each for each in found if not each.record.get("undeployed")]
    return (there or found)[-1].folder


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
        raise UsageError(f"{text} was not deployed from here", hint="modak status lists what was")
    return of_blueprint


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
