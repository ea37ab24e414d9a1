"""What prepare does to a DataLoader: samples are kept in memory, or read by another number of processes.

The loader stays the object that it is, and its own sampler draws the order as ever: the batches, their order and every
stream of random numbers are bit for bit those of the script. Where that could not be, nothing is done.
"""

import sys
from collections import deque

from modak_runtime.pytorch.store import Store, reading_problem


def set_workers(torch, report, loader):
    """Has so many processes read the samples."""
    workers = int(report.planned["workers"])
    problem = reading_problem(torch, loader)
    if problem:
        report.refused("workers", problem, "prepare")
        return
    loader.num_workers = workers
    if workers and getattr(loader, "prefetch_factor", None) is None:
        loader.prefetch_factor = 2  # as DataLoader itself takes it
    if not workers:
        loader.timeout = 0
    report.applied("workers", "prepare")


def keep_in_memory(torch, report, loader):
    """Keeps every sample, as it was collated when it was first read."""
    if report.planned["input"] != "memory":
        report.refused("input", "prepare supports only memory", "prepare")
        return
    problem = reading_problem(torch, loader)
    if problem:
        report.refused("input", problem, "prepare")
        return

    def gave_up(reason):
        report.withdrawn("input", reason, "prepare")

    loader.__dict__["_modak_persists"] = False
    loader.__dict__["_modak_store"] = Store(torch, len(loader.dataset), gave_up)
    loader.__class__ = _kept_class(type(loader))
    report.applied("input", "prepare")


def _kept_class(base):
    """A DataLoader of the same kind that asks its store first."""

    class Kept(base):
        def __iter__(self):
            store = self._modak_store
            if store.is_full and self.num_workers:  # nothing is left for its processes to do
                self._modak_persists = self.persistent_workers
                self.num_workers, self.timeout, self._iterator = 0, 0, None
            if self.num_workers:
                self._modak_asked = deque()
                return _Filling(base.__iter__(self), store, self._modak_asked)
            iterator = _undrawn(self, base) if self._modak_persists else base.__iter__(self)
            iterator._dataset_fetcher = _Fetcher(store, iterator._dataset_fetcher)
            return iterator

        @property
        def _index_sampler(self):
            sampler = base._index_sampler.fget(self)
            return _Recording(self, sampler) if self.num_workers else sampler

    Kept.__name__, Kept.__qualname__, Kept.__module__ = base.__name__, base.__qualname__, base.__module__
    return Kept


def _undrawn(loader, base):
    """An iterator of a loader whose processes would have persisted, and have drawn no seed for another epoch."""
    torch = sys.modules["torch"]
    stream = loader.generator or torch.default_generator
    before = stream.get_state()
    iterator = base.__iter__(loader)
    stream.set_state(before)
    return iterator


class _Fetcher:
    """Takes the place of what reads samples in the training's own process."""

    def __init__(self, store, original):
        self._store, self._original = store, original
        self._is_first = True

    def fetch(self, indices):
        """A batch, by the numbers of its samples."""
        store = self._store
        if store.given_up:
            return self._original.fetch(indices)
        if self._is_first:
            self._is_first = False
            store.look_again(indices, self._original.fetch)
        batch = store.take(indices)
        return store.read(indices, self._original.fetch) if batch is None else batch


class _Recording:
    """A sampler that notes what its loader asks of other processes, in that order."""

    def __init__(self, loader, sampler):
        self._loader, self._sampler = loader, sampler

    def __iter__(self):
        for indices in self._sampler:
            self._loader._modak_asked.append(indices)
            yield indices

    def __len__(self):
        return len(self._sampler)


class _Filling:
    """Keeps what other processes read, as it comes."""

    def __init__(self, iterator, store, asked):
        self._iterator, self._store, self._asked = iterator, store, asked

    def __iter__(self):
        return self

    def __len__(self):
        return len(self._iterator)

    def __getattr__(self, name):
        return getattr(self._iterator, name)

    def __next__(self):
        batch = next(self._iterator)
        indices = self._asked.popleft()
        if not self._store.given_up:
            self._store.put(indices, batch)
        return batch
