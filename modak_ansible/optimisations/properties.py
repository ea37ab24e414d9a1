"""What users may say of optimisations: each declares its own, and what concerns all of them stands here.

From these declarations ``make generate`` writes the TOSCA data type, the model's class and the request's fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from modak_ansible.model.base import NUMERICS


class Property(NamedTuple):
    """One property of the data type ``modak.datatypes.Optimisation``, and field of the model's class."""

    description: str = ""  # a sentence for people
    values: tuple[str, ...] = ()  # the words that it may be besides its default
    name: str = ""  # its own, where it is not its optimisation's
    type: Literal["string", "integer", "boolean"] = "string"  # TOSCA's
    default: str | int | None = "any"  # what holds where nothing is said; None where a number is left open
    least: int | None = None  # of a number
    in_application: bool = False  # whether requests have it, too, among the fields of ``application``
    # the values that are truth values in a framework's section of requests, with a sentence each
    in_frameworks: Mapping[str, Mapping[str, str]] = {}
    in_blueprints: bool = True  # whether blueprints may say it; what they may not, commands set


OF_ALL = (
    Property(name="objective", default="time"),
    Property(
        "How far results may differ from the stock run: not at all, only by the order of sums, or freely.",
        NUMERICS[1:], "numerics", default=NUMERICS[0],
    ),
    Property(
        "Whether to try candidates that the model cannot tell apart for a few steps before the training.",
        name="autotuning", type="boolean", default=False,
    ),
    Property("Seconds of the job that tuning may take.", name="tuning_budget", type="integer", default=600, least=1),
    Property(
        "Seconds of the job in which a stock run and the plan's choice take turns at a few steps, for"
        " their ratio; if stock is faster, stock trains.",
        name="compare_with_stock", type="integer", default=0, least=0,
    ),
    Property(
        "Whether the job ends when it is tuned.", name="only_tune", type="boolean", default=False, in_blueprints=False
    ),
    Property(
        "Whether a setting that cannot be honoured is an error; by default the plan leaves it out, with a note.",
        name="strict", type="boolean", default=False,
    ),
)  # fmt: skip
