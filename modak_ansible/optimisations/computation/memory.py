"""Where the numbers of a training lie: in memory, or in files of the node's own disk."""

from __future__ import annotations

from modak_ansible.model.quantities import format_size
from modak_ansible.optimisations.base import Draft, Option
from modak_ansible.optimisations.code import CodeOptimisation, framework_of, is_at_least
from modak_ansible.optimisations.properties import Property

OUT_OF_CORE = "out-of-core"
# Of a parameter in float32: itself, its gradient, and the two moments of Adam.
_BYTES = 16


class Memory(CodeOptimisation):
    name = "memory"
    reasons = {
        "fits": "parameters, gradients and the optimiser's state lie in memory",
        OUT_OF_CORE: "they lie in files of the node's own disk, and the kernel keeps what there is room for",
    }
    properties = (
        Property("Whether a training's state lies in memory, or in files of the node's own disk.", tuple(reasons)),
    )
    prepared = ("pytorch",)
    stock = ("fits",)
    after = ("image", "compiler")
    moves = "same"

    def options(self, draft: Draft) -> tuple[Option, ...]:
        # no record of speed tells whether a training fits: who knows that it does not asks for it
        return super().options(draft) if self.wish(draft) else ()

    def values(self, draft: Draft) -> tuple[str, ...]:
        return self.property_values() if framework_of(draft) == "pytorch" else ()

    def why_not(self, draft: Draft, value: str) -> str:  # noqa: ARG002 - stock needs no reason
        if not is_at_least(draft, "2.1"):
            return "PyTorch tells nobody before 2.1 when a gradient is there"
        if draft.request.resources.accelerators:
            return "an accelerator's memory has no files"
        if draft.layout.processes > 1:
            return "ranks that train together exchange their gradients in memory"
        if draft.settings.get("compiler") == "inductor":
            return "a compiled model saves what it needs in a way of its own"
        return _why_no_room(draft)

    def apply(self, draft: Draft, value: str) -> None:
        super().apply(draft, value)
        draft.uses_scratch = value == OUT_OF_CORE


def _why_no_room(draft: Draft) -> str:
    parameters, scratch = draft.request.application.work.parameters, draft.request.target.scratch
    if scratch is None or scratch.sharing != "node-local" or not (scratch.room and parameters):
        return ""  # nobody knows
    if parameters * _BYTES <= scratch.room:
        return ""
    needed, room = format_size(parameters * _BYTES), format_size(scratch.room)
    return f"the state may take {needed}, and {scratch.path} has room for {room}"
