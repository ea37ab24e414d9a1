"""From a blueprint or a request to a plan: reads, plans, and says where a preference that cannot be met stands."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast
from warnings import warn

from modak_ansible.allocation.allocate import allocate
from modak_ansible.allocation.limits import limit_problems
from modak_ansible.errors import Mistake, ModakError, UsageError, nearest
from modak_ansible.model.measured.refusal import Refusal
from modak_ansible.model.measured.seen_image import SeenImage
from modak_ansible.model.plan import UNSIGNED, Note, Plan, digest_of
from modak_ansible.model.quantities import some_of
from modak_ansible.model.request import Request, without
from modak_ansible.model.search import Search, Value
from modak_ansible.performance import PerformanceModel, load_model
from modak_ansible.performance.stored import OfAnotherVersion
from modak_ansible.planning.dependency_order import after_planned, in_order, is_meant
from modak_ansible.planning.measured import Measured
from modak_ansible.planning.plan import CannotPlan, plan_for
from modak_ansible.planning.search import Shared
from modak_ansible.planning.this_machine import as_known_here
from modak_ansible.reading.blueprint.forms.mistakes import NOT_KEPT, Mistakes
from modak_ansible.reading.blueprint.reader import Blueprint, Inputs, read_blueprint
from modak_ansible.reading.blueprint.script.arguments import check_arguments
from modak_ansible.reading.blueprint.types.parser_check import check_with_tosca_parser, note_what_tosca_parser_finds
from modak_ansible.reading.requests.recognise import is_request, is_script
from modak_ansible.store.lists.refusals import known_refusals
from modak_ansible.store.lists.seen_images import seen_images, seen_of
from modak_ansible.store.project import MODEL, blueprint_state, known_testbed, read_origin
from modak_ansible.target.core.files import make_private, write_whole

if TYPE_CHECKING:
    from modak_ansible.store.deployment import DeploymentStore
    from modak_ansible.target.core.plan import Plan as PlanJson

_SHOWN = 8  # names in a message
_MOST_BEFORE = 500  # trainings before one: their folders are in one variable of its environment

Change = Callable[[Request], Request]


class Planned(NamedTuple):
    """A plan, and where it comes from.

    Attributes:
        plan: what is to be done.
        blueprint: the service template whose files it deploys.
        state: the state folder of the project that it is deployed from.
        testbed: the folder of the testbed that the target may be.
        warnings: about what was read but would be better written differently.
        node: the blueprint's node of the training; a sweep's points share it.
        parallel: how many of those may run at once; None for as many as the target takes.
        text: the blueprint, if it was made from a script and is in no file.
        search: what is to be tried instead, trial by trial.
        study: what distinguishes that search from others.
        inputs: the inputs that it was planned with.
        aside: whether it is separate from the blueprint's trainings, like a notebook.
    """

    plan: Plan
    blueprint: Path
    state: Path
    testbed: Path
    warnings: tuple[Mistake, ...] = ()
    node: str = ""
    parallel: int | None = None
    text: str = ""
    search: Search | None = None
    study: str = ""
    inputs: Inputs = Inputs()
    aside: bool = False

    def __repr__(self) -> str:
        """In a notebook or a log the whole plan would be thousands of lines."""
        return f"<Planned {self.plan.deployment}: {self.plan.training} on {self.plan.target.name}>"

    @property
    def folder(self) -> Path:
        from modak_ansible.store.deployment import FOLDER  # noqa: PLC0415 - of what is only planned nothing is kept

        return self.state / FOLDER / self.plan.deployment

    @property
    def store(self) -> DeploymentStore:
        """What this machine keeps of the deployment."""
        from modak_ansible.store.deployment import DeploymentStore  # noqa: PLC0415

        return DeploymentStore(self.folder)

    def save(self, deployments: Path | None = None) -> Path:
        """Writes the plan into its deployment's folder, the project's own unless another is given; gives the folder.

        It is the newest one of its blueprint then, even where another plan was deployed since it was first saved.
        """
        from modak_ansible.store.deployment import DeploymentStore, Origin, queue_of  # noqa: PLC0415

        folder = deployments / self.plan.deployment if deployments else self.folder
        make_private(folder)
        ignore = self.state / ".gitignore"
        if folder.is_relative_to(self.state) and not ignore.exists():
            write_whole(ignore, "*\n")
        plan = cast("PlanJson", self.plan.model_dump(mode="json"))
        blueprint = str(self.blueprint.absolute())
        origin = Origin(
            blueprint=blueprint, state=str(self.state), testbed=str(self.testbed), queue=queue_of(plan, blueprint)
        )
        if self.node:
            origin |= {"node": self.node, "parallel": self.parallel}
        if self.aside:
            origin["aside"] = True
        DeploymentStore(folder).save(plan, origin, self.text)
        return folder


def plan_blueprint(
    path: Path,
    inputs: Inputs,
    training: str | None = None,
    change: Change | None = None,
    measured: Measured | None = None,
) -> Planned:
    """The plan of a training of a blueprint, or of a request; for the last two arguments see ``plan_trainings``.

    Raises:
        InvalidBlueprint: with every mistake and its place.
        UsageError: there is no such training, or several and none is named.
    """
    return the_one(path, plan_trainings(path, inputs, training, change, measured), training)


def plan_all(path: Path, inputs: Inputs, training: str | None = None) -> list[Planned]:
    """The plans of all trainings of a blueprint, or of the one that is named with all points of its sweep.

    Raises:
        InvalidBlueprint: with every mistake and its place.
        UsageError: there is no such training.
    """
    return those_named(path, plan_trainings(path, inputs, training), training)


def plan_trainings(
    path: Path,
    inputs: Inputs,
    training: str | None = None,
    change: Change | None = None,
    measured: Measured | None = None,
) -> list[Planned]:
    """The plans of all trainings of a blueprint, or of the one that is named, if it is there.

    Each comes behind those that have to complete before it.

    Args:
        change: makes of a training's request that for something beside it, such as a notebook.
        measured: what is known of earlier jobs; all that the project knows unless it is given.

    Raises:
        InvalidBlueprint: with every mistake and its place.
    """
    mistakes, warnings = Mistakes(), Mistakes()
    planned, text, state, testbed = _check(path, inputs, mistakes, warnings, training, change, measured)
    mistakes.raise_if_any()
    return [
        Planned(
            plan, path, state, testbed, tuple(warnings), request.node, request.parallel, text, request.search,
            request.search.key(request.application) if request.search else "", inputs, change is not None,
        )
        for request, plan in planned
    ]  # fmt: skip


def plan_trials(planned: Planned, points: Sequence[Mapping[str, Value]]) -> list[Planned]:
    """The plans of trials of a search, each with the values that it is to have, in the order given.

    Raises:
        InvalidBlueprint: one of them cannot be planned.
    """
    inputs = planned.inputs._replace(points=tuple((planned.node, point) for point in points))
    return plan_all(planned.blueprint, inputs, planned.node)


def plan_node(path: Path, inputs: Inputs, node: str) -> list[Planned]:
    """The plans of the first training that a node of a blueprint belongs to, one for each point of its sweep.

    Raises:
        InvalidBlueprint: with every mistake and its place.
    """
    related = read_whole(path, inputs).related.get(node, [])
    return plan_all(path, inputs, related[0]) if related else []


def request_of(path: Path, inputs: Inputs, training: str | None = None, target: str | None = None) -> Request:
    """What a training of a blueprint asks for, the first one unless another or its target is named; it is not planned.

    Its target and dataset serve whoever plans something else for the same machine, by ``model_copy``; what is known of
    this machine is filled in where the target is on it.

    Raises:
        InvalidBlueprint: with every mistake and its place.
        UsageError: the blueprint has no such training.
    """
    requests = read_whole(path, inputs).requests
    if target and target not in (targets := sorted({request.target.name for request in requests})):
        raise UsageError(f"{path} has no target {target} that trains", hint=nearest(target, targets))
    matches = [request for request in requests if is_meant(request, training) and target in (None, request.target.name)]
    if not matches:
        hint = nearest(training or "", [request.training for request in requests])
        raise UsageError(f"{path} has no training {training or ''}".rstrip(), hint=hint)
    alone = matches[0].model_copy(update={"after": (), "parallel": None})
    state = blueprint_state(path)
    return _known_here(alone, known_testbed(state), seen_images(state), Measured.of(state))


def check_blueprint(path: Path, inputs: Inputs, mistakes: Mistakes, warnings: Mistakes | None = None) -> list[Plan]:
    """Reads and plans all of a blueprint, or a request; what is wrong is noted, with its place.

    Builds that its project knows to fail their probe on the target are not taken.

    Args:
        warnings: collects what is read, and would be better written otherwise.
    """
    return [plan for _, plan in _check(path, inputs, mistakes, Mistakes() if warnings is None else warnings).planned]


class _Checked(NamedTuple):
    """What was planned, and for what; the text of a blueprint that is in no file; where it is deployed from."""

    planned: list[tuple[Request, Plan]] = []
    text: str = ""
    state: Path = Path()
    testbed: Path = Path()


def _check(
    path: Path,
    inputs: Inputs,
    mistakes: Mistakes,
    warnings: Mistakes,
    training: str | None = None,
    change: Change | None = None,
    measured: Measured | None = None,
) -> _Checked:
    """
    Args:
        training: the only one that is planned, if it is there, with what comes before it; all are read.
    """
    blueprint = read(path, inputs, mistakes)
    if blueprint is None:
        return _Checked()
    check_arguments(blueprint, mistakes, blueprint.warnings)
    for warning in blueprint.warnings:
        warnings.add(*warning)
    if not mistakes and is_script(path):  # tosca-parser stumbles over what has been noted already
        check_with_tosca_parser(path, blueprint.inputs, mistakes, blueprint.template)
    elif not mistakes and not is_request(path):
        note_what_tosca_parser_finds(path, blueprint.inputs, blueprint.imported, mistakes, blueprint.template)
    if not blueprint.requests:
        return _Checked()
    state = blueprint_state(path)
    knowledge = ProjectKnowledge(known_refusals(state), model_of(state), {})
    testbed, images = known_testbed(state), seen_images(state)
    measured = Measured.of(state) if measured is None else measured
    named_trainings = [request.training for request in blueprint.requests if is_meant(request, training)]
    training_names = set(named_trainings or [request.training for request in blueprint.requests])
    planned: list[tuple[Request, Plan]] = []
    for original in in_order(blueprint.requests, training_names):
        request = _known_here(after_planned(original, planned), testbed, images, measured)
        if change and original.training in training_names:
            request = change(request)
        plan = _plan_or_note(blueprint, request, knowledge, mistakes, warnings, is_strict=inputs.strict)
        if plan:
            planned.append((request, plan))
    return _Checked(
        [(request, plan) for request, plan in planned if request.training in training_names],
        blueprint.text,
        state,
        testbed,
    )


def _known_here(request: Request, testbed: Path, images: tuple[SeenImage, ...], measured: Measured) -> Request:
    request = measured.told(request)
    update: dict[str, object] = {"target": as_known_here(request.target, testbed)}
    if request.image and (seen_image := seen_of(images, request.image, request.target.address)):
        update["image"] = request.image.model_copy(update={"seen": seen_image})
    return request.model_copy(update=update)


def read_whole(path: Path, inputs: Inputs) -> Blueprint:
    """
    Raises:
        InvalidBlueprint: with every mistake and its place.
    """
    mistakes = Mistakes()
    blueprint = read(path, inputs, mistakes)
    mistakes.raise_if_any()
    return blueprint or Blueprint(path)


def read(path: Path, inputs: Inputs, mistakes: Mistakes) -> Blueprint | None:
    """A blueprint, or a request or a script in the form of one; by the file's content."""
    if is_script(path):
        from modak_ansible.reading.drafts.reader import read_script  # noqa: PLC0415 - few plans need it

        return read_script(path, inputs, mistakes)
    if inputs.words:
        hint = "a blueprint has them under arguments; --input gives its inputs values"
        raise UsageError(f"options after -- are for a script, and {path} is not one", hint=hint)
    if inputs.nodes or inputs.processes_per_node or inputs.accelerators is not None:
        hint = "a blueprint has them under resources, a request under job_options"
        message = f"--nodes, --processes-per-node and --accelerators are only for a script, and {path} is not one"
        raise UsageError(message, hint=hint)
    if not is_request(path):
        return read_blueprint(path, inputs, mistakes)
    from modak_ansible.reading.requests.reader import read_request  # noqa: PLC0415 - its many forms take a moment

    return read_request(path, inputs, mistakes)


