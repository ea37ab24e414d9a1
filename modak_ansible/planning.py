"""From a blueprint or a request to a plan: reads, plans, and says where a wish that cannot be met stands."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from modak_ansible.blueprint.mistakes import Mistakes
from modak_ansible.blueprint.reader import Blueprint, Inputs, read_blueprint
from modak_ansible.blueprint.tosca_check import check_with_tosca_parser
from modak_ansible.choosing import Shared
from modak_ansible.errors import Mistake, ModakError, UsageError, nearest
from modak_ansible.here import as_known_here
from modak_ansible.model.plan import Plan, digest_of
from modak_ansible.model.refusal import Refusal
from modak_ansible.model.request import Request
from modak_ansible.performance import PerformanceModel, load_model
from modak_ansible.planner import CannotPlan, make_plan
from modak_ansible.project import blueprint_state, known_testbed, read_origin
from modak_ansible.refusals import known_refusals
from modak_ansible.requests.recognise import is_request
from modak_ansible.resources import resource_problems
from modak_ansible.target.files import make_private, write_json, write_whole

_SHOWN = 8  # names in a message

Change = Callable[[Request], Request]


@dataclass(frozen=True)
class Planned:
    """A plan, and where it comes from.

    Attributes:
        plan: what is to be done.
        blueprint: the service template whose files it deploys.
        state: the state folder of the project that it is deployed from.
        testbed: the folder of the testbed that the target may be.
        warnings: what was read, and would be better written otherwise.
    """

    plan: Plan
    blueprint: Path
    state: Path
    testbed: Path
    warnings: tuple[Mistake, ...] = ()

    @property
    def folder(self) -> Path:
        """The deployment's folder in its project."""
        return self.state / "deployments" / self.plan.deployment

    def save(self, deployments: Path | None = None) -> Path:
        """Writes the plan into its deployment's folder, the project's own unless another is given; gives the folder."""
        folder = deployments / self.plan.deployment if deployments else self.folder
        make_private(folder)
        ignore = self.state / ".gitignore"
        if folder.is_relative_to(self.state) and not ignore.exists():
            write_whole(ignore, "*\n")
        origin = {"blueprint": self.blueprint.absolute(), "state": self.state, "testbed": self.testbed}
        write_json(folder / "plan.json", self.plan.model_dump(mode="json"))
        write_json(folder / "origin.json", {name: str(path) for name, path in origin.items()})
        return folder


def plan_blueprint(path: Path, inputs: Inputs, training: str | None = None, change: Change | None = None) -> Planned:
    """The plan of a training of a blueprint, or of a request.

    Args:
        path: the service template, or the request.
        inputs: values for its inputs.
        training: which one; not needed where there is only one.
        change: makes something else of what is asked for, such as its tuning alone.

    Raises:
        InvalidBlueprint: with every mistake and its place.
        UsageError: there is no such training, or several and none is named.
    """
    return the_one(path, plan_trainings(path, inputs, training, change), training)


def plan_trainings(
    path: Path, inputs: Inputs, training: str | None = None, change: Change | None = None
) -> list[Planned]:
    """The plans of all trainings of a blueprint, or of the one that is named, if it is there.

    Raises:
        InvalidBlueprint: with every mistake and its place.
    """
    mistakes, warnings = Mistakes(), Mistakes()
    plans = check_blueprint(path, inputs, mistakes, warnings, training, change)
    mistakes.raise_if_any()
    state = blueprint_state(path)
    testbed = known_testbed(state)
    return [Planned(plan, path, state, testbed, tuple(warnings)) for plan in plans]


def plan_node(path: Path, inputs: Inputs, node: str) -> Planned | None:
    """The plan of the first training that a node of a blueprint belongs to; None where there is none.

    Raises:
        InvalidBlueprint: with every mistake and its place.
    """
    mistakes = Mistakes()
    blueprint = read_blueprint(path, inputs, mistakes)
    mistakes.raise_if_any()
    related = blueprint.related.get(node, []) if blueprint else []
    return plan_blueprint(path, inputs, related[0]) if related else None


def request_of(path: Path, inputs: Inputs, training: str | None = None) -> Request:
    """What a training of a blueprint asks for, the first one unless another is named; it is not planned.

    Its target and dataset serve whoever plans something else for the same machine, by ``model_copy``; what is known of
    this machine is filled in where the target is on it.

    Raises:
        InvalidBlueprint: with every mistake and its place.
        UsageError: the blueprint has no such training.
    """
    mistakes = Mistakes()
    blueprint = _read(path, inputs, mistakes)
    mistakes.raise_if_any()
    requests = {each.training: each for each in (blueprint.requests if blueprint else [])}
    if not requests or training not in (None, *requests):
        raise UsageError(f"{path} has no training {training or ''}".rstrip(), hint=nearest(training or "", requests))
    request = requests[training] if training else next(iter(requests.values()))
    return _known_here(request, known_testbed(blueprint_state(path)))


