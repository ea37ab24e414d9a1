"""What glibc's malloc keeps of a process resident, by the sizes that are asked of it and given back.

Large requests are mapped for themselves and go back at once. What is below a threshold, which grows with what was given
back to 32 MiB, comes from one heap with holes, of which only the end goes back. PyTorch asks for aligned memory, of
which a rest is left over: some small object gets it, parts the holes on its two sides, and goes when its step ends. How
often that happens is the one number here that was fitted (benchmarks/memory). Nothing is allocated.
"""

import bisect

_ALIGN, _EXTRA, _PAGE = 16, 80, 4096  # bytes; the second: a header, and what alignment to 64 bytes leaves over
_LEAST, _MOST, _PAD = 128 << 10, 32 << 20, 128 << 10
_REST, _EVERY = 64, 3  # bytes of what parts holes; of three that come from the heap, one does


class Heap:
    """One arena.

    Attributes:
        mapped: bytes of what was mapped for itself.
        peak: most bytes that were resident since it was last set.
    """

    def __init__(self):
        self.mapped, self.peak = 0, 0
        self._threshold = self._trim = _LEAST
        self._top = self._end = self._touched = 0  # what lies behind top is free
        self._free, self._starts, self._ends = [], {}, {}  # (size, start); start: size; end: start
        self._count, self._rests, self._grows = 0, [], True

    @property
    def resident(self):
        """Bytes that the process has of it, whether they are in use or not."""
        return self.mapped + self._touched

    def return_from(self, threshold):
        """Maps whatever is larger for itself from now on, whatever was given back."""
        self._threshold, self._trim, self._grows = threshold, _LEAST, False

    def allocate(self, size):
        """Takes so many bytes; what comes back is for release."""
        size = -(-(size + _EXTRA) // _ALIGN) * _ALIGN
        place = bisect.bisect_left(self._free, (size, -1))
        if place == len(self._free) and self._end - self._top < size and size >= self._threshold:
            size = -(-size // _PAGE) * _PAGE
            self.mapped += size
            self.peak = max(self.peak, self.resident)
            return None, size
        start = self._from_hole(place, size) if place < len(self._free) else self._from_top(size)
        self.peak = max(self.peak, self.resident)
        self._count += 1
        if self._count % _EVERY == 0:
            size -= _REST
            self._rests.append((start + size, _REST))
        return start, size

    def release(self, start, size):
        """Gives back what allocate has given."""
        if start is None:
            self.mapped -= size
            if self._grows and self._threshold < size <= _MOST:
                self._threshold, self._trim = size, 2 * size
            return
        if start in self._ends:
            before = self._ends[start]
            start, size = before, size + self._forget(before)
        if start + size in self._starts:
            size += self._forget(start + size)
        if start + size < self._top:
            self._keep(start, size)
            return
        self._top = start
        if self._end - start > self._trim:
            self._end = start + _PAD
            self._touched = min(self._touched, self._end)

    def step_ends(self):
        """Gives back the small objects of a step."""
        rests, self._rests = self._rests, []
        for start, size in rests:
            self.release(start, size)

    def _from_top(self, size):
        start, self._top = self._top, self._top + size
        self._end = max(self._end, self._top + _PAD)
        self._touched = max(self._touched, self._top)
        return start

    def _from_hole(self, place, wanted):
        size, start = self._free[place]
        self._forget(start)
        if size - wanted >= _EXTRA:
            self._keep(start + wanted, size - wanted)
        return start

    def _keep(self, start, size):
        bisect.insort(self._free, (size, start))
        self._starts[start], self._ends[start + size] = size, start

    def _forget(self, start):
        size = self._starts.pop(start)
        del self._ends[start + size]
        del self._free[bisect.bisect_left(self._free, (size, start))]
        return size
