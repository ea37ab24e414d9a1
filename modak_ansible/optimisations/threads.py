"""How many threads a process of the training uses."""

from __future__ import annotations

from modak_ansible.model.plan import Choice, Rejected
from modak_ansible.optimisations.base import CannotPlan, Draft, Optimisation


class Threads(Optimisation):
    name = "threads"
    after = ("image",)

    def decide(self, draft: Draft) -> Choice | None:
        wanted = draft.request.optimisation.threads
        cores = draft.cores_per_process
        if wanted and cores and wanted > cores:
            raise CannotPlan(
                "optimisation.threads", f"{wanted} threads are more than the {cores} cores of a process",
                "ask for more cores_per_process, or for fewer threads",
            )  # fmt: skip
        threads = wanted or cores
        if threads is None:
            reason = "neither the blueprint nor the target says how many cores a process has"
            return Choice(name=self.name, value="the framework's default", reason=reason)
        draft.threads = threads
        variables = draft.entry.thread_variables if draft.entry else ("OMP_NUM_THREADS",)
        draft.environment.update({name: str(threads) for name in variables})
        if wanted:
            return Choice(name=self.name, value=str(threads), reason="asked for")
        node_cores = draft.node_cores
        rejected: tuple[Rejected, ...] = ()
        if node_cores and node_cores > threads:
            reason = "the scheduler gives the other cores of the node to other jobs"
            rejected = (Rejected(value=str(node_cores), reason=reason),)
        return Choice(
            name=self.name, value=str(threads), reason="one for each core that the process is given", rejected=rejected
        )
