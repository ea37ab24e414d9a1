"""Whether the job copies its data to the node's own scratch before it trains."""

from __future__ import annotations

from modak_ansible.model.plan import Choice, Rejected
from modak_ansible.model.quantities import format_size
from modak_ansible.optimisations.base import CannotPlan, Draft, Optimisation

# Larger data would spend a noticeable part of a short job on the copy, and may not fit.
LARGEST = 50 * 10**9


class Staging(Optimisation):
    name = "staging"

    def decide(self, draft: Draft) -> Choice | None:
        dataset = draft.request.dataset
        if dataset is None:
            return None
        wanted = draft.request.optimisation.staging
        scratch = draft.request.target.scratch
        node_local = scratch is not None and scratch.sharing == "node-local"
        nodes = draft.request.resources.nodes
        if wanted == "node-local" and nodes > 1:
            raise CannotPlan(
                "optimisation.staging", f"the copy is made on one node, and the job has {nodes}", "take any or shared"
            )
        if wanted == "node-local" and not node_local:
            name = draft.request.target.name
            raise CannotPlan(
                "optimisation.staging", f"{name} has no node-local scratch",
                "give its scratch capability a path, or take any",
            )  # fmt: skip
        if wanted == "shared":
            return Choice(name=self.name, value="shared", reason="asked for")
        if not node_local or scratch is None:
            return Choice(name=self.name, value="shared", reason="the target names no node-local scratch")
        if nodes > 1:
            return Choice(name=self.name, value="shared", reason="the copy is made on one node, and the job has more")
        size = dataset.size or 0
        if wanted == "any" and size > LARGEST:
            reason = (
                f"the data has {format_size(size)}, more than the {format_size(LARGEST)} that are copied for one job"
            )
            return Choice(name=self.name, value="shared", reason=reason)
        draft.staging = "node-local"
        reason = (
            "asked for" if wanted == "node-local" else f"every epoch then reads from {scratch.path} of its own node"
        )
        rejected = (
            Rejected(value="shared", reason="every epoch of every job would go through the shared file system"),
        )
        return Choice(name=self.name, value="node-local", reason=reason, rejected=rejected)
