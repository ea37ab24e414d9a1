"""Whether the processes of a training step by themselves, and take the mean of where they went every so many steps."""

from __future__ import annotations

from modak_ansible.optimisations.base import Draft
from modak_ansible.optimisations.properties import Property
from modak_ansible.optimisations.sums import SumsOptimisation


class LocalSgd(SumsOptimisation):
    name = "local_sgd"
    reasons = {
        "none": "every step is that of the whole batch",
        "4": "ranks step by themselves, and every 4 steps take the mean of their parameters",
        "8": "likewise every 8 steps",
        "16": "likewise every 16 steps",
    }
    properties = (
        Property(
            "Steps that each rank makes by itself between two averages over all; values other than "
            "none need numerics any.",
            tuple(reasons),
        ),
    )
    after = (*SumsOptimisation.after, "gradient_compression")
    stock = ("none",)
    numerics = "any"

    def why_not(self, draft: Draft, value: str) -> str:
        if draft.settings.get("gradient_compression", "").startswith("powersgd"):
            return "what the factors of powersgd leave out would wait for too many steps"
        return super().why_not(draft, value)
