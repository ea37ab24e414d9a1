"""What glibc's malloc is told of large blocks, and of small ones."""

import ctypes
import os
from contextlib import suppress

TRIM_THRESHOLD, MMAP_THRESHOLD, MXFAST = -1, -3, 1  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD and M_MXFAST of mallopt(3)
SMALLEST = 1 << 20  # bytes; the kernel counts mappings, and many small ones would save nothing
LARGEST = 32 << 20  # bytes: what glibc comes to by itself at most (DEFAULT_MMAP_THRESHOLD_MAX)
# What plans set for ranks: malloc reads it when a process begins, and nothing else turns these caches off.
NO_CACHES = "glibc.malloc.tcache_count=0"
_KEPT = 8 * LARGEST  # at the end of the heap: what a step frees there the next one would have the kernel clear again
# Bytes, and how many such blocks: what fits into one gap between tensors, into two that have become one, and what
# larger small objects are cut from.
_SMALL = [(24, 20000), (40, 20000), (56, 20000), *((size, 2000) for size in range(72, 169, 16)), (65536, 64)]
_BETWEEN = 16  # bytes of what keeps free blocks apart
_SORTED = 10000  # freed blocks that malloc puts where they belong each time that it looks for a large one
_ALIGNMENT, _HEADER = 64, 16  # bytes: of tensors, and before each block


def return_what_is_freed():
    """Has the C library give large blocks back at once: by itself it begins to keep them when the first was freed."""
    with suppress(OSError, AttributeError):  # another library, which has its own ways
        ctypes.CDLL(None).mallopt(MMAP_THRESHOLD, SMALLEST)


def keep_what_is_freed():
    """Has it keep blocks again, as it does by itself when large ones were freed, and more of the heap's end."""
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(MMAP_THRESHOLD, LARGEST)
        library.mallopt(TRIM_THRESHOLD, _KEPT)


def keep_small_apart():
    """Has small objects lie elsewhere than tensors, in blocks that are set aside for them here.

    PyTorch aligns tensors to 64 bytes, so malloc cuts some 48 bytes off before each. Its caches give out what was freed
    last, so these gaps go to the small objects that autograd makes next. They outlive the tensors, and what tensors
    leave between them fits no larger one. Without caches, what has been free for longest goes first: a block of these.
    The heap's end, which small objects no longer hold, is kept for the next step.
    """
    if NO_CACHES not in os.environ.get("GLIBC_TUNABLES", "") or "malloc" in os.environ.get("LD_PRELOAD", ""):
        return  # the latter of another allocator, to which such blocks say nothing
    keep_what_is_freed()
    with suppress(OSError, AttributeError):
        library = ctypes.PyDLL(None)  # many short calls: giving up Python's lock for each takes a seventh of their time
        library.mallopt(MXFAST, 0)
        malloc, free = library.malloc, library.free
        malloc.restype, malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
        free.restype, free.argtypes = None, [ctypes.c_void_p]
        reserved = []
        for size, number in _SMALL:
            for _ in range(number):
                malloc(_BETWEEN)
                reserved.append(malloc(size))
        malloc(_BETWEEN)
        for place in reserved:
            free(place)
        for _ in range(0, len(reserved), _SORTED):
            free(malloc(SMALLEST))
        _have_holes_fit(malloc, free)


def _have_holes_fit(malloc, free):
    """Has the heap's end begin where what a tensor leaves fits another one of its size.

    For a tensor posix_memalign takes 112 bytes more than a block of its size has, some of them before it; what is
    more than 32 behind it goes back. The next tensor then begins there, and when this one is freed the hole is 16 bytes
    too small for ever. Where a block would begin 16 bytes before a multiple of 64, there are 80 before it and just 32
    behind it, which it keeps; and so it is for the next one, as tensors are multiples of 64 long (glibc 2.36,
    ``_int_memalign``).
    """
    end = malloc(SMALLEST) or 0  # there may be none under a limit (RLIMIT_AS)
    free(end)
    malloc(SMALLEST + (-_HEADER - end) % _ALIGNMENT - _HEADER // 2)  # nothing is written there


def trim():
    """Gives back what lies free in the heap now; malloc_trim(3)."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
