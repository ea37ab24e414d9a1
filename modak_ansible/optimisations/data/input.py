"""How a step gets its samples."""

from __future__ import annotations

from modak_ansible.optimisations.base import Default, Draft
from modak_ansible.optimisations.code import CodeOptimisation, framework_of, switch_of
from modak_ansible.optimisations.properties import Property

# Samples that are kept have to fit beside the network; a quarter of the node's memory leaves it room.
_SHARE = 0.25


class Input(CodeOptimisation):
    name = "input"
    properties = (
        Property(
            "How a step gets its samples; stock is the script's own way, memory keeps them after the first epoch.",
            ("stock", "memory"),
        ),
    )
    hook_frameworks = ("keras", "tensorflow")
    prepare_frameworks = ("pytorch",)
    stock = ("memory",)
    stock_of = {"pytorch": ("loader",)}  # as its own examples read
    numerics = "same"
    reasons = {
        "stock": "the script's own way",
        "memory": "samples are kept in memory, the same to the bit",
        "loader": "a loader makes every batch of single samples",
        "stream": "samples are read and decoded as they are needed",
        "tfdata": "tf.data makes the batches",
    }

    def askable_values(self, draft: Draft) -> tuple[str, ...]:
        return () if switch_of(draft, self.name) else self.property_values()

    def values(self, draft: Draft) -> tuple[str, ...]:
        return self.property_values() if framework_of(draft) in ("pytorch", "tensorflow", "keras") else ("stock",)

    def requested(self, draft: Draft) -> str:
        value, switch_values = super().requested(draft), switch_of(draft, self.name)
        return switch_values[0] if switch_values and value == "stock" else value

    def default(self, draft: Draft) -> Default | None:
        """Where the script has them in memory by itself: a loader is more work, whatever records promise."""
        switch_values = switch_of(draft, self.name)
        if switch_values[:1] != ("memory",) or "loader" not in switch_values or self.why_not(draft, "memory"):
            return None
        return Default("memory", "the script's own way; a loader would only add to each step")

    def why_not(self, draft: Draft, value: str) -> str:
        if value != "memory":
            return ""
        needed_bytes, node_memory = _bytes(draft), draft.node_memory
        processes = draft.layout.processes_per_node  # in any order: each process comes to keep all
        if needed_bytes and node_memory and needed_bytes * processes > _SHARE * node_memory:
            of_processes = f" of {processes} processes" if processes > 1 else ""
            return f"the samples{of_processes} are more than a quarter of the node's memory"
        return ""


def _bytes(draft: Draft) -> int | None:
    work = draft.request.application.work
    if work.samples and work.sample_bytes:
        return work.samples * work.sample_bytes
    return draft.request.data_bytes
