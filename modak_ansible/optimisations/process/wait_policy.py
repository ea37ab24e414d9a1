"""What OpenMP's threads do while they wait for each other: spin or sleep."""

from __future__ import annotations

from modak_ansible.optimisations.base import Default, Draft, Optimisation, Option
from modak_ansible.optimisations.code import why_nothing_acts
from modak_ansible.optimisations.properties import Property

# Turns that a thread of libgomp spins before it sleeps; see wait_policy.md.
_BRIEFLY = "1000"


class WaitPolicy(Optimisation):
    name = "wait_policy"
    properties = (
        Property(
            "Whether idle OpenMP threads spin (active), sleep (passive), sleep soon (brief), or sleep"
            " soon only if others are busy on the cores when the process starts (adaptive).",
            ("active", "passive", "brief", "adaptive"),
        ),
    )
    suite_default = "stock"
    stock = ("stock",)
    after = ("threads",)
    acts_on = "environment"

    def options(self, draft: Draft) -> tuple[Option, ...]:
        if draft.threads == 1 and not self.requested(draft):
            return (Option("stock", "a single thread waits for no other"),)
        reason = "the job has its cores to itself, so spinning threads are in nobody's way"
        stock = Option("stock", reason if has_cores_alone(draft) else "threads spin for a while, then sleep")
        passive = "waiting threads sleep, and leave their core to the threads that they wait for"
        why_not = why_no_openmp(draft)
        active = Option("active", "waiting threads spin, and resume at once", why_not=why_not)
        briefly = "waiting threads spin a thousand turns, and then leave their core to others"
        brief = Option("brief", briefly, why_not=why_not)
        as_found = "where others are busy on the cores as the process begins they sleep soon, and elsewhere they spin"
        adaptive = Option("adaptive", as_found, why_not=why_not or _why_nobody_looks(draft))
        return stock, active, Option("passive", passive, why_not=why_not), brief, adaptive

    def default(self, draft: Draft) -> Default | None:
        if draft.threads == 1 or has_cores_alone(draft) or why_no_openmp(draft):
            return None
        reason = "others may use the node, and one busy neighbour doubles the time of spinning threads"
        if _why_nobody_looks(draft):
            return Default("brief", reason)
        return Default("adaptive", f"{reason}: they spin where the cores are idle when the process begins")

    def apply(self, draft: Draft, value: str) -> None:
        if value == "stock":
            return
        if value == "adaptive":  # what it is beside nobody; of what others disturb the model learns nothing
            draft.choices[self.name] = value
            return
        draft.environment["OMP_WAIT_POLICY"] = "PASSIVE" if value == "brief" else value.upper()
        if value == "brief":  # libgomp's own, which it reads before the policy; other libraries sleep at once
            draft.environment["GOMP_SPINCOUNT"] = _BRIEFLY
        draft.settings[self.name] = value


def _why_nobody_looks(draft: Draft) -> str:
    """Why nothing of ours is in the process to look at the cores; empty where something is."""
    if not draft.request.application.is_training:
        return "modak's code does not run in the process of a program"
    return why_nothing_acts(draft)


def has_cores_alone(draft: Draft) -> bool:
    """Whether no other job can be on its cores: the node is exclusive, or all its cores are asked for, or the
    scheduler keeps jobs to theirs."""
    layout = draft.layout
    if draft.request.resources.exclusive or (draft.partition and draft.partition.own_cores):
        return True
    if not draft.partition or not layout.cores or not draft.node_cores:
        return False
    return layout.processes_per_node * layout.cores >= draft.node_cores


def why_no_openmp(draft: Draft) -> str:
    """Why nobody reads OpenMP's variables, as far as a look into the user's image tells."""
    image = draft.request.image.seen if draft.request.image else None
    if image is None or image.problem or draft.request.application.framework != "pytorch":
        return ""
    return "" if any(name.endswith("omp") or "omp5" in name for name in image.libraries) else "the image has no OpenMP"
