"""What PyTorch's caching allocator reserves of an accelerator's memory: its rules, played on what a trace has noted.

They are those of c10/cuda/CUDACachingAllocator.cpp with its stock settings, for one stream: blocks of 512 bytes, small
ones out of segments of 2 MiB, larger ones out of 20 MiB, the largest in segments of their own; the best fit is taken,
and split where enough is left; nothing goes back to the driver.
"""

import bisect
import itertools

from modak_runtime.memory.replayed import ALLOCATE, LABEL, RELEASE

_MIB = 1 << 20
_BLOCK = 512
_SMALL, _SMALL_SEGMENT = _MIB, 2 * _MIB  # the largest small block
_LARGE, _LARGE_SEGMENT, _ROUNDED = 10 * _MIB, 20 * _MIB, 2 * _MIB


class _Block:
    """A piece of a segment, between its neighbours there."""

    def __init__(self, size, place, before=None, after=None):
        self.size, self.place, self.before, self.after, self.is_free = size, place, before, after, False


class Cache:
    """The allocator.

    Attributes:
        reserved: bytes of all segments.
    """

    def __init__(self):
        self.reserved, self._places = 0, itertools.count()
        self._free = {True: [], False: []}  # of small blocks, and of others: size, place, block

    def allocate(self, size):
        size = max(_BLOCK, -(-size // _BLOCK) * _BLOCK)
        is_small = size <= _SMALL
        free = self._free[is_small]
        index = bisect.bisect_left(free, (size,))
        if index < len(free):
            block = free.pop(index)[2]
        else:
            block = _Block(_segment(size), next(self._places))
            self.reserved += block.size
        block.is_free = False
        excess = block.size - size
        if excess >= _BLOCK if is_small else excess > _SMALL:
            remainder = _Block(excess, next(self._places), block, block.after)
            if block.after is not None:
                block.after.before = remainder
            block.after, block.size = remainder, size
            self._keep(remainder, is_small)
        block.is_small = is_small
        return block

    def release(self, block):
        for other in (block.before, block.after):
            if other is not None and other.is_free:
                self._merge(block, other)
        self._keep(block, block.is_small)

    def _merge(self, block, other):
        """Makes a free neighbour a part of a block."""
        self._free[block.is_small].remove((other.size, other.place, other))
        block.size += other.size
        if other is block.before:
            block.before, block.place = other.before, other.place
            if block.before is not None:
                block.before.after = block
        else:
            block.after = other.after
            if block.after is not None:
                block.after.before = block

    def _keep(self, block, is_small):
        block.is_free = True
        bisect.insort(self._free[is_small], (block.size, block.place, block))


def _segment(size):
    if size <= _SMALL:
        return _SMALL_SEGMENT
    return _LARGE_SEGMENT if size < _LARGE else -(-size // _ROUNDED) * _ROUNDED


def peaks(events):
    """Bytes that are reserved under each label, as ``heap`` notes what is asked; once."""
    cache, blocks, reserved, label = Cache(), [], {}, -1
    for event in events:
        kind, value = event & 7, event >> 3
        if kind == ALLOCATE:
            blocks.append(cache.allocate(value) if value else None)
        elif kind == RELEASE and blocks[value] is not None:
            cache.release(blocks[value])
            blocks[value] = None
        elif kind == LABEL:
            label = value
        reserved[label] = cache.reserved
    return [reserved]
