"""In which order images lie in memory."""

from __future__ import annotations

from modak_ansible.optimisations.base import Draft
from modak_ansible.optimisations.code import CodeOptimisation, framework_of, is_at_least
from modak_ansible.optimisations.properties import Property

_LAST = "channels_last"


class MemoryFormat(CodeOptimisation):
    name = "memory_format"
    reasons = {
        "contiguous": "channels first, as PyTorch has it",
        _LAST: "the order in which convolutions on processors are fastest; saves the reordering around each",
    }
    properties = (Property("The order in which images lie in memory.", tuple(reasons)),)
    prepared = ("pytorch",)
    needs_whole_model = True
    stock = ("contiguous", "default")
    stock_of = dict.fromkeys(("jax", "tensorflow", "keras"), (_LAST, "default"))
    moves = "reassociation"

    def values(self, draft: Draft) -> tuple[str, ...]:
        framework = framework_of(draft)
        if framework in ("tensorflow", "keras"):
            return (_LAST, "contiguous")
        return self.property_values() if framework in ("pytorch", "mxnet", "cntk") else ()

    def why_not(self, draft: Draft, value: str) -> str:
        framework = framework_of(draft)
        if framework in ("tensorflow", "keras") and value != _LAST:
            return f"{framework} computes with the channels last on processors"
        if framework in ("mxnet", "cntk") and value == _LAST:
            return f"{framework} has it not on processors"
        if framework == "pytorch" and not is_at_least(draft, "1.5"):
            return "PyTorch has it from 1.5 on"
        return ""
