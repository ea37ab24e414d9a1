"""What makes one training of several processes."""

from __future__ import annotations

from modak_ansible.allocation.ranks import ranks_of
from modak_ansible.model.distributed import mesh_of
from modak_ansible.model.measured.prediction import Question
from modak_ansible.optimisations.base import Default, Draft, Numerics, Optimisation, Option, between

_NONE = "none"


class Strategy(Optimisation):
    name = "strategy"
    about = "distributed.strategy"
    stock = (_NONE,)
    is_switch = False
    acts_on = "job"

    def options(self, draft: Draft) -> tuple[Option, ...]:
        ranks = ranks_of(draft.request, draft.layout)
        if ranks is None:
            return ()
        no_strategy = Option(_NONE, "each process trains the whole model by itself")
        if ranks.strategy == _NONE:
            return (no_strategy,)
        numerics: Numerics = "reassociation" if ranks.is_prepared else "same"
        rejections = (Option(name, why_not=reason) for name, reason in ranks.rejected)
        return no_strategy, Option(ranks.strategy, ranks.reason, numerics=numerics), *rejections

    def default(self, draft: Draft) -> Default | None:
        ranks = ranks_of(draft.request, draft.layout)
        return Default(ranks.strategy, ranks.reason) if ranks else None

    def counterfactual(self, draft: Draft, value: str) -> Question | None:
        """Of another of prepare's, by its law."""
        ranks, mesh = ranks_of(draft.request, draft.layout), mesh_of(value, draft.layout.processes)
        if ranks is None or mesh is None or draft.settings.get("large_batch", "none") != "none":
            return None
        communication = between(draft.request, draft.layout, draft.settings, ranks.by(mesh, ""))
        return draft.question().model_copy(update=dict(communication))

    def why_other(self, other: str, taken: str, draft: Draft) -> str:  # noqa: ARG002
        return "each process would train the whole model" if other == _NONE else ""

    def apply(self, draft: Draft, value: str) -> None:
        """What the job does for it is the launcher's."""
