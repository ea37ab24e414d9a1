"""Whether the job copies its data to the node's own scratch before it trains: all of it, or each node its part."""

from __future__ import annotations

from math import ceil
from typing import Literal

from modak_ansible.model.dataset import SHARDS
from modak_ansible.model.quantities import format_seconds, format_size
from modak_ansible.model.target import Scheduler
from modak_ansible.optimisations.base import Default, Draft, Optimisation, Option
from modak_ansible.optimisations.data.data_costs import Data, all_epochs, copying_seconds
from modak_ansible.optimisations.properties import Property

# Larger data would spend a noticeable part of a short job on the copy, and may not fit.
LARGEST = 50 * 10**9
# From the slowest to the fastest.
_CLASSES = ("default-common", "default-high", "default-ssd", "default-ultra_high")
_SHARED: Literal["shared"] = "shared"
_LOCAL: Literal["node-local"] = "node-local"
_BY_NODE: Literal["by-node"] = "by-node"


class Staging(Optimisation):
    name = "staging"
    properties = (
        Property(
            "Whether the job copies the data to its node's own scratch first; by-node: each of "
            "several nodes copies the shards that its own ranks read.",
            (_SHARED, _LOCAL, _BY_NODE),
        ),
    )
    suite_default = "shared"
    stock = ("shared",)
    is_switch = False
    after = ("pack",)
    acts_on = "job"

    def options(self, draft: Draft) -> tuple[Option, ...]:
        if draft.request.dataset is None:
            return ()
        shared = Option(_SHARED, "the data is read in place, through the shared file system")
        scratch = draft.request.target.scratch
        reason = f"every epoch then reads from {scratch.path} of its own node" if scratch else ""
        options = (shared, Option(_LOCAL, reason, why_not=_why_not(draft)))
        if draft.request.resources.nodes == 1 and self.requested(draft) != _BY_NODE:
            return options
        reason = "each node copies the shards that its own ranks read, and reads the others in place"
        return (*options, Option(_BY_NODE, reason, why_not=_why_not_by_node(draft)))

    def requested(self, draft: Draft) -> str:
        value = super().requested(draft)
        return "" if value == _SHARED and draft.request.dataset is None else value

    def default(self, draft: Draft) -> Default | None:
        dataset, scratch = draft.request.dataset, draft.request.target.scratch
        why_not = _why_not(draft)
        if why_not or dataset is None or scratch is None:
            return Default(_SHARED, why_not)
        way, nodes = _way(draft), draft.request.resources.nodes
        total = ceil((draft.request.data_bytes or 0) / (nodes if way == _BY_NODE else 1))
        amount = f"{'each node has' if way == _BY_NODE else 'the data has'} {format_size(total)}"
        if total > LARGEST:
            return Default(_SHARED, f"{amount}, more than the {format_size(LARGEST)} that are copied for one job")
        home = draft.request.target.home
        if home is not None and _storage_rank(home.storage_class) > _storage_rank(scratch.storage_class):
            return Default(_SHARED, f"the data is on {home.storage_class}, faster than {scratch.storage_class}")
        if scratch.room and total > scratch.room:
            return Default(_SHARED, f"{amount}, and {scratch.path} has room for {format_size(scratch.room)}")
        if times := _times(draft):
            best = min((_SHARED, way), key=lambda staging: times[staging])
            local = f"{format_seconds(times[way])} with {_COPIES[way]}"
            comparison = f"{format_seconds(times[_SHARED])} of reading in place, and {local}"
            return Default(best, f"{comparison}, as the storage was measured")
        if nodes > 1 and way == _LOCAL:
            return Default(_SHARED, f"{nodes} nodes would copy it, and how fast the storage is is not known")
        if draft.request.application.work.epochs == 1:
            return Default(_SHARED, "one epoch reads the data once, and so would the copy")
        if way == _BY_NODE:
            return Default(_BY_NODE, f"{_shares(draft)}, so that each node copies one part of {nodes}")
        return Default(_LOCAL, f"every epoch then reads from {scratch.path} of its own node")

    def why_other(self, other: str, taken: str, draft: Draft) -> str:
        times = _times(draft)
        if other == _BY_NODE and not _shares(draft):
            return "nothing in the script's source shares files out between ranks, and each node would need all of them"
        if times and other in times and taken in times:
            return f"{format_seconds(times[other])}, and {format_seconds(times[taken])} for {taken}"
        return ""

    def apply(self, draft: Draft, value: str) -> None:
        if value != _SHARED:
            draft.staging = _LOCAL if value == _LOCAL else _BY_NODE
            draft.settings[self.name] = value


