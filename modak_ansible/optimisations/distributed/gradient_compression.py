"""In how many bytes gradients travel between the processes of one training."""

from __future__ import annotations

from modak_ansible.optimisations.base import Draft
from modak_ansible.optimisations.properties import Property
from modak_ansible.optimisations.sums import SumsOptimisation

_FACTORS = "as two thin factors of each matrix, of rank {}, with what they leave out added to the next step"


class GradientCompression(SumsOptimisation):
    name = "gradient_compression"
    reasons = {
        "none": "gradients travel as they are",
        "fp16": "half the bytes; large gradients may overflow",
        "bf16": "half the bytes, with 8 bits of mantissa and the whole range",
        "powersgd": _FACTORS.format(1),
        "powersgd_2": _FACTORS.format(2),
        "powersgd_4": _FACTORS.format(4),
    }
    properties = (
        Property("How gradients are sent between ranks; values other than none need numerics any.", tuple(reasons)),
    )
    stock = ("none",)
    numerics = "any"

    def why_not(self, draft: Draft, value: str) -> str:
        if value.startswith("powersgd") and draft.request.optimisation.local_sgd not in ("any", "none"):
            return "with local_sgd, which is asked for, what factors leave out would wait for too many steps"
        return super().why_not(draft, value)
