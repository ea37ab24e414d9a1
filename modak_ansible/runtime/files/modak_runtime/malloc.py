"""What glibc's malloc is told of large blocks."""

import ctypes
from contextlib import suppress

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of mallopt(3)
SMALLEST = 1 << 20  # bytes; the kernel counts mappings, and many small ones would save nothing
_LARGEST = 32 << 20  # bytes: what glibc comes to by itself at most (DEFAULT_MMAP_THRESHOLD_MAX)


def return_what_is_freed():
    """Has the C library give large blocks back at once: by itself it begins to keep them when the first was freed."""
    with suppress(OSError, AttributeError):  # another library, which has its own ways
        ctypes.CDLL(None).mallopt(MMAP_THRESHOLD, SMALLEST)


def keep_what_is_freed():
    """Has it keep blocks again, as it does when nobody tells it anything and large ones were freed."""
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(MMAP_THRESHOLD, _LARGEST)
        library.mallopt(TRIM_THRESHOLD, 2 * _LARGEST)


def trim():
    """Gives back what lies free in the heap now; malloc_trim(3)."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
