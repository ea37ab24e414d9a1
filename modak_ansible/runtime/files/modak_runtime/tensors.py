"""What is asked of a tensor in many places."""

import itertools
import operator


def size_of(tensor):
    """Bytes of its numbers."""
    return tensor.numel() * tensor.element_size()


def is_dense(tensor):
    """Whether its numbers fill its memory, in whatever order."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape)):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def strides_in_order(shape):
    """Strides of a new tensor: its last place counts fastest, and so on, with nothing between."""
    sizes = (max(size, 1) for size in reversed(shape[1:]))
    return tuple(itertools.accumulate(sizes, operator.mul, initial=1))[::-1] if len(shape) else ()
