"""How many nodes, processes and threads a parallel program or training has, where it leaves them to the planner."""

from __future__ import annotations

from modak_ansible.optimisations.base import Default, Draft, Optimisation, Option


class Scaling(Optimisation):
    name = "scaling"
    about = "scale"
    stock = ()
    is_switch = False
    acts_on = "job"

    def options(self, draft: Draft) -> tuple[Option, ...]:
        """As asked, and what the law of its scaling says; the planner has settled it, as all else depends on it."""
        scaled = draft.scaled
        if scaled is None:
            return ()
        if scaled.why_not or scaled.efficiency is None:
            return (Option(scaled.stock, scaled.why_not),)
        minimum = draft.request.scale.minimal_efficiency if draft.request.scale else 0.0
        reason = (
            f"nodes x processes x threads, by {scaled.source}: an efficiency of {scaled.efficiency:.2f}, "
            f"where at least {minimum:.2f} is wanted, in {1 / (scaled.faster or 1.0):.2f} of the time of what was asked"
        )
        if not scaled.is_changed:
            return (Option(scaled.stock, f"as asked: an efficiency of {scaled.efficiency:.2f}"),)
        return (Option(scaled.stock, "as asked for"), Option(scaled.value, reason))

    def default(self, draft: Draft) -> Default | None:
        scaled = draft.scaled
        if scaled is None or not scaled.is_changed:
            return None
        return Default(scaled.value, self.options(draft)[1].reason)

    def apply(self, draft: Draft, value: str) -> None:
        """Nothing is left to do: the draft's request has it already."""
