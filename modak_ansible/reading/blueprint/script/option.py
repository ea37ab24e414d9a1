"""One option of a script."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Option:
    """An option of a script.

    Attributes:
        names: as they are declared, with their dashes.
        takes_value: None where it may or may not, or that is not known.
        kind: ``int`` or ``float``; empty for any text.
        choices: the values that it may have; None where they are not known, or any may be.
        is_required: whether the script does not start without it.
        default: what it is where nobody gives it; None where that is not known, or nothing.
        held_by: the name under which the script has its value; empty for that of its longest name.
    """

    names: tuple[str, ...]
    takes_value: bool | None = None
    kind: str = ""
    choices: tuple[Any, ...] | None = None
    is_required: bool = False
    default: Any = None
    held_by: str = ""


def literal(node: ast.expr | None) -> Any:
    """The value of a literal; None for anything else."""
    try:
        return ast.literal_eval(node) if node is not None else None
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
