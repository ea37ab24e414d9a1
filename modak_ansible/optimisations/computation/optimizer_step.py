"""By which kernels an optimiser takes its steps."""

from __future__ import annotations

from modak_ansible.allocation.ranks import ranks_of
from modak_ansible.optimisations.base import Default, Draft
from modak_ansible.optimisations.code import OnProcessors, is_at_least
from modak_ansible.optimisations.properties import Property

_SINCE = "2.4"


class OptimizerStep(OnProcessors):
    name = "optimizer_step"
    reasons = {
        "default": "the framework's own choice, which on processors is one operator after the other",
        "fused": "Adam, AdamW, SGD and Adagrad read and write each parameter once in a step",
    }
    properties = (Property("The kernels that an optimiser uses for its steps.", tuple(reasons)),)
    suite_default = "default"
    after = ("image", "memory", "strategy")
    is_switch = False
    stock = ("default",)
    in_other_frameworks = "has its own"
    why_not_accelerated = "on accelerators PyTorch uses fast ones by default"

    def why_not_here(self, draft: Draft) -> str:
        if draft.entry and not is_at_least(draft, _SINCE):
            return f"PyTorch has them for processors from {_SINCE} on"
        if draft.settings.get("memory") == "out-of-core":
            return "training out of core updates each parameter separately"
        ranks = ranks_of(draft.request, draft.layout)
        return f"a rank of {ranks.strategy} has only parts of the parameters" if ranks and ranks.shares_out else ""

    def apply(self, draft: Draft, value: str) -> None:
        super().apply(draft, value)
        draft.settings.pop(self.name, None)  # what it gains goes with the optimiser, of which records say nothing

    def default(self, draft: Draft) -> Default | None:
        if draft.request.optimisation.numerics == "same" or not self.can_be(draft, "fused"):
            return None
        return Default("fused", f"{self.reasons['fused']}, and none was slower")
