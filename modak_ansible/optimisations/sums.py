"""What optimisations share that settle how prepare's processes sum their gradients."""

from __future__ import annotations

from typing import ClassVar

from modak_ansible.allocation.ranks import ranks_of
from modak_ansible.optimisations.base import Draft, Option
from modak_ansible.optimisations.code import OfPyTorch


class SumsOptimisation(OfPyTorch):
    """A matter of the sums between ranks; the performance model knows it by its law, not by records of each value."""

    after: ClassVar[tuple[str, ...]] = ("image", "scaling")
    prepare_frameworks = ("pytorch",)
    is_switch = False

    def options(self, draft: Draft) -> tuple[Option, ...]:
        if not self.requested(draft) and why_nothing_travels(draft):
            return ()
        return super().options(draft)

    def why_not(self, draft: Draft, value: str) -> str:  # noqa: ARG002 - the same for all
        return why_nothing_travels(draft)


def why_nothing_travels(draft: Draft) -> str:
    """Why prepare sends no gradients; empty where it does."""
    ranks = ranks_of(draft.request, draft.layout)
    if ranks is None:
        return "one process sends no gradients"
    if ranks.mesh and ranks.mesh.readers == 1:
        return f"{ranks.strategy} sends no gradients"
    if ranks.shares_out:
        return f"{ranks.strategy} sends gradients to the ranks that keep them, as they are"
    return "" if ranks.is_prepared else "the script itself sends its gradients"
