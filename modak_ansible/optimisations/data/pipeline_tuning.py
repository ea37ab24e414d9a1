"""Whether tf.data tunes itself while Keras's fit takes its batches from arrays."""

from __future__ import annotations

from modak_ansible.optimisations.base import Draft
from modak_ansible.optimisations.code import CodeOptimisation, framework_of
from modak_ansible.optimisations.properties import Property


class PipelineTuning(CodeOptimisation):
    name = "pipeline_tuning"
    reasons = {
        "stock": "tf.data measures its pipeline and sets its threads and buffers anew while it runs",
        "off": "batches of arrays are cut without that; a step does not wait for its clock",
    }
    properties = (
        Property("Whether tf.data tunes itself while Keras's fit takes its batches from arrays.", tuple(reasons)),
    )
    suite_default = "any"  # nothing is open in other frameworks
    hooked = ("keras", "tensorflow")
    stock = ("stock",)
    moves = "same"

    def values(self, draft: Draft) -> tuple[str, ...]:
        return self.property_values() if framework_of(draft) in ("tensorflow", "keras") else ()

    def why_not(self, draft: Draft, value: str) -> str:
        if (
            value == "off"
            and draft.entry
            and draft.entry.environment.get("KERAS_BACKEND", "tensorflow") != "tensorflow"
        ):
            return f"Keras on {draft.entry.environment['KERAS_BACKEND']} takes its batches without tf.data"
        return ""
