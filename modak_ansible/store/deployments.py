"""The deployments that a project knows."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from modak_ansible.errors import ModakError, UsageError, nearest
from modak_ansible.model.quantities import some_of
from modak_ansible.store.deployment import FOLDER, DeploymentStore
from modak_ansible.store.project import (
    STATE_FOLDER,
    blueprint_state,
    check_name,
    find_blueprint,
    is_packed,
    moved_with,
    node_names,
    state_folder,
)

_FULL_NAME = re.compile(r"[\w.-]+-[0-9a-f]{12}")

_SHOWN = 8  # names in a message


def known_deployments(state: Path) -> list[DeploymentStore]:
    """The deployments of a project, the newest last; damaged ones are left out."""
    return _readable(glance(state))


def glance(state: Path) -> list[DeploymentStore]:
    """All that a project has of deployments, the newest last; their plans are read when they are asked for."""
    found = [DeploymentStore(folder) for folder in sorted((state / FOLDER).glob("*/"))]
    return sorted((store for store in found if store.is_there), key=lambda store: store.saved)


def _readable(stores: Iterable[DeploymentStore]) -> list[DeploymentStore]:
    """Those whose plans can be read."""
    return [store for store in stores if store.plan.get("digest")]


def _newest() -> DeploymentStore:
    """The newest deployment of the project here; one that was not undone, if there is.

    Raises:
        UsageError: nothing was deployed.
    """
    known = known_deployments(state_folder(Path.cwd()))
    if not known:
        raise UsageError("nothing was deployed from here", hint="modak deploy BLUEPRINT does")
    return _there(known)[-1]


def _there(known: list[DeploymentStore]) -> list[DeploymentStore]:
    """Those that were not undone; all where all were."""
    return [store for store in known if not store.record.get("undeployed")] or known


def not_superseded(known: list[DeploymentStore]) -> list[DeploymentStore]:
    """Deployments, the newest last, but those that failed, or were given up as plans, before they had a job and were
    deployed anew since."""
    in_vain = [store for store in known if _came_to_nothing(store)]
    if not in_vain:
        return known
    newest = {_what(store): store for store in known}
    gone = {
        store.name
        for store in in_vain
        if (last := newest[_what(store)]) is not store
        and (store.has_record or last.has_record)  # of two plans both are shown
    }
    return [store for store in known if store.name not in gone]


def _came_to_nothing(store: DeploymentStore) -> bool:
    record = store.record
    if record.get("job") or record.get("undeployed"):
        return False
    return not store.has_record or any(each.get("state") == "failed" for each in (record.get("stages") or {}).values())


def _what(known: DeploymentStore) -> tuple[str, str]:
    return str(known.origin.get("blueprint", "")), str(known.plan.get("training", ""))


def find_deployments(text: str) -> list[DeploymentStore]:
    """The deployments that a user means, the newest last: those of a name or the beginning of one, or a blueprint's.

    Raises:
        UsageError: there is none.
    """
    check_name(text)
    every = glance(state_folder(Path.cwd()))
    known = _readable(every)
    named = [store for store in known if store.name == text] or _below(text)
    if named:
        return named
    try:
        blueprint = find_blueprint(text)
    except ModakError:
        return _beginning(text, every)
    of_blueprint = _all_of(blueprint)
    if not of_blueprint:
        alike = [store.name for store in known if store.name.startswith(f"{text}-")]
        hint = f"of a copy there are {', '.join(alike)}" if alike else "modak status lists what was"
        raise UsageError(f"{text} was not deployed from here", hint=hint)
    return of_blueprint


def _below(name: str) -> list[DeploymentStore]:
    """That of a name in a project below the current folder, whose blueprint was deployed from here; of copies one."""
    if not _FULL_NAME.fullmatch(name):
        return []
    places = (f"{depth}/{STATE_FOLDER}/{FOLDER}/{name}" for depth in ("*", "*/*"))
    return _readable(DeploymentStore(folder) for place in places for folder in Path.cwd().glob(place))[:1]


def find_all(texts: Iterable[str], training: str | None = None) -> list[DeploymentStore]:
    """What each of some texts means, by :func:`find_trainings`, each once.

    Raises:
        UsageError: there is none.
    """
    found = {store.name: store for text in texts for store in find_trainings(text, training)}
    if not found:
        raise UsageError("no deployment is named", hint="modak status lists those that are there")
    return list(found.values())


def find_trainings(text: str | None, training: str | None = None) -> list[DeploymentStore]:
    """The deployments that a user means: one by its name, or of each of a blueprint's trainings the newest one.

    Those that were undone are left out while others are there, and so is what the blueprint no longer has. A trace, a
    tuning run and a notebook are meant by their own names alone.

    Args:
        text: a deployment's name, or the beginning of it, or a blueprint; None for the newest deployment of all.

    Raises:
        UsageError: there is none, or the beginning of a name fits several.
    """
    if text is None:
        if training:
            raise UsageError("--training needs a blueprint", hint="name the blueprint, too")
        return [_newest()]
    found = find_deployments(text)
    if found[0].name != text:
        names = sorted(store.name for store in found)
        if not _names_blueprint(text):
            if len(found) > 1:
                hint = f"{some_of(names, _SHOWN)}; a blueprint means all of its trainings"
                raise UsageError(f"{text} matches several deployments", hint=hint)
        elif not (found := [store for store in found if not store.is_aside]):
            raise UsageError(
                f"no training of {text} was deployed from here", hint=f"deployed from here: {', '.join(names)}"
            )
    there = _there(found)
    nodes = node_names(find_blueprint(text)) if len(there) > 1 else None
    current = [store for store in there if nodes is None or _node_of(store) in nodes] or there[-1:]
    newest = {store.plan.get("training", ""): store for store in current}
    meant = [store for name, store in newest.items() if training in (None, name, _node_of(store))]
    if not meant:
        hint = nearest(training or "", list(newest)) or "modak status lists them"
        raise UsageError(f"{text} has no deployment of a training {training}", hint=hint)
    return sorted(meant, key=lambda store: natural(store.plan.get("training", "")))


def natural(text: str) -> list[tuple[float, str]]:
    """Sorts texts by the numbers in them: seed=2 before seed=10."""
    parts = re.split(r"(\d+(?:\.\d+)?)", text)
    return [(float(part), "") if number % 2 else (0.0, part) for number, part in enumerate(parts)]


def _node_of(known: DeploymentStore) -> str:
    """The blueprint's node of a deployment; a sweep's points share it."""
    noted = known.origin
    return str(noted.get("node") or known.plan.get("training", ""))


def deployments_of(blueprint: Path, *, aside: bool = False) -> list[DeploymentStore]:
    """The deployments of a blueprint's trainings, the newest last; or those beside them, such as notebooks."""
    return [deployment for deployment in _all_of(blueprint) if deployment.is_aside is aside]


