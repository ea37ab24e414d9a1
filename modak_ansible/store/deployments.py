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
    stores = [DeploymentStore(folder) for folder in sorted((state / FOLDER).glob("*/"))]
    return sorted((store for store in stores if store.is_there), key=lambda store: store.saved)


def _readable(stores: Iterable[DeploymentStore]) -> list[DeploymentStore]:
    """Those whose plans can be read."""
    return [store for store in stores if store.plan.get("digest")]


def _newest() -> DeploymentStore:
    """The newest deployment of the project here; one that was not undone, if there is.

    Raises:
        UsageError: nothing was deployed.
    """
    stores = known_deployments(state_folder(Path.cwd()))
    if not stores:
        raise UsageError("nothing was deployed from here", hint="modak deploy BLUEPRINT does")
    return _not_undeployed(stores)[-1]


def _not_undeployed(stores: list[DeploymentStore]) -> list[DeploymentStore]:
    """Those that were not undone; all where all were."""
    return [store for store in stores if not store.record.get("undeployed")] or stores


def not_superseded(stores: list[DeploymentStore]) -> list[DeploymentStore]:
    """Deployments, the newest last, but those that failed, or were given up as plans, before they had a job and were
    deployed anew since."""
    in_vain = [store for store in stores if _failed_before_job(store)]
    if not in_vain:
        return stores
    newest = {_training_of(store): store for store in stores}
    superseded = {
        store.name
        for store in in_vain
        if (newer := newest[_training_of(store)]) is not store
        and (store.has_record or newer.has_record)  # of two plans both are shown
    }
    return [store for store in stores if store.name not in superseded]


def _failed_before_job(store: DeploymentStore) -> bool:
    record = store.record
    if record.get("job") or record.get("undeployed"):
        return False
    return not store.has_record or any(note.get("state") == "failed" for note in (record.get("stages") or {}).values())


def _training_of(store: DeploymentStore) -> tuple[str, str]:
    return str(store.origin.get("blueprint", "")), str(store.plan.get("training", ""))


def find_deployments(text: str) -> list[DeploymentStore]:
    """The deployments that a user means, the newest last: those of a name or the beginning of one, or a blueprint's.

    Raises:
        UsageError: there is none.
    """
    check_name(text)
    stores = glance(state_folder(Path.cwd()))
    readable = _readable(stores)
    matches = [store for store in readable if store.name == text] or _find_below(text)
    if matches:
        return matches
    try:
        blueprint = find_blueprint(text)
    except ModakError:
        return _starting_with(text, stores)
    of_blueprint = _all_deployments_of(blueprint)
    if not of_blueprint:
        copies = [store.name for store in readable if store.name.startswith(f"{text}-")]
        hint = f"of a copy there are {', '.join(copies)}" if copies else "modak status lists what was"
        raise UsageError(f"{text} was not deployed from here", hint=hint)
    return of_blueprint


def _find_below(name: str) -> list[DeploymentStore]:
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
    stores = {store.name: store for text in texts for store in find_trainings(text, training)}
    if not stores:
        raise UsageError("no deployment is named", hint="modak status lists those that are there")
    return list(stores.values())


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
    stores = find_deployments(text)
    if stores[0].name != text:
        names = sorted(store.name for store in stores)
        if not _names_blueprint(text):
            if len(stores) > 1:
                hint = f"{some_of(names, _SHOWN)}; a blueprint means all of its trainings"
                raise UsageError(f"{text} matches several deployments", hint=hint)
        elif not (stores := [store for store in stores if not store.is_aside]):
            raise UsageError(
                f"no training of {text} was deployed from here", hint=f"deployed from here: {', '.join(names)}"
            )
    current = _not_undeployed(stores)
    nodes = node_names(find_blueprint(text)) if len(current) > 1 else None
    in_blueprint = [store for store in current if nodes is None or _node_of(store) in nodes] or current[-1:]
    newest = {store.plan.get("training", ""): store for store in in_blueprint}
    matches = [store for name, store in newest.items() if training in (None, name, _node_of(store))]
    if not matches:
        hint = nearest(training or "", list(newest)) or "modak status lists them"
        raise UsageError(f"{text} has no deployment of a training {training}", hint=hint)
    return sorted(matches, key=lambda store: natural(store.plan.get("training", "")))


def natural(text: str) -> list[tuple[float, str]]:
    """Sorts texts by the numbers in them: seed=2 before seed=10."""
    parts = re.split(r"(\d+(?:\.\d+)?)", text)
    return [(float(part), "") if number % 2 else (0.0, part) for number, part in enumerate(parts)]


def _node_of(store: DeploymentStore) -> str:
    """The blueprint's node of a deployment; a sweep's points share it."""
    origin = store.origin
    return str(origin.get("node") or store.plan.get("training", ""))


def deployments_of(blueprint: Path, *, aside: bool = False) -> list[DeploymentStore]:
    """The deployments of a blueprint's trainings, the newest last; or those beside them, such as notebooks."""
    return [deployment for deployment in _all_deployments_of(blueprint) if deployment.is_aside is aside]


def _all_deployments_of(blueprint: Path) -> list[DeploymentStore]:
    return [
        deployment for deployment in known_deployments(blueprint_state(blueprint)) if _belongs_to(deployment, blueprint)
    ]


def _starting_with(text: str, stores: list[DeploymentStore]) -> list[DeploymentStore]:
    """Those whose name begins with a text.

    Raises:
        UsageError: there is none, or no plan of theirs can be read.
    """
    matches = [store for store in stores if store.name.startswith(text)]
    if not matches:
        hint = nearest(text, sorted(store.name for store in _readable(stores))) or "modak status lists them"
        raise UsageError(f"there is no deployment {text}", hint=hint)
    readable = _readable(matches)
    if not readable:
        store = matches[0]
        raise UsageError(f"{store.plan_file} cannot be read", hint="deploy its blueprint again: that writes it again")
    return readable


def _names_blueprint(text: str) -> bool:
    try:
        find_blueprint(text)
    except ModakError:
        return False
    return True


def _belongs_to(store: DeploymentStore, blueprint: Path) -> bool:
    note = store.origin
    path, state = Path(note.get("blueprint", "")), Path(note.get("state", ""))
    origin = moved_with(store.folder, state, path)
    if origin.resolve() == blueprint.resolve():
        return True
    # opera unpacks a package into a folder of its own, and then the deployment is known to come from there
    return is_packed(blueprint) and origin.is_file() and origin.read_bytes() == blueprint.read_bytes()
