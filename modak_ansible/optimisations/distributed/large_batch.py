"""Whether the batch of a training in several processes grows with their number, and the learning rate with it."""

from __future__ import annotations

from modak_ansible.allocation.ranks import ranks_of
from modak_ansible.optimisations.base import Draft, Option
from modak_ansible.optimisations.properties import Property
from modak_ansible.optimisations.sums import SumsOptimisation

_STOCK = "none"
# Of a training's epochs the part in which the rate grows: five of ninety, with which the rule was published.
_WARM_UP = 5 / 90


class LargeBatch(SumsOptimisation):
    name = "large_batch"
    reasons = {
        _STOCK: "a step has the script's own batch, of which each rank has a part",
        "linear": "each rank has a batch of the script's size, and after a warm-up the script's rate times the ranks",
        "lars": "the same, and a layer's rate is at most that of LARS",
    }
    properties = (
        Property(
            "Whether each rank has a batch of the script's size, and the learning rate grows with the ranks (linear), "
            "with a bound for each layer (lars); needs numerics any.",
            ("linear", "lars"), default=_STOCK,
        ),
    )  # fmt: skip
    after = (*SumsOptimisation.after, "batch_size", "local_sgd")
    stock = (_STOCK,)
    numerics = "any"

    def requested(self, draft: Draft) -> str:
        """Nobody takes it unasked: whether a training learns as well is not known before."""
        value = draft.request.optimisation.large_batch
        return "" if value == _STOCK else value

    def options(self, draft: Draft) -> tuple[Option, ...]:
        return super().options(draft) if self.requested(draft) else ()

    def values(self, draft: Draft) -> tuple[str, ...]:
        return (_STOCK, *super().values(draft)) if self.requested(draft) else (_STOCK,)

    def why_not(self, draft: Draft, value: str) -> str:
        ranks = ranks_of(draft.request, draft.layout)
        if draft.settings.get("local_sgd", _STOCK) != _STOCK:
            return "with local_sgd ranks make steps by themselves"
        if ranks and ranks.is_prepared and ranks.strategy != "ddp":
            return f"a rank of {ranks.strategy} does not have a part of the batch and all of the model"
        return super().why_not(draft, value)

    def apply(self, draft: Draft, value: str) -> None:
        super().apply(draft, value)
        epochs = draft.request.application.work.epochs
        if value != _STOCK and epochs:
            draft.choices["warm_up"] = str(max(1, round(epochs * _WARM_UP)))
