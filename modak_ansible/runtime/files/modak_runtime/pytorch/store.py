"""Samples in memory: one tensor for each part of a batch, whose rows are filled as samples are first read."""

import random
import sys

from modak_runtime.free_memory import free_memory

_SHARE = 0.4  # of the memory that is free; the rest is the training's own
_LOOKS = 4  # samples that are read twice before any is kept
_AGAIN = 2  # samples that are read once more in each epoch


class Store:
    """The samples of one dataset.

    Args:
        torch: the module.
        samples: how many there are.
        gave_up: is told why, when they can no longer be kept.
    """

    def __init__(self, torch, samples, gave_up):
        self._torch, self._samples, self._gave_up = torch, samples, gave_up
        self._rows, self._form = None, None
        self._is_kept, self._count = torch.zeros(samples, dtype=torch.bool), 0
        self.given_up = False

    @property
    def is_full(self):
        """Whether every sample is kept."""
        return self._count == self._samples

    def give_up(self, reason):
        """Keeps nothing any more: batches are read as the script has them read."""
        self.given_up, self._rows = True, None
        self._gave_up(reason)

    def take(self, indices):
        """The batch of samples that are all kept; None otherwise."""
        if self._rows is None:
            return None
        numbers = self._torch.as_tensor(indices)
        if not self.is_full and not bool(self._is_kept[numbers].all()):
            return None
        return self._whole([row.index_select(0, numbers) for row in self._rows])

    def read(self, indices, fetch):
        """A batch as the script reads it; kept, unless reading draws random numbers."""
        before = random_states(self._torch)
        batch = fetch(indices)
        if random_states(self._torch) != before:
            self.give_up("reading a sample draws random numbers")
        else:
            self.put(indices, batch)
        return batch

    def put(self, indices, batch):
        """Keeps the samples of a batch."""
        torch = self._torch
        leaves, form = leaves_of(torch, batch)
        problem = _batch_problem(torch, leaves, len(indices))
        if not problem and self._rows is None:
            problem = self._make_room(leaves, form)
        if not problem and (form != self._form or any(a.shape[1:] != b.shape[1:] for a, b in zip(leaves, self._rows))):
            problem = "samples differ in shape"
        if problem:
            self.give_up(problem)
            return
        numbers = torch.as_tensor(indices)
        for row, leaf in zip(self._rows, leaves):
            row[numbers] = leaf
        self._is_kept[numbers] = True
        self._count = int(self._is_kept.sum())

    def look_again(self, indices, fetch):
        """Reads a few samples that are kept once more: those of a dataset that changes its mind are no longer kept."""
        kept_numbers = [number for number in indices[:_AGAIN] if self._rows is not None and bool(self._is_kept[number])]
        for number in kept_numbers:
            fresh, _ = undrawn(self._torch, lambda number=number: fetch([number]))
            leaves, _ = leaves_of(self._torch, fresh)
            if not _equal(self._torch, leaves, [row[number : number + 1] for row in self._rows]):
                self.give_up("samples change from one epoch to the next")
                return

    def _make_room(self, leaves, form):
        needed = sum(leaf[0].numel() * leaf.element_size() for leaf in leaves) * self._samples
        free = free_memory()
        if free is None or needed > _SHARE * free:
            words = "unknown" if free is None else "%d MB" % (free // 10**6)
            return "the samples need %d MB; of the free memory (%s), they may use %d %%" % (
                needed // 10**6, words, round(100 * _SHARE),
            )  # fmt: skip
        self._form = form
        self._rows = [leaf.new_empty((self._samples,) + tuple(leaf.shape[1:])) for leaf in leaves]
        return ""

    def _whole(self, leaves):
        return self._torch.utils._pytree.tree_unflatten(leaves, self._form)


def reading_problem(torch, loader):
    """Why samples cannot be read by others, or once only; empty where they can."""
    data, dataset = torch.utils.data, loader.dataset
    if isinstance(dataset, data.IterableDataset) or not hasattr(dataset, "__len__"):
        return "the dataset is a stream, whose samples have no indices"
    if loader.batch_sampler is None:
        return "the loader does not batch samples"
    if not len(dataset):
        return "the dataset is empty"
    numbers = sorted({step * (len(dataset) - 1) // (_LOOKS - 1) for step in range(_LOOKS)})

    def look():
        samples = [dataset[number] for number in numbers]
        return [loader.collate_fn(samples)] + [loader.collate_fn([sample]) for sample in samples]

    (first, drew), (second, _) = undrawn(torch, look), undrawn(torch, look)
    if drew:
        return "reading a sample draws random numbers"
    whole, _ = leaves_of(torch, first[0])
    problem = _batch_problem(torch, whole, len(numbers))
    for place, (first_sample, second_sample) in enumerate(zip(first[1:], second[1:])):
        first_leaves, second_leaves = leaves_of(torch, first_sample)[0], leaves_of(torch, second_sample)[0]
        problem = problem or _batch_problem(torch, first_leaves, 1) or _batch_problem(torch, second_leaves, 1)
        if not problem and not _equal(torch, first_leaves, second_leaves):
            problem = "a sample differs when it is read again"
        if not problem and not _equal(torch, first_leaves, [leaf[place : place + 1] for leaf in whole]):
            problem = "a batch is not just its samples stacked"
    return problem


def leaves_of(torch, batch):
    """The parts of a batch, and how they are put together."""
    return torch.utils._pytree.tree_flatten(batch)


def _batch_problem(torch, leaves, samples):
    for leaf in leaves:
        if not isinstance(leaf, torch.Tensor):
            return "a batch holds %s, which is not a tensor" % type(leaf).__name__
        if type(leaf) is not torch.Tensor or leaf.is_cuda or leaf.layout != torch.strided or leaf.requires_grad:
            return "a batch holds a tensor that is not a plain one in main memory"
        if leaf.dim() < 1 or leaf.shape[0] != samples or not leaf.is_contiguous():
            return "a batch is not just its samples stacked"
    return "" if leaves else "a batch is empty"


def _equal(torch, first_leaves, second_leaves):
    return len(first_leaves) == len(second_leaves) and all(
        left.dtype == right.dtype and torch.equal(left, right) for left, right in zip(first_leaves, second_leaves)
    )


def undrawn(torch, act):
    """What an act gives, and whether it drew random numbers; if so, they are drawn back."""
    before, states = random_states(torch), streams(torch)
    result = act()
    drew = random_states(torch) != before
    if drew:
        restore(torch, states)
    return result, drew


def random_states(torch):
    """The streams that a sample may be drawn from, as they stand, to be compared."""
    numpy = sys.modules.get("numpy")
    numbers = numpy.random.get_state() if numpy else None
    words = (numbers[1].tobytes(),) + tuple(numbers[2:]) if numbers else None
    of_torch = torch.get_rng_state()
    return of_torch.numpy().tobytes() if numpy else of_torch.tolist(), words, random.getstate()


def streams(torch):
    """Where the streams of PyTorch, Python and NumPy stand; of NumPy None where it is not imported."""
    numpy = sys.modules.get("numpy")
    return torch.get_rng_state(), random.getstate(), numpy.random.get_state() if numpy else None


def restore(torch, states):
    """Puts the streams where they stood."""
    of_torch, of_python, of_numpy = states
    torch.set_rng_state(of_torch)
    random.setstate(of_python)
    if of_numpy is not None and "numpy" in sys.modules:
        sys.modules["numpy"].random.set_state(of_numpy)
