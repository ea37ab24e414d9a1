"""What nobody uses, on the targets of a project and in its own state folder."""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from modak_ansible.discovery.aim import target_of_file
from modak_ansible.errors import ModakError, UsageError, nearest
from modak_ansible.model.target import Target
from modak_ansible.planning.service import plan_trainings, planned_from_file
from modak_ansible.reading.blueprint.inputs import Inputs
from modak_ansible.store.deployment import BUILDS, DeploymentStore
from modak_ansible.store.deployments import known_deployments
from modak_ansible.store.project import find_blueprint, state_folder
from modak_ansible.target.core.files import Lock, changed_at
from modak_ansible.target.garbage.garbage import GarbageItem


@dataclass
class KnownTarget:
    """A target, and a saved plan that leads to it."""

    name: str
    address: str
    workspace: str
    plan_file: Path
    username: str = ""  # as whom it is entered; empty where ssh knows
    port: str = ""
    garbage: list[GarbageItem] = field(default_factory=list)  # what nobody uses there
    kept: list[GarbageItem] = field(default_factory=list)  # images and datasets that stay, with the reason
    removed: list[GarbageItem] = field(default_factory=list)  # what is gone

    @property
    def entered(self) -> tuple[str, ...]:
        """As whom, and where: what tells it from others that are called alike."""
        return self.address, self.username, self.port, self.workspace

    def run(self, **variables: Any) -> None:
        """Looks, and removes where the state is not ``queried``.

        Raises:
            ModakError: the target cannot be entered, or something cannot be removed.
        """
        from modak_ansible.deployment.playbook import run_playbook

        results = run_playbook("gc", {"modak_plan": str(self.plan_file), **variables}).results
        # of a cloud's machine that is not there nothing is asked
        answers = [results[name] for name in ("modak_machine", "modak_gc") if name in results]
        self.workspace = answers[-1].get("workspace", self.workspace)
        self.garbage = [item for answer in answers for item in answer["garbage"]]
        self.kept = [item for answer in answers for item in answer["kept"]]
        self.removed = [item for answer in answers for item in answer["removed"]]
        problems = [problem for answer in answers for problem in answer.get("problems", [])]
        if problems:
            hint = f"modak check {self.name} shows which hosts {self.address} cannot log in to; each needs python3"
            raise ModakError("; ".join(problems), hint=hint)

    def as_json(self) -> dict[str, object]:
        lists = {name: getattr(self, name) for name in ("garbage", "kept", "removed")}
        return {"target": self.name, "address": self.address, "workspace": self.workspace, **lists}


@dataclass
class Collection:
    """What nobody uses, and what became of it."""

    state: Path  # the state folder of the project
    targets: list[KnownTarget]  # where to look
    older_than: float  # what was used within so many seconds stays
    here: bool = False  # whether folders of undeployed deployments go, too
    local: list[GarbageItem] = field(default_factory=list)  # what nobody uses in the state folder
    removed_here: list[GarbageItem] = field(default_factory=list)
    problems: list[ModakError] = field(default_factory=list)  # what kept a target from being looked at

    @classmethod
    def of_project(
        cls, folder: Path, names: Sequence[str], inputs: Inputs, older_than: float, *, here: bool
    ) -> Collection:
        """The targets that are meant, of the project that a folder belongs to.

        Raises:
            UsageError: a name is neither a target of the project nor a blueprint, or inputs are given without one.
        """
        state = state_folder(folder)
        project_targets = known_targets(state)
        if names:
            targets = [target for name in names for target in _targets_named(name, project_targets, inputs)]
        elif inputs.file or inputs.values:
            raise UsageError("-i applies only to a blueprint", hint="name the blueprint, too")
        else:
            targets = _targets_of_file(inputs.targets, project_targets) if inputs.targets else project_targets
        unique = {target.entered: target for target in targets}
        return cls(state, list(unique.values()), older_than, here)

    @property
    def garbage(self) -> list[GarbageItem]:
        return [*self.local, *(item for target in self.targets for item in target.garbage)]

    def survey(self) -> None:
        """Looks everywhere; a target that cannot be asked becomes one of the problems."""
        self.local = _unused_here(self.state, self.older_than, deployments=self.here)
        for target in self.targets:
            self._run(target, gc_state="queried")

    def remove(self) -> None:
        """Removes what the survey found, as far as nobody has taken it into use since."""
        for target in self.targets:
            if target.garbage:
                self._run(target, gc_state="removed", gc_only=[item["path"] for item in target.garbage])
        self.removed_here = [item for item in self.local if _remove_here(Path(item["path"]))]
        self.local = [item for item in self.local if item not in self.removed_here]

    def as_json(self) -> dict[str, object]:
        here = {"folder": str(self.state), "garbage": self.local, "removed": self.removed_here}
        problems = [str(problem) for problem in self.problems]
        return {"targets": [target.as_json() for target in self.targets], "here": here, "problems": problems}

    def _run(self, target: KnownTarget, **variables: Any) -> None:
        try:
            target.run(gc_older_than=self.older_than, **variables)
        except ModakError as error:
            if str(error) not in map(str, self.problems):  # as of a host, when it was looked at
                self.problems.append(error)


