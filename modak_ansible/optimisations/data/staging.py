"""Whether the job copies its data to the node's own scratch before it trains."""

from __future__ import annotations

from modak_ansible.model.quantities import format_seconds, format_size
from modak_ansible.model.target import Scheduler
from modak_ansible.optimisations.base import Default, Draft, Optimisation, Option
from modak_ansible.optimisations.data.data_costs import Data, in_image, once, to_copy
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
    after = ("pack",)
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
        if scratch.room and total > scratch.room:
            size, room = format_size(total), format_size(scratch.room)
            return Default("shared", f"the data has {size}, and {scratch.path} has room for {room}")
        if weighed := _weighed(draft):
            return weighed
        if (nodes := draft.request.resources.nodes) > 1:
            return Default("shared", f"{nodes} nodes would copy it, and how fast the storage is, nobody has said")
        if draft.request.application.work.epochs == 1:
            return Default("shared", "one epoch reads the data once, and so would the copy")
        return Default("node-local", f"every epoch then reads from {scratch.path} of its own node")

    def apply(self, draft: Draft, value: str) -> None:
        if value == "node-local":
            draft.staging = "node-local"
            draft.settings[self.name] = value


def _weighed(draft: Draft) -> Default | None:
    """The shorter way, by what was measured of the storage; None where that was not, or the files are not counted."""
    request, target = draft.request, draft.request.target
    copied = [dataset for dataset in request.datasets if dataset.sources[0].kind != "on_target"]
    data, packed = Data.of(copied, request.application.work.epochs), bool(draft.packed)
    if data is None or (packed and {each.name for each in copied} != set(draft.packed)):
        return None
    epoch = in_image if packed else once
    far, near = epoch(target.home, data), epoch(target.scratch, data)
    copy = to_copy(target.home, target.scratch, data, packed=packed)
    if far is None or near is None or copy is None:
        return None
    shared, local = data.epochs * far, copy + data.epochs * near
    told = f"{format_seconds(shared)} of reading where it lies, and {format_seconds(local)} with a copy to each node"
    return Default("node-local" if local < shared else "shared", f"{told}, as the storage was measured")


def _rank(storage_class: str) -> int:
    return _CLASSES.index(storage_class) if storage_class in _CLASSES else 0


def _why_not(draft: Draft) -> str:
    target, nodes = draft.request.target, draft.request.resources.nodes
    if all(dataset.sources[0].kind == "on_target" for dataset in draft.request.datasets):
        return "the data is the target's own, and is read where it lies"
    if target.scratch is None or target.scratch.sharing != "node-local":
        return f"{target.name} has no node-local scratch"
    if nodes > 1 and target.scheduler is not Scheduler.SLURM:
        return f"the copy is made on one node, and the job has {nodes}"
    return ""
