"""What glibc's malloc is told of large blocks."""

import ctypes
from contextlib import suppress

MMAP_THRESHOLD = -3  # M_MMAP_THRESHOLD of mallopt(3)
SMALLEST = 1 << 20  # bytes; the kernel counts mappings, and many small ones would save nothing


def return_what_is_freed():
    """Has the C library give large blocks back at once: by itself it begins to keep them when the first was freed."""
    with suppress(OSError, AttributeError):  # another library, which has its own ways
        ctypes.CDLL(None).mallopt(MMAP_THRESHOLD, SMALLEST)
