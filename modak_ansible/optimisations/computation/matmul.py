"""Which library multiplies matrices."""

from __future__ import annotations

from modak_ansible.optimisations.base import Draft
from modak_ansible.optimisations.code import OnProcessors, is_at_least
from modak_ansible.optimisations.properties import Property


class Matmul(OnProcessors):
    name = "matmul"
    reasons = {
        "default": "the framework's default",
        "onednn": "oneDNN instead of MKL, which is slow on processors other than Intel's; its error is checked first",
    }
    properties = (Property("The library that multiplies matrices.", tuple(reasons)),)
    prepare_frameworks = ("pytorch",)
    stock = ("default",)
    in_other_frameworks = "chooses its library itself"

    def why_not_here(self, draft: Draft) -> str:
        image = draft.request.image
        if image and image.seen and "onednn" not in image.seen.libraries:
            return "the image's PyTorch has no oneDNN"
        return "" if is_at_least(draft, "2.9") else "PyTorch can choose the library from 2.9 on"
