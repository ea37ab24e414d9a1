"""How many samples a step has, where another number than the script's is permitted."""

from __future__ import annotations

from modak_ansible.optimisations.base import CannotPlan, Draft, Option
from modak_ansible.optimisations.code import CodeOptimisation
from modak_ansible.optimisations.properties import Property

_FACTORS = (2, 4)
STOCK = "keep"
_ARGUMENTS = ("batch-size", "batch_size")


class BatchSize(CodeOptimisation):
    name = "batch_size"
    properties = (
        Property(
            "Whether the planner may choose another batch size, which changes the training.", ("any",), default=STOCK
        ),
    )
    prepare_frameworks = ("pytorch",)
    stock = (STOCK,)
    is_switch = False
    numerics = "any"
    reasons = {STOCK: "the script's own"}

    def requested(self, draft: Draft) -> str:  # noqa: ARG002 - keep is stock, and any leaves the choice
        return ""

    def options(self, draft: Draft) -> tuple[Option, ...]:
        optimisation = draft.request.optimisation
        batch = draft.request.application.work.batch_size
        if optimisation.batch_size != "any":
            return (Option(STOCK, "another batch size changes the training; batch_size: any permits it"),)
        if optimisation.numerics != "any":
            raise CannotPlan(
                "optimisation.batch_size",
                f"another batch size changes results, and numerics: {optimisation.numerics} is asked for",
                "numerics: any permits it, or batch_size: keep", optional=True,
            )  # fmt: skip
        if batch is None:
            return (Option(STOCK, "the script's own batch size is not known: set work: { batch_size: N }"),)
        why_not = "" if argument_name(draft) else self.why_out_of_reach(draft)
        larger = [
            Option(
                str(batch * factor), "fewer and larger steps; the learning rate may need another value", "any", why_not
            )
            for factor in _FACTORS
        ]
        return (Option(STOCK, self.reasons[STOCK]), *larger, *self._accumulation_options(draft, batch))

    def _accumulation_options(self, draft: Draft, batch: int) -> tuple[Option, ...]:
        """The same gradient from two halves, for less memory."""
        if batch % 2:
            return ()
        why_not = self.why_out_of_reach(draft, "accumulation")
        if self.way_to(draft, "accumulation") != "prepare" and not why_not:
            why_not = "only prepare accumulates gradients"
        return (Option(f"{batch // 2}x2", "two halves of a batch make one gradient, in less memory", "any", why_not),)

    def apply(self, draft: Draft, value: str) -> None:
        if value == STOCK:
            return
        batch, _, halves = value.partition("x")
        draft.settings[self.name] = batch
        if halves:
            draft.settings["accumulation"] = draft.choices["accumulation"] = halves
            draft.choices[self.name] = batch
        elif argument_name(draft):
            draft.options[argument_name(draft)] = batch
        else:
            draft.choices[self.name] = batch

    def values(self, draft: Draft) -> tuple[str, ...]:  # noqa: ARG002 - numbers, which options() finds
        return (STOCK,)


def argument_name(draft: Draft) -> str:
    """The user's own argument that holds the batch size; empty where there is none."""
    names = [name for name, _ in draft.request.application.arguments if name in _ARGUMENTS]
    return names[-1] if names else ""
