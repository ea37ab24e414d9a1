"""What a step is made of."""

from __future__ import annotations

from modak_ansible.optimisations.base import Draft
from modak_ansible.optimisations.code import CodeOptimisation, framework_of


class StepLoop(CodeOptimisation):
    name = "step_loop"
    stock = ("plain",)
    after = ("image", "compiler")
    numerics = "reassociation"
    reasons = {
        "plain": "the framework's usual loop",
        "whole": "the step with its optimiser is one function, and many steps are one call",
    }

    def values(self, draft: Draft) -> tuple[str, ...]:  # noqa: ARG002 - it is the script's own matter
        return ()

    def why_not(self, draft: Draft, value: str) -> str:
        if value == "whole" and framework_of(draft) == "pytorch" and draft.settings.get("compiler") != "inductor":
            return "it is compiled, and needs the compiler inductor"
        return ""
