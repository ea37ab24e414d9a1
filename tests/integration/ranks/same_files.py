"""Whether two files of torch.save hold the same, as one process reads them; nothing of modak is needed."""

import sys

import torch


def compare(one, other, place="file"):
    assert type(one) is type(other), (place, type(one), type(other))
    if isinstance(one, dict):
        assert list(one) == list(other), place
        for name in one:
            compare(one[name], other[name], f"{place}.{name}")
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other), place
        for number, (each, theirs) in enumerate(zip(one, other, strict=True)):
            compare(each, theirs, f"{place}.{number}")
    elif isinstance(one, torch.Tensor):
        assert (one.shape, one.stride(), one.dtype) == (other.shape, other.stride(), other.dtype), place
        assert torch.allclose(one, other, rtol=1e-3, atol=2e-5), place
    else:
        assert one == other, place


one, other = (torch.load(path, weights_only=True) for path in sys.argv[1:])
compare(one, other)
weights = other["model"]
assert weights["head.weight"].data_ptr() == weights["embed.weight"].data_ptr()  # they are tied in the file, too
