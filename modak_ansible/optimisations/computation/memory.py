"""Where the numbers of a training lie: in memory, or in files; or what is only made again when it is needed."""

from __future__ import annotations

from collections.abc import Iterator

from modak_ansible.allocation.memory import Limit, limit_of
from modak_ansible.allocation.ranks import ranks_of
from modak_ansible.model.distributed import Distributed, meshes
from modak_ansible.model.measured.need import format_peak, peak_of
from modak_ansible.model.measured.prediction import Interval
from modak_ansible.model.plan import PlannedMemory
from modak_ansible.model.quantities import format_size
from modak_ansible.optimisations.base import CannotPlan, Default, Draft, Option
from modak_ansible.optimisations.code import CodeOptimisation, framework_of, is_at_least
from modak_ansible.optimisations.properties import Property

FITS, RECOMPUTED, OUT_OF_CORE = "fits", "recomputed", "out-of-core"
# Of a parameter in float32: itself, its gradient, and the two moments of Adam.
_BYTES = 16
_MOST_RANKS = 64  # that are tried in search of a cure


class Memory(CodeOptimisation):
    name = "memory"
    reasons = {
        FITS: "parameters, gradients and the optimiser's state are in memory",
        RECOMPUTED: "repeated blocks keep what goes into them alone, and compute the rest again for the backward pass",
        OUT_OF_CORE: "they are in files on the node's own disk, and the kernel caches what fits",
    }
    properties = (
        Property("Whether a training's state is kept in memory, recomputed, or kept in files.", tuple(reasons)),
    )
    prepare_frameworks = ("pytorch",)
    needs_whole_model = True
    stock = (FITS,)
    after = ("image", "compiler", "batch_size")
    numerics = "same"

    def options(self, draft: Draft) -> tuple[Option, ...]:
        """
        Raises:
            CannotPlan: by its trace the training fits in no way.
        """
        wish = self.wish(draft)
        if not wish and (draft.request.need is None or _limit(draft) is None):
            return ()  # no record of speed tells whether a training fits: who knows that it does not asks for it
        options = super().options(draft)
        if not wish and options and not any(_fits(draft, option.value) and not option.why_not for option in options):
            raise _does_not_fit(draft, options)
        return options

    def default(self, draft: Draft) -> Default | None:
        limit = _limit(draft)
        if self.wish(draft) or draft.request.need is None or limit is None:
            return None
        value = next(
            option.value for option in super().options(draft) if _fits(draft, option.value) and not option.why_not
        )
        prefix = "" if value == FITS else f"{_format_need(draft, FITS)} otherwise, and "
        return Default(value, f"{prefix}{_format_need(draft, value)} of {_format_limit(limit)}")

    def why_other(self, other: str, taken: str, draft: Draft) -> str:
        if draft.request.need is None or _limit(draft) is None:
            return ""
        return f"it needs {_format_need(draft, other)}" if taken != FITS else "it fits in memory without it"

    def values(self, draft: Draft) -> tuple[str, ...]:
        return self.property_values() if framework_of(draft) == "pytorch" else ()

    def why_not(self, draft: Draft, value: str) -> str:
        need = draft.request.need
        if draft.settings.get("compiler") == "inductor":
            return "a compiled model decides by itself what it saves"
        if value == RECOMPUTED:
            return "the model has no repeated blocks to compute again" if need and not need.blocks else ""
        if not is_at_least(draft, "2.1"):
            return "PyTorch before 2.1 does not report when a gradient is ready"
        if draft.request.resources.accelerators:
            return "an accelerator's memory cannot be kept in files"
        if draft.layout.processes > 1:
            return "parallel ranks exchange their gradients in memory"
        return _why_no_room(draft)

    def apply(self, draft: Draft, value: str) -> None:
        super().apply(draft, value)
        draft.uses_scratch = value == OUT_OF_CORE


