"""How many builds go on at once: a front end has other users."""

from __future__ import annotations

import time
from contextlib import contextmanager
from pathlib import Path
from typing import Callable, Iterator

from .files import Lock

# Of all deployments of a workspace, each with as many processes as mksquashfs starts.
BUILDS = 2
_PAUSE = 1.0


@contextmanager
def build_slot(folder: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Waits until fewer builds go on than may; one that is killed makes room when all that it started has ended.

    Args:
        folder: where the locks of the slots lie.
        waiting: is called once where all slots are taken.
    """
    is_told = False
    while True:
        for number in range(BUILDS):
            slot = Lock(folder / f".build-{number}.lock")
            if slot.take(wait=False):
                try:
                    yield
                finally:
                    slot.release()
                return
        if not is_told:
            waiting()
            is_told = True
        time.sleep(_PAUSE)
