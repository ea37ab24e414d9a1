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
    hooked = ("keras", "tensorflow")
    prepared = ("pytorch",)
    stock = ("memory",)
    stock_of = {"pytorch": ("loader",)}  # as its own examples read
    moves = "same"
    reasons = {
        "stock": "the script's own way",
        "memory": "samples are kept in memory, the same to the bit",
        "loader": "a loader makes every batch of single samples",
        "stream": "samples are read and decoded as they are needed",
        "tfdata": "tf.data makes the batches",
    }

    def known(self, draft: Draft) -> tuple[str, ...]:
        return () if switch_of(draft, self.name) else self.property_values()

    def values(self, draft: Draft) -> tuple[str, ...]:
        return self.property_values() if framework_of(draft) in ("pytorch", "tensorflow", "keras") else ("stock",)

    def wish(self, draft: Draft) -> str:
        wanted, own = super().wish(draft), switch_of(draft, self.name)
        return own[0] if own and wanted == "stock" else wanted

    def default(self, draft: Draft) -> Default | None:
        """Where the script has them in memory by itself: a loader is more work, whatever records promise."""
        own = switch_of(draft, self.name)
        if own[:1] != ("memory",) or "loader" not in own or self.why_not(draft, "memory"):
            return None
        return Default("memory", "the script's own way; a loader would only add to each step")

    def why_not(self, draft: Draft, value: str) -> str:
        if value != "memory":
            return ""
        needed, there = _bytes(draft), draft.node_memory
        each = draft.layout.processes_per_node  # in any order: each process comes to keep all
        if needed and there and needed * each > _SHARE * there:
            several = f" of {each} processes" if each > 1 else ""
            return f"the samples{several} are more than a quarter of the node's memory"
        return ""


def _bytes(draft: Draft) -> int | None:
    work = draft.request.application.work
    if work.samples and work.sample_bytes:
        return work.samples * work.sample_bytes
    return draft.request.data_bytes
