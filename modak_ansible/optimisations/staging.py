"""Whether the job copies its data to the node's own scratch before it trains."""

from __future__ import annotations

from modak_ansible.model.quantities import format_size
from modak_ansible.optimisations.base import Default, Draft, Optimisation, Option
from modak_ansible.optimisations.properties import Property

# Larger data would spend a noticeable part of a short job on the copy, and may not fit.
LARGEST = 50 * 10**9
# From the slowest to the fastest.
_CLASSES = ("default-common", "default-high", "default-ssd", "default-ultra_high")


class Staging(Optimisation):
    name = "staging"
    properties = (
        Property("Whether the job copies the data to its node's own scratch first.", ("shared", "node-local")),
    )
    suite_default = "shared"
    stock = ("shared",)
    is_switch = False
    reaches = "job"

    def options(self, draft: Draft) -> tuple[Option, ...]:
        if draft.request.dataset is None:
            return ()
        shared = Option("shared", "the data is read where it lies, through the shared file system")
        scratch = draft.request.target.scratch
        reason = f"every epoch then reads from {scratch.path} of its own node" if scratch else ""
        return shared, Option("node-local", reason, why_not=_why_not(draft))

    def wish(self, draft: Draft) -> str:
        wanted = super().wish(draft)
        return "" if wanted == "shared" and draft.request.dataset is None else wanted

    def default(self, draft: Draft) -> Default | None:
        dataset, scratch = draft.request.dataset, draft.request.target.scratch
        why_not = _why_not(draft)
        if why_not or dataset is None or scratch is None:
            return Default("shared", why_not)
        total = draft.request.data_bytes or 0
        if total > LARGEST:
            size, limit = format_size(total), format_size(LARGEST)
            return Default("shared", f"the data has {size}, more than the {limit} that are copied for one job")
        home = draft.request.target.home
        if home is not None and _rank(home.storage_class) > _rank(scratch.storage_class):
            return Default("shared", f"the data lies on {home.storage_class}, faster than {scratch.storage_class}")
        if draft.request.application.work.epochs == 1:
            return Default("shared", "one epoch reads the data once, and so would the copy")
        return Default("node-local", f"every epoch then reads from {scratch.path} of its own node")

    def apply(self, draft: Draft, value: str) -> None:
        if value == "node-local":
            draft.staging = "node-local"
            draft.settings[self.name] = value


def _rank(storage_class: str) -> int:
    return _CLASSES.index(storage_class) if storage_class in _CLASSES else 0


def _why_not(draft: Draft) -> str:
    target, nodes = draft.request.target, draft.request.resources.nodes
    if all(dataset.sources[0].kind == "on_target" for dataset in draft.request.datasets):
        return "the data is the target's own, and is read where it lies"
    if target.scratch is None or target.scratch.sharing != "node-local":
        return f"{target.name} has no node-local scratch"
    return f"the copy is made on one node, and the job has {nodes}" if nodes > 1 else ""