class ProjectKnowledge(NamedTuple):
    """What a project knows: builds that fail their probe, and how long things take."""

    refusals: tuple[Refusal, ...]
    model: PerformanceModel
    choices: Shared


class ModelWarning(UserWarning):
    """A project's own model is not taken."""


def model_of(state: Path) -> PerformanceModel:
    """The performance model of a project: its own where this version has fitted one, or the one that ships.

    Raises:
        ModakError: the project's own is damaged.
    """
    if own := own_model(state):
        try:
            return load_model(own)
        except OfAnotherVersion as error:
            warn(f"{error.message}; the shipped one is used until {error.hint}", ModelWarning, stacklevel=1)
    return load_model()


def own_model(state: Path) -> Path | None:
    """The file of the model that a project has fitted; None where it has not."""
    return own if (own := state / MODEL).exists() else None


def basis_of(state: Path) -> str:
    """What a project's performance model rests on, for people.

    Raises:
        ModakError: the project's own is damaged.
    """
    model = model_of(state)
    stored = model.stored
    machines = ", ".join(machine.name for machine in stored.machines)
    whose = "the project's own model" if model.is_own else "the shipped model"
    return (
        f"{whose}, fitted to {stored.records} records ({stored.records_digest[:12]}) of {machines}; "
        f"workloads: {some_of(list(stored.workloads), _SHOWN)}. Intervals are of 90 %. modak model show lists more."
    )


