"""Whether a rank has room to keep the memory that it frees.

With parts of a model, what is made anew for each unit, layer or piece leaves holes in a heap that keeps what is freed.
A heap that gives it back has none, but the kernel has to map and to clear the same blocks in each step. So a rank gives
back at first, learns what it needs, and keeps what it frees where there is room for much more.
"""

import os
import resource

from modak_runtime.free_memory import free_memory
from modak_runtime.malloc import keep_what_is_freed, return_what_is_freed, trim

_LEARNS = 2  # steps, the second of which has the optimiser's state, too
_TIMES = 2  # of what it needs, that a rank may take; those that were measured took up to 1.7 times


class Room:
    """What one rank does with what it frees.

    Args:
        ranks_here: ranks on this node.
        memory_limit: bytes that the job has asked for each; None where it has not.
    """

    def __init__(self, ranks_here, memory_limit):
        self._ranks_here, self._memory_limit = ranks_here, memory_limit
        self._optimizer, self._steps, self._peak_limit = None, 0, None
        return_what_is_freed()

    def follow(self, optimizer):
        """Looks after each step of the first optimiser that it is given."""
        if self._optimizer is None:
            self._optimizer = optimizer
            optimizer.register_step_post_hook(lambda *_: self.stepped())

    def stepped(self):
        """Takes that the optimiser has made a step."""
        self._steps += 1
        if self._steps == _LEARNS:
            needed = _peak()
            if self._has_room(needed):
                keep_what_is_freed()
                self._peak_limit = _TIMES * needed
        elif self._peak_limit and _peak() > self._peak_limit:  # for good
            self._peak_limit = None
            return_what_is_freed()
            trim()

    def _has_room(self, needed):
        free = free_memory()
        is_asked = self._memory_limit is None or _TIMES * needed <= self._memory_limit
        return is_asked and free is not None and free >= _TIMES * needed * self._ranks_here


def room_of(environment=os.environ):
    """That of a rank that was started so."""
    memory_limit = environment.get("MODAK_MEMORY_LIMIT", "")
    ranks_here = environment.get("LOCAL_WORLD_SIZE") or environment["WORLD_SIZE"]
    return Room(int(ranks_here), int(memory_limit) if memory_limit.isdigit() else None)


def _peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # Linux counts in KiB
