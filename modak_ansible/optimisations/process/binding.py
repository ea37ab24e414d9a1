"""Whether a process's threads stay on their cores."""

from __future__ import annotations

from modak_ansible.optimisations.base import Default, Draft, Optimisation, Option
from modak_ansible.optimisations.process.wait_policy import has_cores_alone, why_no_openmp
from modak_ansible.optimisations.properties import Property


class Binding(Optimisation):
    name = "binding"
    properties = (Property("Whether threads stay on their cores.", ("none", "cores")),)
    suite_default = "none"
    stock = ("none",)
    after = ("threads",)
    acts_on = "environment"

    def options(self, draft: Draft) -> tuple[Option, ...]:
        none = Option("none", "the kernel moves threads to where a core is free")
        if draft.threads == 1 and not self.requested(draft):
            return (Option("none", "a single thread does not need to be bound"),)
        several = draft.layout.processes_per_node > 1 and draft.request.target.scheduler.value != "slurm"
        why_not = "the processes of a node would be bound to the same cores" if several else why_no_openmp(draft)
        return none, Option("cores", "each thread keeps its core and what its caches hold", why_not=why_not)

    def default(self, draft: Draft) -> Default | None:
        if draft.threads == 1 or has_cores_alone(draft):
            return None
        return Default("none", "a thread that is bound cannot leave a core that another job keeps busy")

    def apply(self, draft: Draft, value: str) -> None:
        if value == "cores":
            draft.environment.update({"OMP_PROC_BIND": "close", "OMP_PLACES": "cores"})
            draft.settings[self.name] = value
