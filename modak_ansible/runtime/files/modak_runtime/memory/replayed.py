"""Asks malloc for what a trace has noted, and tells how much memory the process had at most under each label.

Its argument is a seed; it reads events and writes peaks, both as 64-bit integers. The lowest three bits of an event are
its kind; the others are bytes, a label, or the number of what is given back, as the others were asked for.

Nothing is written into what malloc gives, so that only its own headers become resident; what the process has in
private mappings is what it would have, had it written everywhere. Beside each tensor lie small objects, which part the
holes around them: of these sizes, and so many, were alive in trainings with PyTorch 2.13 when a backward pass began.
"""

import ctypes
import os
import random
import sys
from array import array

from modak_runtime.malloc import MMAP_THRESHOLD, keep_small_apart

ALLOCATE, RELEASE, KEEP, LABEL, THRESHOLD, APART = range(6)
_ALIGNMENT = 64  # PyTorch's
_OF_TENSOR = (104, 184)  # bytes: its storage, and itself
_OF_OPERATOR = (24, 24)  # lists of edges and shapes
_NODES = (472, 488, 520, 520, 520, 552, 648, 808)  # of autograd
_SOMETIMES = (0.4, 184), (0.5, 40)  # of so many nodes there is a tensor without memory of its own, a longer list
_MOST = 400  # small objects that are kept for one tensor


def main():
    events = array("q", sys.stdin.buffer.read())
    c = ctypes.CDLL(None)
    malloc, free, aligned = c.malloc, c.free, c.posix_memalign
    malloc.restype, malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    free.restype, free.argtypes = None, [ctypes.c_void_p]
    aligned.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t]
    pointer, draws, page = ctypes.c_void_p(), random.Random(int(sys.argv[1])), os.sysconf("SC_PAGE_SIZE")  # noqa: S311
    statm = os.open("/proc/self/statm", os.O_RDONLY)
    peaks, label, places, refused, waiting = {}, -1, [], 0, []

    def resident():
        return int(os.pread(statm, 200, 0).split()[5]) * page + refused

    before = resident()
    for event in events:
        kind, value = event & 7, event >> 3
        if kind == ALLOCATE:
            small, waiting = [*map(malloc, _OF_TENSOR), *waiting], []
            if aligned(ctypes.byref(pointer), _ALIGNMENT, value):
                refused += value
                places.append((None, value, small))
            else:
                places.append((pointer.value, value, small))
            if value >= page:
                peaks[label] = max(peaks.get(label, 0), resident())
        elif kind == RELEASE:
            place, size, small = places[value]
            places[value] = None
            if place is None:
                refused -= size
            free(place)
            for address in small:
                free(address)
        elif kind == KEEP and len(waiting) < _MOST:
            sizes = [*_OF_OPERATOR, draws.choice(_NODES)]
            waiting += map(malloc, sizes + [size for part, size in _SOMETIMES if draws.random() < part])
        elif kind == LABEL:
            label = value
            peaks[label] = max(peaks.get(label, 0), resident())
        elif kind == THRESHOLD and hasattr(c, "mallopt"):
            c.mallopt(MMAP_THRESHOLD, value)
        elif kind == APART:
            keep_small_apart()
    output = array("q", [number for label, peak in peaks.items() for number in (label, peak - before)])
    sys.stdout.buffer.write(output.tobytes())
