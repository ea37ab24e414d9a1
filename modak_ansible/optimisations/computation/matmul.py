"""Which library multiplies matrices."""

from __future__ import annotations

from modak_ansible.optimisations.base import Draft
from modak_ansible.optimisations.code import CodeOptimisation, framework_of, is_at_least
from modak_ansible.optimisations.properties import Property


class Matmul(CodeOptimisation):
    name = "matmul"
    reasons = {
        "default": "the one that the framework takes by itself",
        "onednn": "oneDNN in place of MKL, which takes slow paths on processors that are not Intel's; "
        "the process tries its error first",
    }
    properties = (Property("The library that multiplies matrices.", tuple(reasons)),)
    hooked = prepared = ("pytorch",)
    stock = ("default",)
    moves = "reassociation"

    def values(self, draft: Draft) -> tuple[str, ...]:
        return self.property_values() if framework_of(draft) == "pytorch" else ("default",)

    def why_not(self, draft: Draft, value: str) -> str:
        if value == "default":
            return ""
        if framework_of(draft) != "pytorch":
            return f"{framework_of(draft)} takes its library by itself"
        if draft.request.resources.accelerators:
            return "it is for processors"
        given = draft.request.image
        if given and given.seen and "onednn" not in given.seen.libraries:
            return "the image's PyTorch has no oneDNN"
        return "" if is_at_least(draft, "2.9") else "PyTorch can choose the library from 2.9 on"
