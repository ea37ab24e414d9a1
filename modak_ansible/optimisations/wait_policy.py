"""What OpenMP's threads do while they wait for each other: spin or sleep."""

from __future__ import annotations

from modak_ansible.model.plan import Choice, Rejected
from modak_ansible.optimisations.base import Draft, Optimisation


class WaitPolicy(Optimisation):
    name = "wait_policy"
    after = ("threads",)

    def decide(self, draft: Draft) -> Choice | None:
        wanted = draft.request.optimisation.wait_policy
        if wanted != "any":
            draft.environment["OMP_WAIT_POLICY"] = wanted.upper()
            return Choice(name=self.name, value=wanted, reason="asked for")
        if draft.threads == 1:
            reason = "a single thread waits for no other"
            return Choice(name=self.name, value="stock", reason=reason)
        if _has_nodes_alone(draft):
            reason = "the job has its nodes to itself, so spinning threads are in nobody's way"
            rejected = (Rejected(value="passive", reason="waking a sleeping thread takes time"),)
            return Choice(name=self.name, value="stock", reason=reason, rejected=rejected)
        draft.environment["OMP_WAIT_POLICY"] = "PASSIVE"
        reason = "others may use the node, and a spinning thread keeps a core from the one it waits for"
        rejected = (Rejected(value="stock", reason="one busy neighbour doubled the time of spinning threads"),)
        return Choice(
            name=self.name, value="passive", reason=reason, evidence="optimisations/wait_policy.md", rejected=rejected
        )


def _has_nodes_alone(draft: Draft) -> bool:
    """Whether no other job can be on the node: it is exclusive, or all its cores are asked for."""
    resources = draft.request.resources
    if resources.exclusive:
        return True
    if not draft.partition or not draft.cores_per_process or not draft.node_cores:
        return False
    return resources.processes_per_node * draft.cores_per_process >= draft.node_cores