def check_blueprint(
    path: Path,
    inputs: Inputs,
    mistakes: Mistakes,
    warnings: Mistakes | None = None,
    training: str | None = None,
    change: Change | None = None,
) -> list[Plan]:
    """Reads and plans all of a blueprint, or a request; what is wrong is noted, with its place.

    Builds that its project knows to fail their probe on the target are not taken.

    Args:
        path: the service template, or the request.
        inputs: values for inputs.
        mistakes: collects what is wrong.
        warnings: collects what is read, and would be better written otherwise.
        training: the only one that is planned, if it is there; all are read.
        change: makes something else of each request.
    """
    blueprint = _read(path, inputs, mistakes)
    if blueprint is None:
        return []
    into = Mistakes() if warnings is None else warnings
    for each in blueprint.warnings:
        into.add(each.location, each.rule, each.message, each.hint)
    if not mistakes and not is_request(path):  # tosca-parser stumbles over what has been noted already
        check_with_tosca_parser(path, blueprint.inputs, mistakes)
    if not blueprint.requests:
        return []
    state = blueprint_state(path)
    known = Known(known_refusals(state), model_of(state))
    testbed = known_testbed(state)
    named = [each for each in blueprint.requests if each.training == training]
    requests = [_known_here(each, testbed) for each in named or blueprint.requests]
    requests = [change(each) if change else each for each in requests]
    plans = [_plan_or_note(blueprint, request, known, mistakes) for request in requests]
    return [plan for plan in plans if plan]


def _known_here(request: Request, testbed: Path) -> Request:
    return request.model_copy(update={"target": as_known_here(request.target, testbed)})


def _read(path: Path, inputs: Inputs, mistakes: Mistakes) -> Blueprint | None:
    """A blueprint, or a request in the form of one; by the file's content."""
    if not is_request(path):
        return read_blueprint(path, inputs, mistakes)
    from modak_ansible.requests.reader import read_request  # noqa: PLC0415 - its many forms take a moment

    return read_request(path, inputs, mistakes)


@dataclass(frozen=True)
class Known:
    """What a project knows: builds that fail their probe, and how long things take."""

    refusals: tuple[Refusal, ...]
    model: PerformanceModel
    choices: Shared = field(default_factory=dict)


def model_of(state: Path) -> PerformanceModel:
    """The performance model of a project: its own where it has fitted one, or the one that ships.

    Raises:
        ModakError: the project's own is damaged, or another version fitted it.
    """
    own = state / "model.json"
    return load_model(own if own.exists() else None)


def basis_of(state: Path) -> str:
    """What a project's performance model rests on, for people.

    Raises:
        ModakError: the project's own is damaged, or another version fitted it.
    """
    stored = model_of(state).stored
    machines = ", ".join(each.name for each in stored.machines)
    whose = "the project's own model" if (state / "model.json").exists() else "the model that ships"
    return (
        f"{whose}, fitted to {stored.records} records ({stored.records_digest[:12]}) of {machines}; "
        f"workloads: {', '.join(stored.workloads)}. Intervals are of 90 %. modak model show tells more."
    )


def the_one(path: Path, found: list[Planned], training: str | None) -> Planned:
    """The plan that is meant.

    Raises:
        UsageError: there is no such training, or several and none is named.
    """
    names = [each.plan.training for each in found]
    if training is None and len(names) > 1:
        shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
        hint = f"say which one: --training {names[0]}"
        raise UsageError(f"{path} has several trainings: {shown}", hint=hint)
    if training is not None and training not in names:
        raise UsageError(f"{path} has no training {training}", hint=nearest(training, names))
    return next(each for each in found if training in (None, each.plan.training))


def planned_from_file(path: Path) -> Planned:
    """A plan that was saved before.

    Raises:
        ModakError: it is damaged, or of another version.
    """
    try:
        plan = Plan(**json.loads(path.read_text(encoding="utf-8")))
        origin = read_origin(path)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ModakError(f"{path} is not a plan that can be carried out", hint="plan again") from error
    if digest_of(plan.model_dump(mode="json", exclude={"digest"})) != plan.digest:
        raise ModakError(f"{path} was changed after it was planned: its digest differs", hint="plan again")
    return Planned(plan, origin["blueprint"], origin["state"], origin["testbed"])


def _plan_or_note(blueprint: Blueprint, request: Request, known: Known, mistakes: Mistakes) -> Plan | None:
    training = request.training
    problems = list(resource_problems(request))
    for problem in problems:
        mistakes.add(blueprint.place(training, problem.about), "cannot-plan", problem.message, problem.hint)
    try:
        return (
            None if problems else make_plan(request, refusals=known.refusals, model=known.model, shared=known.choices)
        )
    except CannotPlan as error:
        mistakes.add(blueprint.place(training, error.about), "cannot-plan", error.message, error.hint)
    return None
