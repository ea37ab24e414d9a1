"""What OpenMP's threads do while they wait for each other: spin or sleep."""

from __future__ import annotations

from modak_ansible.optimisations.base import Default, Draft, Optimisation, Option
from modak_ansible.optimisations.properties import Property


class WaitPolicy(Optimisation):
    name = "wait_policy"
    properties = (Property("Whether idle OpenMP threads spin (active) or sleep (passive).", ("active", "passive")),)
    suite_default = "stock"
    stock = ("stock",)
    after = ("threads",)
    reaches = "environment"

    def options(self, draft: Draft) -> tuple[Option, ...]:
        if draft.threads == 1 and not self.wish(draft):
            return (Option("stock", "a single thread waits for no other"),)
        alone = "the job has its nodes to itself, so spinning threads are in nobody's way"
        stock = Option("stock", alone if has_nodes_alone(draft) else "threads spin for a while, then sleep")
        passive = "waiting threads sleep, and leave their core to whom they wait for"
        why_not = why_no_openmp(draft)
        active = Option("active", "waiting threads spin, and are there at once", why_not=why_not)
        return stock, active, Option("passive", passive, why_not=why_not)

    def default(self, draft: Draft) -> Default | None:
        if draft.threads == 1 or has_nodes_alone(draft) or why_no_openmp(draft):
            return None
        reason = "others may use the node, and one busy neighbour doubles the time of spinning threads"
        return Default("passive", reason)

    def apply(self, draft: Draft, value: str) -> None:
        if value != "stock":
            draft.environment["OMP_WAIT_POLICY"] = value.upper()
            draft.settings[self.name] = value


def has_nodes_alone(draft: Draft) -> bool:
    """Whether no other job can be on the node: it is exclusive, or all its cores are asked for."""
    layout = draft.layout
    if draft.request.resources.exclusive:
        return True
    if not draft.partition or not layout.cores or not draft.node_cores:
        return False
    return layout.processes_per_node * layout.cores >= draft.node_cores


def why_no_openmp(draft: Draft) -> str:
    """Why nobody reads OpenMP's variables, as far as a look into the user's image tells."""
    seen = draft.request.image.seen if draft.request.image else None
    if seen is None or seen.problem or draft.request.application.framework != "pytorch":
        return ""
    return "" if any(name.endswith("omp") or "omp5" in name for name in seen.libraries) else "the image has no OpenMP"
