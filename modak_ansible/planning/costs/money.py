"""What a plan's run costs on a machine that is made for it; without a price nothing is said."""

from __future__ import annotations

from collections.abc import Sequence

from modak_ansible.errors import CannotPlan
from modak_ansible.model.measured.prediction import Interval
from modak_ansible.model.plan import Candidate, PlannedCost
from modak_ansible.model.quantities import format_walltime, three_digits
from modak_ansible.model.target import Target, Terms
from modak_ansible.planning.rationale import rounded

_HOUR = 3600.0


def planned_cost(target: Target, candidates: Sequence[Candidate], walltime: int) -> PlannedCost | None:
    """The price of the time that a run is predicted to take, and of all that it may; None for no machine of a cloud.

    Args:
        walltime: of the job, in seconds.

    Raises:
        CannotPlan: what is predicted is over the budget.
    """
    if target.terms is None:
        return None
    price, budget = target.terms.hourly, target.terms.budget
    if price is None:
        return PlannedCost(terms=target.terms)
    chosen = next((candidate.prediction for candidate in candidates if candidate.chosen), None)
    predicted = rounded(_times(chosen.seconds, price / _HOUR)) if chosen and chosen.known else None
    cost = PlannedCost(terms=target.terms, predicted=predicted, most=round(walltime / _HOUR * price, 4))
    if budget is not None and predicted and predicted.middle > budget:
        words = f"the training is predicted to cost {interval_words(predicted, target.terms)}, over the budget of "
        hint = "a higher budget, a cheaper machine, or less to train"
        raise CannotPlan("host.budget", words + amount(budget, target.terms), hint)
    return cost


def cost_words(cost: PlannedCost, walltime: int) -> str:
    """What is predicted and what is certain, for people; empty without a price."""
    terms = cost.terms
    if cost.most is None:
        return ""
    predicted = f"{interval_words(cost.predicted, terms)} for the training" if cost.predicted else "not predicted"
    limit = f"at most {amount(cost.most, terms)} within its wall time of {format_walltime(walltime)}"
    hosts = f"of {terms.machines} hosts, their" if terms.machines > 1 else "its"
    price = f"at {amount(terms.hourly or 0, terms)} an hour, {hosts} start and the making of the image not counted"
    subject = (
        "the hosts shut themselves down when they have"
        if terms.machines > 1
        else "the machine shuts itself down when it has"
    )
    budget = f"; {subject} cost {amount(terms.budget, terms)}" if terms.budget else ""
    return f"{predicted}, {limit}, {price}{budget}"


def interval_words(cost: Interval, terms: Terms) -> str:
    return f"{amount(cost.middle, terms)} ({three_digits(cost.low)} to {three_digits(cost.high)})"


def amount(number: float, terms: Terms) -> str:
    """An amount of money with its currency: ``0.12 EUR``."""
    return f"{three_digits(number)} {terms.currency}".rstrip()


def _times(interval: Interval, factor: float) -> Interval:
    return Interval(**{name: value * factor for name, value in interval.model_dump().items()})
