"""In how many bytes gradients travel between the processes of one training."""

from __future__ import annotations

from modak_ansible.allocation.ranks import ranks_of
from modak_ansible.optimisations.base import Draft, Option
from modak_ansible.optimisations.code import CodeOptimisation, framework_of
from modak_ansible.optimisations.properties import Property


class GradientCompression(CodeOptimisation):
    name = "gradient_compression"
    reasons = {
        "none": "gradients travel as they are",
        "fp16": "half the bytes; large gradients may overflow",
        "bf16": "half the bytes, with 8 bits of mantissa and the whole range",
        "powersgd": "as two thin factors of each matrix, with what was left out added to the next step: a hundredth of "
        "the bytes, and more computing",
    }
    properties = (Property("How gradients travel between ranks; others than none need numerics any.", tuple(reasons)),)
    after = ("image", "scaling")
    prepared = ("pytorch",)
    stock = ("none",)
    moves = "any"

    def options(self, draft: Draft) -> tuple[Option, ...]:
        if not self.wish(draft) and self._why_nothing_travels(draft):
            return ()
        return super().options(draft)

    def values(self, draft: Draft) -> tuple[str, ...]:
        return self.property_values() if framework_of(draft) == "pytorch" else ("none",)

    def why_not(self, draft: Draft, value: str) -> str:  # noqa: ARG002 - the same for all
        return self._why_nothing_travels(draft)

    def _why_nothing_travels(self, draft: Draft) -> str:
        """Why prepare sends no gradients; empty where it does."""
        ranks = ranks_of(draft.request, draft.layout)
        if ranks is None:
            return "one process sends its gradients nowhere"
        if ranks.shares_out:
            return f"{ranks.strategy} sends gradients to the ranks that keep them, as they are"
        return "" if ranks.is_prepared else "the script itself sends its gradients"