def planned_memory(draft: Draft) -> PlannedMemory | None:
    """What a process of the job takes; None where nobody has traced the script."""
    if draft.request.need is None:
        return None
    limit, peak = _limit(draft), _peak(draft, draft.settings.get("memory", FITS))
    rounded_peak = Interval(middle=round(peak.middle), low=round(peak.low), high=round(peak.high))
    return PlannedMemory(peak=rounded_peak, limit=limit.bytes if limit else None, of=limit.reason if limit else "")


def _limit(draft: Draft) -> Limit | None:
    return limit_of(draft.request, draft.partition, draft.layout)


def _peak(draft: Draft, value: str, ranks: int = 0, strategy: str = "") -> Interval:
    need = draft.request.need
    assert need is not None  # noqa: S101 - whoever asks has looked
    planned_ranks = ranks_of(draft.request, draft.layout)
    rank_strategy = strategy or (planned_ranks.strategy if planned_ranks else "none")
    batch = draft.settings.get("batch_size")
    return peak_of(need, ranks or draft.layout.processes, rank_strategy, value, int(batch) if batch else None)


def _fits(draft: Draft, value: str) -> bool:
    limit = _limit(draft)
    return limit is None or _peak(draft, value).high <= limit.bytes


def _format_need(draft: Draft, value: str) -> str:
    return format_peak(_peak(draft, value))


def _format_limit(limit: Limit) -> str:
    return f"{format_size(limit.bytes)}, {limit.reason}"


def _does_not_fit(draft: Draft, options: tuple[Option, ...]) -> CannotPlan:
    limit = _limit(draft)
    assert limit is not None  # noqa: S101 - whoever asks has looked
    ways = "; ".join(f"{option.value}: {option.why_not or _format_need(draft, option.value)}" for option in options)
    ranks = ranks_of(draft.request, draft.layout)
    ways += "".join(f"; {strategy}: {reason}" for strategy, reason in ranks.rejected) if ranks else ""
    message = f"a process has {_format_limit(limit)}, and by its trace the training needs more: {ways}"
    return CannotPlan("resources.memory", message, "; or ".join(_cures(draft, limit)))


def _cures(draft: Draft, limit: Limit) -> Iterator[str]:
    """What would let it fit."""
    request, per_node = draft.request, draft.layout.processes_per_node
    needed_bytes = _peak(draft, FITS).high * per_node
    node_memory = request.target.memory_in(draft.partition)
    is_of_node = not (request.resources.accelerators and request.target.accelerator.memory)
    if is_of_node and (node_memory is None or needed_bytes <= node_memory):
        yield f"ask for {format_size(round(needed_bytes))} a node"
    if request.application.prepares:
        distributed = request.application.distributed
        if (
            distributed
            and distributed.strategy == "ddp"
            and _peak(draft, FITS, draft.layout.processes, "fsdp").high <= limit.bytes
        ):
            yield "distributed: { strategy: fsdp }"
        for ranks in (2**power for power in range(1, _MOST_RANKS.bit_length())):
            fits = any(_peak(draft, FITS, ranks, name).high <= limit.bytes for name in _mesh_names(distributed, ranks))
            if fits and ranks > draft.layout.processes:
                yield f"spread the batch over nodes: {-(-ranks // per_node)}"
                break
    yield "take a smaller batch or a target with more memory"


def _mesh_names(distributed: Distributed | None, ranks: int) -> list[str]:
    """The meshes of so many ranks that a user leaves to the plan, by their names."""
    if distributed is None or distributed.strategy == "auto":
        return [mesh.name for mesh in meshes(ranks)]
    asked_mesh = distributed.mesh(ranks)
    return [asked_mesh.name] if asked_mesh else []


def _why_no_room(draft: Draft) -> str:
    parameters, scratch = draft.request.application.work.parameters, draft.request.target.scratch
    if scratch is None or scratch.sharing != "node-local" or not (scratch.room and parameters):
        return ""  # nobody knows
    if parameters * _BYTES <= scratch.room:
        return ""
    needed, room = format_size(parameters * _BYTES), format_size(scratch.room)
    return f"the state may take {needed}, and {scratch.path} has room for {room}"