def _all_of(blueprint: Path) -> list[DeploymentStore]:
    return [deployment for deployment in known_deployments(blueprint_state(blueprint)) if _is_of(deployment, blueprint)]


def _beginning(text: str, every: list[DeploymentStore]) -> list[DeploymentStore]:
    """Those whose name begins with a text.

    Raises:
        UsageError: there is none, or no plan of theirs can be read.
    """
    fitting = [store for store in every if store.name.startswith(text)]
    if not fitting:
        hint = nearest(text, sorted(store.name for store in _readable(every))) or "modak status lists them"
        raise UsageError(f"there is no deployment {text}", hint=hint)
    found = _readable(fitting)
    if not found:
        damaged = fitting[0]
        raise UsageError(f"{damaged.plan_file} cannot be read", hint="deploy its blueprint again: that writes it again")
    return found


def _names_blueprint(text: str) -> bool:
    try:
        find_blueprint(text)
    except ModakError:
        return False
    return True


def _is_of(known: DeploymentStore, blueprint: Path) -> bool:
    noted = known.origin
    path, state = Path(noted.get("blueprint", "")), Path(noted.get("state", ""))
    origin = moved_with(known.folder, state, path)
    if origin.resolve() == blueprint.resolve():
        return True
    # opera unpacks a package into a folder of its own, and then the deployment is known to come from there
    return is_packed(blueprint) and origin.is_file() and origin.read_bytes() == blueprint.read_bytes()