def the_one(path: Path, plans: list[Planned], training: str | None) -> Planned:
    """The plan that is meant.

    Raises:
        UsageError: there is no such training, or several and none is named.
    """
    matches = those_named(path, plans, training)
    names = [planned.plan.training for planned in matches]
    if len(names) > 1:
        titles, hint = some_of(names, _SHOWN), f"say which one: --training {names[0]}"
        raise UsageError(f"{path} has several trainings: {titles}", hint=hint)
    return matches[0]


def those_named(path: Path, plans: list[Planned], training: str | None) -> list[Planned]:
    """The plans of the training that is named, or all.

    Raises:
        UsageError: there is no such training.
    """
    matches = [planned for planned in plans if training in (None, planned.plan.training, planned.node)]
    if not matches:
        hint = nearest(training or "", [planned.plan.training for planned in plans])
        raise UsageError(f"{path} has no training {training or ''}".rstrip(), hint=hint)
    return matches


def planned_from_file(path: Path) -> Planned:
    """A plan that was saved before.

    Raises:
        ModakError: it is damaged, or of another version.
    """
    from modak_ansible.store.deployment import DeploymentStore  # noqa: PLC0415

    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        plan = Plan(**fields)
        origin = read_origin(path)
        details = DeploymentStore(path.parent).origin
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ModakError(f"{path} is not a plan that can be carried out", hint="plan again") from error
    # of what was written: a later version's plans may have fields that this one lacks
    if digest_of({name: value for name, value in fields.items() if name not in UNSIGNED}) != plan.digest:
        raise ModakError(f"{path} was changed after it was planned: its digest differs", hint="plan again")
    node, parallel = details.get("node", ""), details.get("parallel")
    return Planned(
        plan, origin["blueprint"], origin["state"], origin["testbed"], (), node, parallel,
        aside=details.get("aside", False),
    )  # fmt: skip


