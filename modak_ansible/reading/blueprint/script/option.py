"""One option of a script."""

from __future__ import annotations

import ast
from typing import Any, NamedTuple


class Option(NamedTuple):
    names: tuple[str, ...]  # as they are declared, with their dashes
    takes_value: bool | None = None  # None where it may or may not, or that is not known
    kind: str = ""  # ``int`` or ``float``; empty for any text
    choices: tuple[Any, ...] | None = None  # the values that it may have; None where they are not known, or any may be
    is_required: bool = False  # whether the script does not start without it
    default: Any = None  # what it is where nobody gives it; None where that is not known, or nothing
    held_by: str = ""  # the name under which the script has its value; empty for that of its longest name


def literal(node: ast.expr | None) -> Any:
    """The value of a literal; None for anything else."""
    try:
        return ast.literal_eval(node) if node is not None else None
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
