"""Joins request, catalogue and optimisations into the plan. Pure: no file of the user's, and no network."""

from __future__ import annotations

from collections.abc import Sequence

from modak_ansible.allocation.allocate import JobAllocation, allocate
from modak_ansible.allocation.limits import limit_problems
from modak_ansible.catalogue import Catalogue, load_catalogue
from modak_ansible.errors import nearest
from modak_ansible.model.measured.prediction import Question
from modak_ansible.model.measured.refusal import Refusal
from modak_ansible.model.plan import (
    UNSIGNED,
    Plan,
    PlannedDataset,
    PlannedImage,
    Staged,
    digest_of,
)
from modak_ansible.model.request import Request
from modak_ansible.model.scaled import PlannedScale, Scale, Scaled
from modak_ansible.optimisations import optimisations
from modak_ansible.optimisations.base import CannotPlan, Draft
from modak_ansible.optimisations.computation.memory import planned_memory
from modak_ansible.optimisations.job.image import collision_of
from modak_ansible.optimisations.sums import SumsOptimisation
from modak_ansible.performance.scaled import scaled_program, scaled_training, with_shape
from modak_ansible.performance.scaling import ScalingRun
from modak_ansible.planning.comparison import PerformanceModel
from modak_ansible.planning.costs.money import planned_cost
from modak_ansible.planning.data import ON_TARGET, planned_datasets, with_data
from modak_ansible.planning.image_layers import image_of
from modak_ansible.planning.job import planned_job
from modak_ansible.planning.notebook import is_notebook
from modak_ansible.planning.rationale import rounded
from modak_ansible.planning.search import Chosen, Shared, choose
from modak_ansible.planning.tuning.tuning import planned_tuning, tuner_packages
from modak_ansible.runtime import runtime_files
from modak_ansible.schedulers.script import after_variable, trainings_before

__all__ = ["CannotPlan", "make_plan"]


def make_plan(
    request: Request,
    catalogue: Catalogue | None = None,
    refusals: Sequence[Refusal] = (),
    model: PerformanceModel | None = None,
    shared: Shared | None = None,
) -> Plan:
    """The plan for a request; the same request, catalogue, refusals and model give the same plan, to the byte.

    Args:
        catalogue: what is known; the one that ships without it.
        refusals: builds that failed their probe before, and where.
        model: knows how long things take; without it nothing is known to be faster than stock.
        shared: what was chosen for other requests with the same catalogue, refusals and model; it is added to.

    Raises:
        CannotPlan: the request asks for what the target, the catalogue or an optimisation does not have.
    """
    job = allocate(request)
    for problem in limit_problems(job):
        raise problem
    return plan_for(job, catalogue, refusals, model, shared)


def plan_for(
    allocation: JobAllocation,
    catalogue: Catalogue | None = None,
    refusals: Sequence[Refusal] = (),
    model: PerformanceModel | None = None,
    shared: Shared | None = None,
) -> Plan:
    """The plan for a job that its target has room for: the second half of ``make_plan``.

    Raises:
        CannotPlan: the request asks for what the catalogue or an optimisation does not have.
    """
    catalogue = catalogue or load_catalogue()
    _check_after(allocation.original)
    allocation, scaled = _scaled(allocation, model)

    def chosen_for(allocation: JobAllocation, scaled: Scaled | None) -> Chosen:
        request = with_data(allocation.request, catalogue)
        draft = Draft(request, catalogue, tuple(refusals), allocation.partition, allocation.layout, scaled=scaled)
        return choose(draft, model, shared)

    weighing = model if allocation.original.scale and scaled is None else None
    chosen = chosen_for(_without_sums(allocation) if weighing else allocation, scaled)
    if weighing:
        # How a training scales depends on what a step takes, and so on all that was chosen for it: first for one
        # process, and then for several, whose sums are chosen too.
        for _ in range(2):
            question = _with_sums(chosen.draft.question(), allocation.request)
            scaled = scaled_training(
                allocation.request, allocation.layout, question, weighing, _runs(allocation, model), _hosts(allocation)
            )
            if scaled is None:
                break
            chosen = chosen_for(_with(allocation, scaled), scaled)
    draft, request = chosen.draft, chosen.draft.request
    tuning, tuned = planned_tuning(chosen)
    tuner_requirements = (
        tuner_packages(draft.entry, request.image) if tuning and tuning.reduction > 1 and draft.entry else ()
    )
    own = request.application.requirements
    _check_requirements(draft)
    image = image_of(draft.entry, request.image, own, request.target, catalogue, tuner_requirements)
    datasets = planned_datasets(request, draft.staging, draft.packed, catalogue)
    job = planned_job(draft, image, datasets, tuning)
    parts = {
        "name": request.blueprint,
        "blueprint": request.blueprint,
        "training": request.training,
        "application": request.application,
        "target": request.target.model_copy(update={"terms": None}),
        "image": image,
        "dataset": datasets[0] if datasets else None,
        "more_datasets": tuple(datasets[1:]),
        "job": job,
        "runtime": runtime_files(tuner=tuning is not None, notebook=is_notebook(request.application))
        if request.application.is_training
        else (),
        "staging": _staging(request, image, datasets),
        "choices": (*chosen.choices, *([tuned] if tuned else [])),
        "candidates": chosen.candidates,
        "tuning": tuning,
        "memory": planned_memory(draft),
        "scale": _planned_scale(allocation.original.scale, scaled),
        "after": request.after,
        "beside": request.beside,
        "cost": planned_cost(request.target, chosen.candidates, job.walltime),
    }
    unsigned = Plan(digest="", **parts)  # type: ignore[arg-type]
    digest = digest_of(unsigned.model_dump(mode="json", exclude=set(UNSIGNED)))
    return unsigned.model_copy(update={"digest": digest})


