"""What a process takes besides its tensors: what it has imported, and what libraries take when they first compute."""

import contextlib
import ctypes
import os


def resident():
    """Bytes of this process that lie in memory, without what is free in its heap; 0 where the kernel does not say."""
    with contextlib.suppress(OSError, AttributeError):  # another C library has none
        ctypes.CDLL(None).malloc_trim(0)
    try:
        with open("/proc/self/statm") as numbers:
            return int(numbers.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def import_optimisers(torch):
    """Imports what some releases import when the first optimiser is made."""
    torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], 0.1)


def small_step(torch, model, *shape):
    """A step of a small model."""
    optimizer, found = torch.optim.AdamW(model.parameters()), model(torch.zeros(shape))
    (found[0] if isinstance(found, tuple) else found).sum().backward()
    optimizer.step()


def computing(torch, operators):
    """Bytes that libraries take when they compute for the first time, by small steps with what a script computes with.

    Args:
        operators: the names of ATen's that the script calls.
    """
    nn, before = torch.nn, resident()
    small_step(torch, nn.Sequential(nn.Linear(1024, 1024), nn.ReLU(), nn.LayerNorm(1024)), 256, 1024)
    if "convolution" in operators:
        layers = nn.Conv2d(32, 32, 3, 1, 1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2)
        small_step(torch, nn.Sequential(*layers), 8, 32, 32, 32)
    if "mkldnn_rnn_layer" in operators:
        small_step(torch, nn.LSTM(64, 64), 8, 8, 64)
    if any("attention" in name for name in operators):
        small_step(torch, nn.TransformerEncoderLayer(64, 4, batch_first=True), 4, 32, 64)
    return max(0, resident() - before)
