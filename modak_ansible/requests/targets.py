"""Which target a request means: one of the user's own descriptions, or one that ships."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from modak_ansible.blueprint.forms import FieldProblem
from modak_ansible.blueprint.mistakes import Mistakes
from modak_ansible.blueprint.reader import Inputs, read_targets
from modak_ansible.blueprint.target_words import SCHEDULER, Wanted, is_target_file
from modak_ansible.blueprint.yaml_tree import read_yaml
from modak_ansible.errors import nearest
from modak_ansible.model.target import Target
from modak_ansible.project import shipped
from modak_ansible.requests.form import TargetForm
from modak_ansible.target.files import expanded

TARGETS_FILE = "targets.yaml"
_TESTBED = "testbed"
_LOCAL = ("local", "localhost")


class TargetProblem(Exception):
    """A target that is not there, or is another; ``field`` is name or job_scheduler_type."""

    def __init__(self, field: str, rule: str, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.field = field
        self.problem = FieldProblem(rule, reason, hint)


@dataclass(frozen=True)
class Named:
    """A target, and whether the user has described it."""

    target: Target
    is_described: bool


def find_target(form: TargetForm, folder: Path, inputs: Inputs, mistakes: Mistakes) -> Named | None:
    """The target that a request means; None where its description has mistakes.

    Args:
        form: the request's own words; without any it is this machine.
        folder: the request's; ``targets.yaml`` there describes targets.
        inputs: a service template or a target file that describes them instead, and values for its inputs; a file of
            values that is a target file describes them, too.
        mistakes: gets those of the description.

    Raises:
        TargetProblem: there is no such target, or it has another scheduler.
    """
    beside = folder / TARGETS_FILE if (folder / TARGETS_FILE).is_file() else None
    file = inputs.targets or (_target_file(inputs.file, beside) if form.name not in (_TESTBED, *_LOCAL) else None)
    described = file or beside
    before = len(mistakes)
    values = Inputs(None if inputs.file == file else inputs.file, inputs.values)
    wanted = Wanted(form.name or "", form.job_scheduler_type or "")
    own = read_targets(described, values, mistakes, wanted) if described else {}
    if len(mistakes) > before:
        return None
    if form.name in own or (form.name is None and file and len(own) == 1):
        target = own[form.name or next(iter(own))]
        _check_scheduler(form, target)
        return Named(_absolute(target, described), is_described=True)
    if file and form.name is None and own:
        raise TargetProblem("name", "missing-field", f"{file} describes several targets", f"name: {next(iter(own))}")
    return _shipped(form, own, Inputs() if described else inputs, mistakes)


def _target_file(path: Path | None, beside: Path | None) -> Path | None:
    """A file of values that describes a target by itself: none for the inputs of the description beside a request."""
    tree = read_yaml(path, Mistakes()) if path else None
    is_whole = tree is not None and is_target_file(tree) and (beside is None or SCHEDULER in tree.entries)
    return path if is_whole else None


def _shipped(form: TargetForm, own: dict[str, Target], inputs: Inputs, mistakes: Mistakes) -> Named | None:
    known = (*own, _TESTBED, "local")
    if form.name not in (None, _TESTBED, *_LOCAL):
        hint = nearest(form.name or "", known)
        hint += " or " if hint.endswith("?") else "; or "
        about = f"describe it in {TARGETS_FILE} beside the request, or in a file for --target"
        raise TargetProblem("name", "unknown-target", f"no target {form.name} is known", f"{hint}{about}")
    kind = form.job_scheduler_type or ("slurm" if form.name == _TESTBED else "none")
    if (form.name == _TESTBED) == (kind == "none") and form.name:
        reason = f"{form.name} is not entered without a scheduler" if kind == "none" else f"{form.name} has no {kind}"
        raise TargetProblem("job_scheduler_type", "contradiction", reason, "leave it out")
    node = {"slurm": "slurm", "torque": "torque", "none": "local"}[kind]
    is_given = inputs.file is not None or bool(inputs.values)
    targets = read_targets(shipped("tosca") / TARGETS_FILE, Inputs(inputs.file, inputs.values), mistakes)
    return Named(targets[node], is_described=is_given) if node in targets else None


def _check_scheduler(form: TargetForm, target: Target) -> None:
    wanted = form.job_scheduler_type
    if wanted and wanted != target.scheduler.value:
        reason = f"{target.name} is described with {target.scheduler.value}, not {wanted}"
        raise TargetProblem("job_scheduler_type", "contradiction", reason, "leave it out")


def _absolute(target: Target, described: Path | None) -> Target:
    """The target with its key found from anywhere: elsewhere it is looked for beside the request."""
    if not target.identity_file or described is None:
        return target
    path = described.parent / expanded(target.identity_file)
    return target.model_copy(update={"identity_file": str(path.absolute())})
