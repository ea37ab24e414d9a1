"""A connection that drops is made again; whatever runs on the target runs on meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from modak_ansible.errors import TargetUnreachable

# Seconds between attempts: about two minutes in all.
_PAUSES = (1, 2, 5, 10, 20, 30, 60)
# An attempt that went well for so many seconds, as that of a long transfer, is followed by all pauses again.
_WENT_WELL = 300.0

Result = TypeVar("Result")


def patiently(
    attempt: Callable[[], Result],
    broken: type[Exception],
    say: Callable[[str], None],
    *,
    mend: Callable[[], None] = lambda: None,
) -> Result:
    """Tries until the connection lasts.

    Args:
        broken: what it raises where the connection broke.
        mend: is called before each further attempt.

    Raises:
        TargetUnreachable: the connection was still broken after the last pause.
    """
    pauses = list(_PAUSES)
    while True:
        began = time.monotonic()
        try:
            return attempt()
        except broken as error:
            if time.monotonic() - began > _WENT_WELL:
                pauses = list(_PAUSES)
            if not pauses:
                hint = "what runs on the target continues; deploy again to follow it"
                raise TargetUnreachable(f"the target does not answer any more: {error}", hint=hint) from error
            pause = pauses.pop(0)
            say(f"the connection broke; trying again in {pause} s")
            time.sleep(pause)
            mend()
