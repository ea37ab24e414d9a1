"""In which number format the network computes."""

from __future__ import annotations

import archspec.cpu

from modak_ansible.optimisations.base import Default, Draft
from modak_ansible.optimisations.code import CodeOptimisation, fills_accelerator, framework_of, is_at_least, switch_of
from modak_ansible.optimisations.properties import Property

# What archspec calls units that multiply in bf16.
_BF16 = {"avx512_bf16", "amx_bf16", "bf16", "svebf16"}
_SINCE = {"pytorch": "1.10", "tensorflow": "2.4", "keras": "3", "jax": "0.4"}


class Precision(CodeOptimisation):
    name = "precision"
    reasons = {
        "fp32": "single precision",
        "tf32": "products of 10 bits on NVIDIA's tensor cores, sums in single precision",
        "bf16": "8 bits of mantissa where the network tolerates it, and half the memory",
        "fp16": "11 bits of mantissa and a small range, with scaled losses",
    }
    properties = (Property("The number format; formats other than fp32 need numerics any.", tuple(reasons)),)
    hook_frameworks = ("keras", "tensorflow")
    prepare_frameworks = ("pytorch",)
    stock = ("fp32",)
    numerics = "any"

    def values(self, draft: Draft) -> tuple[str, ...]:  # noqa: ARG002 - the same for all
        return self.property_values()

    def default(self, draft: Draft) -> Default | None:
        if draft.request.optimisation.numerics != "any" or not fills_accelerator(draft, self, "bf16"):
            return None
        reason = "on an H100 networks with steps of teraflops trained 1.2 to 4.9 times faster"
        return Default("bf16", f"{self.reasons['bf16']}; {reason}")

    def why_not(self, draft: Draft, value: str) -> str:
        if value == "fp32":
            return ""
        framework = framework_of(draft)
        if framework not in _SINCE or (draft.entry and not is_at_least(draft, _SINCE[framework])):
            return f"{framework} {draft.entry.version if draft.entry else ''}".rstrip() + " has only fp32"
        if value == "fp16" and not switch_of(draft, self.name):
            return "its losses have to be scaled, which only the script itself can do"
        nvidia = draft.request.resources.accelerators and draft.request.target.accelerator.vendor in ("nvidia", None)
        if value in ("tf32", "fp16"):
            return "" if nvidia else "it needs an NVIDIA accelerator"
        return "" if draft.request.resources.accelerators else _why_no_bf16(draft)


def _why_no_bf16(draft: Draft) -> str:
    processor = draft.request.target.processor
    microarchitecture = archspec.cpu.TARGETS.get(processor.architecture)
    if _BF16 & {*processor.features, *(microarchitecture.features if microarchitecture else ())}:
        return ""
    if microarchitecture is None or microarchitecture.vendor == "generic":
        return (
            f"{processor.architecture} does not say whether the processor has bf16; "
            "name its architecture, such as zen5, or its features"
        )
    return f"{processor.architecture} has no bf16, and would emulate it slowly"