_COPIES = {_LOCAL: "a copy to each node", _BY_NODE: "each node's part copied to it"}


def _way(draft: Draft) -> str:
    """The copy that is thought of: of each node's part where its ranks read nothing else, or of all."""
    return _BY_NODE if _shares(draft) and not _why_not_by_node(draft) else _LOCAL


def _shares(draft: Draft) -> str:
    """What in the script's source has each rank read files of its own; empty where nothing is found."""
    parallelism = draft.request.parallelism
    return f"its ranks share files out ({parallelism.shares})" if parallelism and parallelism.shares else ""


def _times(draft: Draft) -> dict[str, float]:
    """Seconds of all epochs by each way, by what was measured of the storage; none where that was not, or the files
    are not counted."""
    request, target = draft.request, draft.request.target
    datasets = [dataset for dataset in request.datasets if dataset.sources[0].kind != "on_target"]
    data, is_packed = Data.of(datasets, request.application.work.epochs, draft.node_memory), bool(draft.packed)
    if data is None or (is_packed and {dataset.name for dataset in datasets} != set(draft.packed)):
        return {}
    part = data.part(request.resources.nodes) if _shares(draft) else data
    shared_seconds, local_seconds = (
        all_epochs(target.home, part, packed=is_packed),
        all_epochs(target.scratch, part, packed=is_packed),
    )
    whole_or_part = {_LOCAL: data, _BY_NODE: part}
    copies = {
        way: copying_seconds(target.home, target.scratch, copied_data, packed=is_packed)
        for way, copied_data in whole_or_part.items()
    }
    if shared_seconds is None or local_seconds is None:
        return {}
    totals = {way: copy + local_seconds for way, copy in copies.items() if copy is not None}
    return {_SHARED: shared_seconds, **totals} if totals else {}


def _storage_rank(storage_class: str) -> int:
    return _CLASSES.index(storage_class) if storage_class in _CLASSES else 0


def _why_not(draft: Draft) -> str:
    target, nodes = draft.request.target, draft.request.resources.nodes
    if all(dataset.sources[0].kind == "on_target" for dataset in draft.request.datasets):
        return "the data is already on the target and is read in place"
    if target.scratch is None or target.scratch.sharing != "node-local":
        return f"{target.name} has no node-local scratch"
    if nodes > 1 and target.scheduler is not Scheduler.SLURM:
        return f"the copy is made on one node, and the job has {nodes}"
    if draft.request.job_options.components:
        return "sbcast sends to one component of a heterogeneous job"
    return ""


def _why_not_by_node(draft: Draft) -> str:
    """Why nodes cannot each bring a part; whether their ranks read no other is the script's matter."""
    if why_not := _why_not(draft):
        return why_not
    if draft.request.resources.nodes == 1:
        return "the job has one node, which reads all of it"
    shards = [dataset for dataset in draft.request.datasets if dataset.is_shards and dataset.name not in draft.packed]
    if not shards:
        return f"its files are not shards, which need format: {', '.join(SHARDS)}"
    ranks = draft.layout.processes
    scarce = next((shard for shard in shards if shard.pack != "shards" and shard.files and shard.files < ranks), None)
    return f"{scarce.name} has {scarce.files} shards, and the job {ranks} ranks" if scarce else ""