# --- what comes before


def _check_after(request: Request) -> None:
    """
    Raises:
        CannotPlan: a placeholder names a training that does not come before, or the job waits for others already.
    """
    application, names = request.application, {predecessor.training for predecessor in request.after}
    shell = (*application.pre_execution, *application.post_execution)
    used_names = trainings_before([*(value for _, value in application.arguments), *application.words, *shell])
    for name in sorted(used_names - names):
        hint = f"- after: {name}, under its requirements" if names == set() else nearest(name, names)
        raise CannotPlan("arguments", f"{{after:{name}}} is used, and the training does not come after {name}", hint)
    variables = [after_variable(name) for name in names]
    for name in (variable for variable in variables if variables.count(variable) > 1):
        raise CannotPlan("", f"two trainings before {request.training} would be {name}", "rename one of them")
    if request.job_options.job_dependency and (request.after or request.parallel):
        about = "job_options.job_dependency"
        hint = "leave job_dependency out, or after and parallel"
        raise CannotPlan(about, "after and parallel already say what the job waits for", hint)


def _check_requirements(draft: Draft) -> None:
    """
    Raises:
        CannotPlan: a package that the user asks for does not go with the build that was chosen.
    """
    collision = collision_of(draft.entry, draft) if draft.entry else None
    if collision:
        number, problem = collision
        raise CannotPlan(f"requirements_txt.{number}", problem.message, problem.hint)


# --- nodes and processes


def _scaled(allocation: JobAllocation, model: PerformanceModel | None) -> tuple[JobAllocation, Scaled | None]:
    """The allocation with the nodes and processes of a program that leaves them to the planner.

    They are settled before all else: what a process has of its node depends on them.
    """
    scaled = scaled_program(allocation.request, _runs(allocation, model))
    return (allocation, None) if scaled is None else (_with(allocation, scaled), scaled)


def _runs(allocation: JobAllocation, model: PerformanceModel | None) -> tuple[ScalingRun, ...]:
    runs_of = getattr(model, "scaling_runs", None)
    return runs_of(allocation.original) if runs_of and allocation.original.scale else ()


def _hosts(allocation: JobAllocation) -> int:
    """How many hosts of a target without a scheduler the ranks of a training can be started on."""
    several = allocation._replace(layout=allocation.layout._replace(nodes=2))
    hosts = allocation.request.target.hosts
    return 1 + len(hosts) if hosts and not any(limit_problems(several)) else 1


def _with(allocation: JobAllocation, scaled: Scaled) -> JobAllocation:
    return allocate(with_shape(allocation.original, scaled)) if scaled.is_changed else allocation


def _sums(request: Request) -> dict[str, str]:
    """What is asked of the sums between processes."""
    optimisation, fields = request.optimisation, type(request.optimisation).model_fields
    names = [sums.name for sums in optimisations() if isinstance(sums, SumsOptimisation)]
    return {name: value for name in names if (value := getattr(optimisation, name)) != fields[name].default}


def _without_sums(allocation: JobAllocation) -> JobAllocation:
    """Where there is one process as yet: without what is asked of the sums between several."""
    request, fields = allocation.request, type(allocation.request.optimisation).model_fields
    if allocation.layout.processes > 1:
        return allocation
    unasked = request.optimisation.model_copy(update={name: fields[name].default for name in _sums(request)})
    return allocation._replace(request=request.model_copy(update={"optimisation": unasked}))


def _with_sums(question: Question, request: Request) -> Question:
    """The question of a training whose processes sum as it is asked for."""
    return question.model_copy(update={"settings": {**question.settings, **_sums(request)}})


def _planned_scale(scale: Scale | None, scaled: Scaled | None) -> PlannedScale | None:
    """What was weighed, in digits that every machine computes alike."""
    if scale is None or scaled is None or not scaled.curve:
        return None
    curve = (
        point.model_copy(
            update={
                "seconds": rounded(point.seconds),
                "efficiency": round(point.efficiency, 3),
                "core_hours": None if point.core_hours is None else float(f"{point.core_hours:.3g}"),
            }
        )
        for point in scaled.curve
    )
    return PlannedScale(asked=scale, source=scaled.source, curve=tuple(curve))


# --- what is brought to the target


def _staging(request: Request, image: PlannedImage, datasets: Sequence[PlannedDataset]) -> tuple[Staged, ...]:
    """What is brought to the target, in the order in which that happens."""
    staged = [Staged(what="image", source=layer.source or layer.name, destination=layer.path) for layer in image.layers]
    for dataset in datasets:
        if dataset.sources[0].kind == ON_TARGET:
            continue  # it is there
        sources = ", else ".join(source.location or source.kind for source in dataset.sources)
        staged.append(Staged(what="dataset", source=sources, destination=dataset.path, size=dataset.size))
    folder = f"{request.application.folder}/" if request.application.folder else ""
    staged += [
        Staged(
            what="code", source=f"{folder}{file.path}", destination=f"deployments/*/code/{file.path}", size=file.size
        )
        for file in request.application.files
    ]
    return tuple(staged)
