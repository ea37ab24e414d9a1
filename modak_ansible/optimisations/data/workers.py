"""How many processes read samples."""

from __future__ import annotations

from modak_ansible.optimisations.base import Draft, Option
from modak_ansible.optimisations.code import CodeOptimisation, framework_of, switch_of
from modak_ansible.optimisations.properties import Property


class Workers(CodeOptimisation):
    name = "workers"
    properties = (
        Property(
            "Processes that read samples; by default the script's own number.", type="integer", default=None, least=0
        ),
    )
    prepare_frameworks = ("pytorch",)
    stock = ("stock",)
    after = ("image", "input")
    numerics = "same"
    reasons = {"stock": "as many as the script starts"}

    def options(self, draft: Draft) -> tuple[Option, ...]:
        if switch_of(draft, self.name):
            return super().options(draft)
        worker_count, cores = draft.request.optimisation.workers, draft.layout.cores or 1
        if framework_of(draft) != "pytorch" and worker_count is None:
            return ()
        why_not = self.why_out_of_reach(draft)
        if not why_not and draft.settings.get("input") == "memory" and worker_count is None:
            why_not = "samples kept in memory need no process to read them"
        # a worker beside a process of one core would only take time from it
        numbers = {worker_count} if worker_count is not None else {cores // 2, cores - 1} - {0}
        options = [
            Option(str(number), "other processes make the batches while this one trains", "same", why_not)
            for number in sorted(number for number in numbers if number is not None)
        ]
        return (Option("stock", self.reasons["stock"]), *options)

    def values(self, draft: Draft) -> tuple[str, ...]:  # noqa: ARG002 - a number is no word
        return ("stock",)
