"""What a deployment would cost on a machine that is made for it, before there is any."""

from __future__ import annotations

from modak_ansible.discovery.aim import Aim
from modak_ansible.discovery.finding import Finding, missing, ok, warning
from modak_ansible.errors import CannotPlan
from modak_ansible.planning.costs.money import cost_words
from modak_ansible.planning.plan import make_plan
from modak_ansible.planning.service import model_of


def cost_findings(aim: Aim) -> list[Finding]:
    """What the plan says of money; nothing for a machine that nobody makes, or a target without a training."""
    if aim.target.cloud is None or aim.request is None:
        return []
    try:
        plan = make_plan(aim.request, model=model_of(aim.state))
    except CannotPlan as error:
        return [missing("costs", error.message, error.hint)]
    words = cost_words(plan.cost, plan.job.walltime) if plan.cost else ""
    return [
        ok("costs", words) if words else warning("costs", "the price of an hour is not known", "price_per_hour: 0.34")
    ]
