"""One option of a script."""

from __future__ import annotations

import ast
import re
from typing import Any, NamedTuple

# Those by which scripts are told how many epochs they train, with _ for -.
EPOCHS = ("epochs", "num_epochs", "n_epochs", "max_epochs", "num_train_epochs")
# Sections in which files of configuration have such options, as hydra's and Lightning's do.
_SECTION = re.compile(r"^(trainer|train|training)\.")


class Option(NamedTuple):
    names: tuple[str, ...]  # as they are declared, with their dashes
    takes_value: bool | None = None  # None where it may or may not, or that is not known
    kind: str = ""  # ``int`` or ``float``; empty for any text
    choices: tuple[Any, ...] | None = None  # the values that it may have; None where they are not known, or any may be
    is_required: bool = False  # whether the script does not start without it
    default: Any = None  # what it is where nobody gives it; None where that is not known, or nothing
    held_by: str = ""  # the name under which the script has its value; empty for that of its longest name
    keeps_last: bool = False  # whether of several that are given only the last one counts, for certain
    nargs: Any = None  # how many values one takes, as argparse has it; None for a single one

    @property
    def longest(self) -> str:
        """The name by which it is given, without dashes."""
        return max(self.names, key=len).lstrip("-")

    @property
    def plain_names(self) -> frozenset[str]:
        """Its names as a script's variables have them: without dashes before, and with _ for -."""
        names = {*self.names, self.held_by} - {""}
        return frozenset(name.lstrip("-").replace("-", "_") for name in names)


def literal(node: ast.expr | None) -> Any:
    """The value of a literal; None for anything else."""
    try:
        return ast.literal_eval(node) if node is not None else None
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


def plain_name(name: str) -> str:
    """An option's name as scripts have it, of whatever section of a configuration that says how they train: with _ for
    -, and without what has hydra add it."""
    return _SECTION.sub("", name.lstrip("+").replace("-", "_"))


def whole_number(value: object) -> int | None:
    """The whole number that an option is, be it written as 3.0; None for anything else."""
    match = re.fullmatch(r"(\d{1,18})(\.0*)?", str(value), re.ASCII)
    return int(match[1]) if match else None
