"""What a process takes besides its tensors: what it has imported, and what libraries take when they first compute."""

import contextlib
import functools
import itertools
import os
import signal

from modak_runtime.malloc import return_what_is_freed, trim
from modak_runtime.memory.copies import Copy, begun, from_copy

_LARGEST, _PATIENCE = 1 << 28, 60  # numbers in matrices that are multiplied; seconds for all of them
# For each thread: of four times as many libraries kept up to 2 MiB more, or 19 less (2026-11, Emerald Rapids).
_ROWS = 512

_UNCHANGED = bytes(flag & 0xA0 == 0xA0 for flag in range(256))  # of a page's highest byte: present and of a file


def resident():
    """Bytes of this process that lie in memory, without what is free in its heap; 0 where the kernel does not say."""
    trim()
    try:
        with open("/proc/self/statm") as numbers:
            return int(numbers.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def import_optimisers(torch):
    """Imports what some releases import when the first optimiser is made."""
    torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], 0.1)


def small_step(torch, model, *shape, prepare=None):
    """A step of a small model."""
    optimizer = torch.optim.AdamW(model.parameters())
    if prepare is not None:
        prepare(model, optimizer)
    output = model(torch.zeros(shape))
    (output[0] if isinstance(output, tuple) else output).sum().backward()
    optimizer.step()


class FirstTimes:
    """What libraries take when they compute for the first time, and what it takes to become one of several ranks.

    Other processes compute it, copies of this one, and beside it: what is imported there is not imported here.

    Args:
        ranks: by strategies, functions that make a model and its optimizer those of a rank.
        original_pages: the pages of files that the script's own process has.
    """

    def __init__(self, torch, ranks, original_pages):
        def find():
            meetings = {
                strategy: from_copy(functools.partial(_first_meeting, torch, prepare, original_pages)) or 0
                for strategy, prepare in ranks.items()
            }
            return from_copy(functools.partial(_first_times, torch, original_pages)) or {}, meetings

        self._found = functools.lru_cache(maxsize=None)(begun(find))

    def sizes(self, operators, strategy=None):
        """Bytes, for operators of these names, of a rank if its strategy is given; the first call waits for them."""
        sizes, meetings = self._found() or ({}, {})
        first = [size for kind, size in sizes.items() if any(kind in name for name in operators)]
        return sum(first) + meetings.get(strategy, 0)


def packing(torch):
    """A copy of this process that is asked, later, what libraries pack matrices into and keep: bytes.

    Made before this one has any threads: those of OpenMP do not outlive a fork, and a product would wait for them. Each
    answer is another copy's, for what a library keeps it keeps.
    """
    return Copy(lambda products: from_copy(lambda: _packed(torch, products)))


def _packed(torch, products):
    """Bytes besides, of matrices such as these.

    Args:
        products: rows, inner places and columns of matrices, and the name of their type.
    """
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(_PATIENCE)  # whose signal ends it: then nothing is known
    return_what_is_freed()
    small_step(torch, torch.nn.Linear(1024, 1024), 256, 1024)  # what ``FirstTimes`` have seen
    before = resident()
    most_rows = _ROWS * torch.get_num_threads()
    for rows, inner, columns, kind in sorted({(min(rows, most_rows), *others) for rows, *others in products}):
        if rows * inner + inner * columns + rows * columns <= _LARGEST:
            shapes = (rows, inner), (inner, columns)
            torch.mm(*(torch.zeros(shape, dtype=getattr(torch, kind)) for shape in shapes))
    return max(0, resident() - before)


def _first_meeting(torch, prepare, original_pages):
    _layers_step(torch)
    before = _resident_of_copy(original_pages)
    _layers_step(torch, prepare)
    return max(0, _resident_of_copy(original_pages) - before)


def _layers_step(torch, prepare=None):
    linear = torch.nn.Linear
    small_step(torch, torch.nn.Sequential(linear(64, 64), torch.nn.ReLU(), linear(64, 64)), 8, 64, prepare=prepare)


def _first_times(torch, original_pages):
    nn, sizes, before = torch.nn, {}, _resident_of_copy(original_pages)
    _layers_step(torch)
    kinds = {  # by what is in the names of ATen's operators: a network, and the shape of what it is given
        "": (lambda: nn.Sequential(nn.Linear(1024, 1024), nn.ReLU(), nn.LayerNorm(1024)), (256, 1024)),
        "convolution": (
            lambda: nn.Sequential(nn.Conv2d(32, 32, 3, 1, 1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2)),
            (8, 32, 32, 32),
        ),
        "mkldnn_rnn_layer": (lambda: nn.LSTM(64, 64), (8, 8, 64)),
        "attention": (lambda: nn.TransformerEncoderLayer(64, 4, batch_first=True), (4, 32, 64)),
    }
    for kind, (make, shape) in kinds.items():
        small_step(torch, make(), *shape)
        now = _resident_of_copy(original_pages)
        sizes[kind], before = max(0, now - before), now
    return sizes


def _resident_of_copy(original_pages):
    """Bytes as ``resident`` has them, with the pages of files that the original of this process had.

    A copy of a process has the same memory, but of files only what it has looked at itself.
    """
    resident()  # gives back what is free
    page = os.sysconf("SC_PAGE_SIZE")
    with open("/proc/self/status") as lines:
        numbers = dict(line.split(":", 1) for line in lines if line.startswith("Rss"))
    return int(numbers["RssAnon"].split()[0]) * 1024 + page * len(original_pages | file_pages())


def file_pages():
    """Numbers of the unchanged pages of files that lie in this process's memory; none where the kernel does not say."""
    page, pages = os.sysconf("SC_PAGE_SIZE"), set()
    with contextlib.suppress(OSError, ValueError), open("/proc/self/pagemap", "rb", 0) as places:
        with open("/proc/self/maps") as file:
            lines = file.readlines()
        for line in lines:
            ends, _, _, _, inode = line.split()[:5]
            first, last = (int(end, 16) // page for end in ends.split("-"))
            if inode == "0":
                continue
            places.seek(8 * first)
            flags = places.read(8 * (last - first))[7::8]
            pages.update(itertools.compress(range(first, last), flags.translate(_UNCHANGED)))
    return pages
