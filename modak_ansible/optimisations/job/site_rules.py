"""The enforcer's part of a plan: which of the site's rules apply to the job, and why."""

from __future__ import annotations

from modak_ansible.allocation.site_rules import outcomes_of
from modak_ansible.optimisations.base import Default, Draft, Optimisation, Option


class SiteRules(Optimisation):
    name = "site_rules"
    stock = ()
    is_switch = False
    acts_on = "job"

    def options(self, draft: Draft) -> tuple[Option, ...]:
        outcomes = outcomes_of(draft.request)
        if not outcomes:
            return ()
        applied = [Option(*self._applied_rules(draft))] if any(outcome.applies for outcome in outcomes) else []
        why_not = "they are set by the site" if applied else ""
        rejected = [Option(outcome.rule.name, why_not=outcome.reason) for outcome in outcomes if not outcome.applies]
        return Option("none", "no rule of the site applies to this job", why_not=why_not), *applied, *rejected

    def default(self, draft: Draft) -> Default | None:
        value, reason = self._applied_rules(draft)
        return Default(value, reason) if value else Default("none", "no rule of the site applies to this job")

    def evidence(self, draft: Draft) -> str:
        return f"rules of the site of {draft.request.target.name}"

    def apply(self, draft: Draft, value: str) -> None:
        """The planner has applied them to the request already: what a site demands is no matter of choice."""

    @staticmethod
    def _applied_rules(draft: Draft) -> tuple[str, str]:
        """The names of the rules that apply, and for each why."""
        outcomes = [outcome for outcome in outcomes_of(draft.request) if outcome.applies]
        names = ", ".join(outcome.rule.name for outcome in outcomes)
        if len(outcomes) == 1:
            return names, outcomes[0].reason
        return names, "; ".join(f"{outcome.rule.name}: {outcome.reason}" for outcome in outcomes)
