"""A plan's tuning, or why there is none."""

from __future__ import annotations

import math

from modak_ansible.catalogue import Entry
from modak_ansible.catalogue.locks import TUNER, beside, lock_of, without
from modak_ansible.model.measured.timed_steps import COUNTED
from modak_ansible.model.plan import Choice
from modak_ansible.model.request import GivenImage, Request
from modak_ansible.model.tuning import PlannedTuning
from modak_ansible.optimisations.base import NUMERICS, CannotPlan, Draft, why_unseen
from modak_ansible.planning.search import Chosen
from modak_ansible.planning.tuning.candidates import MOST, against_stock, candidates

ABOUT = "optimisation.autotuning"
# Tuning is to make a job shorter: what it may take of the walltime, and where there is nothing but tuning.
_SHARE, _WHOLE = 0.25, 0.9
# Seconds that a job takes to copy its data, to start the tuner and to end.
_BESIDES = 120
# The first rung's steps, and how many times more the best third gets in the next ones: 20, 60 and 180.
_STEPS, _REDUCTION, _RUNGS = 20, 3, 3
# Turns of the choice and the stock run; the budget ends them before, but on the smallest networks.
_TURNS = 5
_SETTLED = "preferences, good practice and records leave no permitted choice open"


def tuning_alone(request: Request, budget: int | None = None) -> Request:
    """A request for nothing but the tuning of another one's training, as a deployment of its own.

    Args:
        budget: seconds; the request's own without it.
    """
    seconds = budget or request.optimisation.tuning_budget
    changes = {"autotuning": True, "only_tune": True, "tuning_budget": seconds, "compare_with_stock": 0}
    options, resources = request.job_options, request.resources
    walltime = min(options.wall_time_limit or resources.walltime, math.ceil(seconds / _WHOLE) + _BESIDES)
    if options.wall_time_limit:
        options = options.model_copy(update={"wall_time_limit": walltime})
    return request.model_copy(
        update={
            "blueprint": f"{request.blueprint}-tune",
            "optimisation": request.optimisation.model_copy(update=changes),
            "resources": resources.model_copy(update={"walltime": walltime}),
            "job_options": options,
            "application": request.application.model_copy(update={"outputs": ()}),
            "checkpoint": None,  # whose signal before the wall would end it, as if it were the training
        }
    )


def planned_tuning(chosen: Chosen) -> tuple[PlannedTuning | None, Choice | None]:
    """What the job tries before it trains, and the line in which the plan says so; None where nothing is asked or open.

    Raises:
        CannotPlan: no trial could be run or ended here.
    """
    draft = chosen.draft
    if not draft.request.optimisation.autotuning:
        return _comparison(chosen) if draft.request.optimisation.compare_with_stock else (None, None)
    problem = why_not_tuned(draft)
    if problem:
        hint = "autotuning: false trains with the plan's choice"
        is_optional = not draft.request.optimisation.only_tune
        raise CannotPlan(ABOUT, f"nothing can be tuned: {problem}", hint, optional=is_optional)
    tuning_candidates = candidates(chosen)
    requested = draft.request.optimisation
    if sum(candidate.may_win for candidate in tuning_candidates) < 2:
        if requested.only_tune:
            raise CannotPlan(ABOUT, f"nothing is left to tune: {_SETTLED}", "numerics: reassociation opens more")
        return None, Choice(name="tuning", value="none", reason=_SETTLED, stock="none", reaches="job")
    share = _WHOLE if requested.only_tune else _SHARE
    tuning = PlannedTuning(
        candidates=tuning_candidates,
        budget=_budget(draft, requested.tuning_budget, share),
        first_rung=MOST,
        steps=_STEPS,
        reduction=_REDUCTION,
        rungs=_RUNGS,
        trains=not requested.only_tune,
    )
    return tuning, _choice(tuning)


def _comparison(chosen: Chosen) -> tuple[PlannedTuning | None, Choice]:
    """Turns of the choice and the stock run; none, and why, where they cannot be run: nothing else depends on them."""
    draft = chosen.draft
    seconds = draft.request.optimisation.compare_with_stock
    compared = against_stock(chosen)
    problem = _why_no_trials(draft) or ("" if compared else "the plan's choice is the stock run")
    choice = Choice(name="compare_with_stock", value="none", reason=problem, stock="none", reaches="job")
    if problem:
        return None, choice
    budget = _budget(draft, seconds, _SHARE)
    reason = f"both take turns at {_STEPS} steps, in at most {budget} s, before the training"
    reason += "; stock trains where it is faster" if compared[-1].may_win else ""
    changes = {"value": f"{budget} s", "reason": reason, "evidence": "docs/tuning.md"}
    tuning = PlannedTuning(candidates=compared, budget=budget, steps=_STEPS, reduction=1, rungs=_TURNS)
    return tuning, choice.model_copy(update=changes)


def _budget(draft: Draft, seconds: int, share: float) -> int:
    """Seconds, of which no more than a share of the walltime."""
    return max(1, min(seconds, int(draft.request.resources.walltime * share)))


def why_not_tuned(draft: Draft) -> str:
    """Why nothing can be tuned; empty where it can."""
    problem = _why_no_trials(draft)
    if problem or draft.entry is None:
        return problem
    python = draft.base.python if draft.base else draft.entry.python_version
    if python not in lock_of(TUNER).pythons:
        return f"the tuner needs Python {' or '.join(lock_of(TUNER).pythons)}, and {draft.entry.name} has {python}"
    return ""


def _why_no_trials(draft: Draft) -> str:
    """Why trials cannot be run, or not be ended after so many steps; empty where they can."""
    request, entry = draft.request, draft.entry
    application = request.application
    processes = draft.layout.processes
    if not application.is_training or application.hpc:
        return "a program that is not a training has no steps to count"
    if processes > 1:
        return f"a trial is one process, and the job has {processes}"
    if entry is None:
        return why_unseen(draft)
    if draft.base is None and entry.origin != "given":
        return "an image of a hub does not contain modak's code"
    if entry.framework not in COUNTED:
        return f"nothing counts the steps of a script of {entry.framework}"
    return ""


def tuner_packages(entry: Entry, image: GivenImage | None) -> tuple[str, ...]:
    """What an image needs for the tuner besides what the framework brings, as lines of a lock."""
    if image and image.seen:
        return without(TUNER, image.seen.packages)
    return beside(TUNER, entry.name)


def _choice(tuning: PlannedTuning) -> Choice:
    combined = ", and then what the faster ones combine to" if tuning.alone < len(tuning.candidates) else ""
    end = "the best one trains" if tuning.trains else "the job ends"
    return Choice(
        name="tuning",
        value=f"{tuning.alone} candidates",
        reason="the records cannot tell them apart; each is tried for "
        f"{tuning.steps} to {tuning.steps_of_rungs[-1]} steps{combined}, all in at most {tuning.budget} s, and {end}",
        numerics=max((candidate.numerics for candidate in tuning.candidates), key=NUMERICS.index),
        stock="none",
        reaches="job",
        evidence="docs/tuning.md",
    )
