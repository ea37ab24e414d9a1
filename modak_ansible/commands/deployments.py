"""The deployments that a project knows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modak_ansible.errors import ModakError, UsageError
from modak_ansible.project import blueprint_state, find_blueprint, state_folder
from modak_ansible.target.files import read_json


@dataclass(frozen=True)
class Known:
    """A deployment's folder, its plan and its record."""

    folder: Path
    plan: dict[str, Any]
    record: dict[str, Any]

    @property
    def updated(self) -> float:
        return float(self.record.get("updated", 0))


def known_deployments(state: Path) -> list[Known]:
    """The deployments of a project, the newest last; damaged ones are left out."""
    found = []
    for path in (state / "deployments").glob("*/plan.json"):
        plan = read_json(path)
        if plan and plan.get("digest"):
            found.append(Known(path.parent, plan, read_json(path.parent / "state.json") or {}))
    return sorted(found, key=lambda each: each.updated)


def find_deployment(text: str) -> Path:
    """The folder of the deployment that a user means.

    Args:
        text: a deployment's name or the beginning of it, or a blueprint, whose newest deployment is meant.

    Raises:
        UsageError: there is none, or the beginning fits several.
    """
    from modak_ansible.errors import nearest

    known = known_deployments(state_folder(Path.cwd()))
    fitting = [each for each in known if each.folder.name == text] or [
        each for each in known if each.folder.name.startswith(text)
    ]
    names = {each.plan["name"] for each in fitting}
    if fitting and len(names) == 1:
        return fitting[-1].folder
    if len(names) > 1:
        raise UsageError(f"{text} fits several deployments", hint=", ".join(each.folder.name for each in fitting))
    try:
        blueprint = find_blueprint(text)
    except ModakError:
        hint = nearest(text, [each.folder.name for each in known]) or "modak status lists them"
        raise UsageError(f"there is no deployment {text}", hint=hint) from None
    of_blueprint = [each for each in known_deployments(blueprint_state(blueprint)) if _is_of(each, blueprint)]
    if not of_blueprint:
        raise UsageError(f"{text} was not deployed from here", hint="modak status lists what was")
    return of_blueprint[-1].folder


def _is_of(known: Known, blueprint: Path) -> bool:
    origin = read_json(known.folder / "origin.json") or {}
    return Path(origin.get("blueprint", "")).resolve() == blueprint.resolve()
