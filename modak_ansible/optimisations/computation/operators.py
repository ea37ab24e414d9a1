"""Which of PyTorch's operators are ours, in the builds that carry some."""

from __future__ import annotations

from modak_ansible.optimisations.base import Default, Draft, Optimisation, Option
from modak_ansible.optimisations.properties import Property

# What MODAK_OPERATORS tells the library when it is loaded.
_VARIABLE = "MODAK_OPERATORS"
_NAMED = {"exact": "pooling,random", "none": "none"}


class Operators(Optimisation):
    name = "operators"
    properties = (
        Property(
            "Which of the image's own operators replace the framework's; exact are those that keep every bit.",
            ("all", "exact", "none"),
        ),
    )
    suite_default = "any"  # not every image has some
    stock = ("all",)
    after = ("image",)
    acts_on = "environment"

    def options(self, draft: Draft) -> tuple[Option, ...]:
        if draft.entry is None or "operators" not in draft.entry.libraries:
            return ()
        return (
            Option("all", "pooling, dropout's numbers and convolutions, as the image has them", "any"),
            Option("exact", "pooling and dropout's numbers, which are PyTorch's own bit for bit"),
            Option("none", "the framework's own"),
        )

    def default(self, draft: Draft) -> Default | None:
        if draft.request.optimisation.numerics == "any":
            return None
        return Default("exact", "where an image is constant, the convolutions' gradients differ by more than rounding")

    def apply(self, draft: Draft, value: str) -> None:
        if value in _NAMED:
            draft.environment[_VARIABLE] = _NAMED[value]
            draft.settings[self.name] = value