def _plan_or_note(
    blueprint: Blueprint,
    request: Request,
    knowledge: ProjectKnowledge,
    mistakes: Mistakes,
    warnings: Mistakes,
    *,
    is_strict: bool,
) -> Plan | None:
    """The plan, without the preferences that cannot be kept; None, and mistakes, where even that cannot be."""
    training = request.training
    count = sum(len(predecessor.deployments) for predecessor in request.after)
    if count > _MOST_BEFORE:
        message = f"{training} comes after {count} trainings; {_MOST_BEFORE} at most"
        mistakes.add(blueprint.place(training, ""), "cannot-plan", message, "let it come after fewer points")
        return None
    # what an image of the user's own permits is known once it was looked into: until then a preference is no mistake
    is_open = request.application.is_training and request.image is not None and request.image.seen is None
    strict = (is_strict or request.optimisation.strict) and not is_open
    notes = list(blueprint.notes.get(training, ()))
    while True:
        outcome = _plan_of(request, knowledge)
        if isinstance(outcome, Plan):
            return outcome.model_copy(update={"notes": tuple(notes)})
        preferences = (problem for problem in outcome if problem.optional and not strict)
        weaker = next(
            ((less, preference) for preference in preferences if (less := without(request, preference.about))), None
        )
        if weaker is None:
            for obstacle in outcome:
                mistakes.add(blueprint.place(training, obstacle.about), "cannot-plan", obstacle.message, obstacle.hint)
            return None
        request, problem = weaker
        path, place = blueprint.shown(training, problem.about), blueprint.place(training, problem.about)
        notes.append(Note(path=path, reason=problem.message, hint=problem.hint))
        warnings.add(place, NOT_KEPT, f"{path}: {problem.message}", problem.hint)


def _plan_of(request: Request, knowledge: ProjectKnowledge) -> Plan | list[CannotPlan]:
    """The plan of a request, or what stands against it."""
    try:
        job = allocate(request)
        problems = list(limit_problems(job))
        return problems or plan_for(job, refusals=knowledge.refusals, model=knowledge.model, shared=knowledge.choices)
    except CannotPlan as error:
        return [error]
