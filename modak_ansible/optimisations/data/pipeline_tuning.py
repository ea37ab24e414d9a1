"""Whether tf.data tunes itself while Keras's fit takes its batches from arrays."""

from __future__ import annotations

from modak_ansible.optimisations.base import Default, Draft
from modak_ansible.optimisations.code import CodeOptimisation, framework_of, is_at_least
from modak_ansible.optimisations.properties import Property


class PipelineTuning(CodeOptimisation):
    name = "pipeline_tuning"
    reasons = {
        "stock": "tf.data measures its pipeline and sets its threads and buffers anew while it runs",
        "off": "batches of arrays are cut without that; no epoch waits until it looks again",
    }
    properties = (
        Property("Whether tf.data tunes itself while Keras's fit takes its batches from arrays.", tuple(reasons)),
    )
    suite_default = "stock"
    hook_frameworks = ("keras", "tensorflow")
    stock = ("stock",)
    after = ("image", "step_loop")
    numerics = "same"

    def values(self, draft: Draft) -> tuple[str, ...]:
        fits = framework_of(draft) in ("tensorflow", "keras") and draft.settings.get("step_loop") != "whole"
        return self.property_values() if fits else ()

    def why_not(self, draft: Draft, value: str) -> str:
        if (
            value == "off"
            and draft.entry
            and draft.entry.environment.get("KERAS_BACKEND", "tensorflow") != "tensorflow"
        ):
            return f"Keras on {draft.entry.environment['KERAS_BACKEND']} takes its batches without tf.data"
        return ""

    def default(self, draft: Draft) -> Default | None:
        is_of_keras_3 = is_at_least(draft, "2.16" if framework_of(draft) == "tensorflow" else "3")
        if not is_of_keras_3 or draft.request.resources.accelerators or not self.can_be(draft, "off"):
            return None
        return Default("off", f"{self.reasons['off']}, and none was slower")