def known_targets(state: Path) -> list[KnownTarget]:
    """The targets that a project has deployed to or built on, each with the newest plan that still can be read."""
    files = [deployment.plan_file for deployment in reversed(known_deployments(state))]
    files += sorted((state / BUILDS).glob("*/plan.json"), key=lambda path: changed_at(path) or 0.0, reverse=True)
    unique: dict[tuple[str, ...], KnownTarget] = {}
    for file in files:
        try:
            target = planned_from_file(file).plan.target
        except ModakError:
            continue  # of an earlier version, or damaged: another one leads there
        known_target = _known_target(target, file)
        unique.setdefault(known_target.entered, known_target)
    return list(unique.values())


def _known_target(target: Target, plan_file: Path) -> KnownTarget:
    username, port = target.username or "", str(target.port or "")
    return KnownTarget(target.name, target.address, target.workspace, plan_file, username, port)


def _targets_named(name: str, project_targets: list[KnownTarget], inputs: Inputs) -> list[KnownTarget]:
    matches = [known_target for known_target in project_targets if name in (known_target.name, known_target.address)]
    if matches:
        return matches
    try:
        blueprint = find_blueprint(name)
    except UsageError as error:
        names = [part for known_target in project_targets for part in (known_target.name, known_target.address)]
        hint = nearest(name, names) or "give a target that this project deployed to, or a blueprint"
        raise UsageError(f"there is no target {name}", hint=hint) from error
    targets = []
    for planned in plan_trainings(blueprint, inputs):
        target = planned.plan.target
        file = DeploymentStore(planned.save(planned.state / BUILDS)).plan_file
        targets.append(_known_target(target, file))
    return targets


def _targets_of_file(path: Path, project_targets: list[KnownTarget]) -> list[KnownTarget]:
    """Those of the project that a target file is of, in whichever workspace."""
    file_target = _known_target(target_of_file(path), path)
    targets = [
        target
        for target in project_targets
        if target.address == file_target.address
        and file_target.username in ("", target.username)
        and file_target.port in ("", target.port)
    ]
    if not targets:
        hint = f"modak gc BLUEPRINT --on {path} looks there anyway"
        raise UsageError(f"this project has not deployed to {file_target.address}", hint=hint)
    return targets


# --- here


def _unused_here(state: Path, older_than: float, *, deployments: bool) -> list[GarbageItem]:
    """What the project keeps and nobody needs: downloads that were sent on, and deployments that were undone."""
    unused = [("download", path) for path in sorted((state / "downloads").glob("*")) if path.is_dir()]
    if deployments:
        unused += [
            ("deployment", deployment.folder)
            for deployment in known_deployments(state)
            if deployment.record.get("undeployed")
        ]
    described = [_described(kind, path) for kind, path in unused]
    return [item for item in described if item["idle"] >= older_than]


def _remove_here(path: Path) -> bool:
    """Removes a folder, unless somebody sends it just now; tells whether it is gone."""
    lock = Lock(path.with_name(f".{path.name}.lock"))
    if not lock.take(wait=False):
        return False
    shutil.rmtree(path, ignore_errors=True)
    lock.remove()
    return not path.exists()


def _described(kind: str, path: Path) -> GarbageItem:
    newest, size = changed_at(path) or 0.0, 0
    for folder, _, names in os.walk(path):
        for name in names:
            with suppress(FileNotFoundError):  # somebody sends it just now
                status = os.lstat(Path(folder, name))
                if stat.S_ISREG(status.st_mode):
                    newest, size = max(newest, status.st_mtime), size + status.st_size
    return {
        "kind": kind,
        "name": path.name,
        "path": str(path),
        "size": size,
        "idle": round(max(0.0, time.time() - newest), 1),
    }
