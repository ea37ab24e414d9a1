"""What glibc's malloc is told of large blocks, and of small ones."""

import ctypes
import os
from contextlib import suppress

TRIM_THRESHOLD, MMAP_THRESHOLD, MXFAST = -1, -3, 1  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD and M_MXFAST of mallopt(3)
SMALLEST = 1 << 20  # bytes; the kernel counts mappings, and many small ones would save nothing
# What plans set for ranks: malloc reads it when a process begins, and nothing else turns these caches off.
NO_CACHES = "glibc.malloc.tcache_count=0"
_LARGEST = 32 << 20  # bytes: what glibc comes to by itself at most (DEFAULT_MMAP_THRESHOLD_MAX)
_KEPT = 8 * _LARGEST  # at the end of the heap: what a step frees there the next one would have the kernel clear again
_SMALL, _BETWEEN = (24, 40, 56), 16  # bytes: what fits into gaps between tensors; what keeps free blocks apart
_RESERVED = 20000  # blocks of each size, 4.8 MB in all


def return_what_is_freed():
    """Has the C library give large blocks back at once: by itself it begins to keep them when the first was freed."""
    with suppress(OSError, AttributeError):  # another library, which has its own ways
        ctypes.CDLL(None).mallopt(MMAP_THRESHOLD, SMALLEST)


def keep_what_is_freed():
    """Has it keep blocks again, as it does by itself when large ones were freed, and more of the heap's end."""
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(MMAP_THRESHOLD, _LARGEST)
        library.mallopt(TRIM_THRESHOLD, _KEPT)


def keep_small_apart():
    """Has small objects lie elsewhere than tensors, in blocks that are set aside for them here.

    PyTorch aligns tensors to 64 bytes, so malloc cuts some 48 bytes off before each. Its caches give out what was freed
    last, so these gaps go to the small objects that autograd makes next. They outlive the tensors, and what tensors
    leave between them fits no larger one. Without caches, what has been free for longest goes first: a block of these.
    The heap's end, which small objects no longer hold, is kept for the next step.
    """
    if NO_CACHES not in os.environ.get("GLIBC_TUNABLES", "") or "malloc" in os.environ.get("LD_PRELOAD", ""):
        return  # the latter of another allocator, to which 120,000 blocks say nothing
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(MXFAST, 0)
        malloc, free = library.malloc, library.free
        malloc.restype, malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
        free.restype, free.argtypes = None, [ctypes.c_void_p]
        reserved = []
        for size in _SMALL:
            for _ in range(_RESERVED):
                malloc(_BETWEEN)
                reserved.append(malloc(size))
        malloc(_BETWEEN)
        for place in reserved:
            free(place)
    keep_what_is_freed()


def trim():
    """Gives back what lies free in the heap now; malloc_trim(3)."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
