"""What is asked of a tensor in many places."""


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
