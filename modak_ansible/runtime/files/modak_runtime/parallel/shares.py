"""A part of each batch for each rank: the loader stays what it is, its batches, their number and order, too.

A loop that trains gets this rank's samples of every batch; one that evaluates gets all of them in every rank, so that
what it counts is right as it stands. The order is drawn from streams that are the same in all ranks: one process's own.
"""

import random
import sys
import weakref


def share(torch, ranks, loader):
    """Lets a loader give this rank its part; one that the script shares out itself stays as it is."""
    data = torch.utils.data
    ranks.shares_batches()
    if is_shared(torch, loader):
        ranks.rank.say("a loader has a DistributedSampler: it is left to the script")
        return
    is_stream = isinstance(loader.dataset, data.IterableDataset)
    kept, many = loader.__dict__, ranks.samples.size
    kept["_modak_ranks"], kept["_modak_turn"], kept["_modak_words"] = ranks, _Turn(False), ""
    if 0 < (loader.batch_size or 0) < many:
        words = "a loader's batches have %d samples for %d ranks, some of which compute what counts for nothing"
        kept["_modak_words"] = words % (loader.batch_size, many)
    if is_stream:
        kept["_modak_way"] = "stream" if loader.batch_size is not None else "slices"
    else:
        kept["_modak_way"] = "samples" if loader._auto_collation else "slices"
    if kept["_modak_way"] == "stream":
        loader.collate_fn = _Part(loader.collate_fn, ranks.samples.number, ranks.samples.size)
    elif not is_stream:
        loader.worker_init_fn = _Seed(loader.worker_init_fn, ranks.samples.number)
    loader.__class__ = _shared_class(type(loader))


def is_shared(torch, loader):
    """Whether the script shares a loader's samples out itself."""
    samplers = [loader.sampler, getattr(loader.batch_sampler, "sampler", None)]
    return any(isinstance(sampler, torch.utils.data.distributed.DistributedSampler) for sampler in samplers)


def part_of(samples, number, world):
    """This rank's samples of a batch; of one with fewer samples than ranks perhaps one that counts for nothing.

    Returns:
        the samples, and how many of them count.
    """
    mine = samples[number::world]
    return (mine, len(mine)) if len(mine) else (samples[:1], 0)


class _Turn:
    """One loop over a loader, beside which there may be others, such as of a validation in its midst.

    Attributes:
        shares: whether it is given this rank's part of each batch.
        parts: of the batches that are on their way, how many samples count here, and how many there are.
    """

    def __init__(self, shares):
        self.shares, self.parts = shares, []


def _shared_class(base):
    """A DataLoader of the same kind that gives this rank's part."""

    class Shared(base):
        def __iter__(self):
            ranks = self._modak_ranks
            turn = self._modak_turn = _Turn(ranks.is_training())
            if not turn.shares:
                ranks.meet()
            elif self._modak_words:  # of a loader that trains, and once
                ranks.rank.say(self._modak_words)
                self._modak_words = ""
            if isinstance(self.collate_fn, _Part) and self.collate_fn.acts is not turn.shares:
                self.collate_fn = self.collate_fn.for_loop(turn.shares)
                self._iterator = None  # its processes, where they persist, have the other one
            with ranks.in_common():
                iterator = base.__iter__(self)
            taken = getattr(_inner(iterator), "_next_data", None)
            if isinstance(taken, _Next):  # one that persists begins anew
                taken.turn = turn
            return iterator

        def _get_iterator(self):
            iterator = base._get_iterator(self)
            inner = _inner(iterator)
            inner._next_data = _Next(self, inner._next_data)
            return iterator

        @property
        def _index_sampler(self):
            sampler = base._index_sampler.fget(self)
            return _Sampler(self, sampler) if self._modak_way == "samples" else _Common(self, sampler)

    Shared.__name__, Shared.__qualname__, Shared.__module__ = base.__name__, base.__qualname__, base.__module__
    return Shared


def _inner(iterator):
    """PyTorch's own iterator, in what a loader of another library may have put around it."""
    while not hasattr(iterator, "_next_data") and hasattr(iterator, "iterator"):
        iterator = iterator.iterator
    return iterator


class _Common:
    """A sampler that draws from the streams of all ranks."""

    def __init__(self, loader, sampler):
        self._loader, self._sampler = loader, sampler

    def __iter__(self):
        iterator = iter(self._sampler)
        while True:
            with self._loader._modak_ranks.in_common():
                try:
                    found = next(iterator)
                except StopIteration:
                    return
            yield found

    def __len__(self):
        return len(self._sampler)


class _Sampler(_Common):
    """One that gives this rank's part of each batch, where the loop trains, and notes how large it is."""

    def __iter__(self):
        return self._parts(self._loader._modak_turn)

    def _parts(self, turn):
        samples = self._loader._modak_ranks.samples
        for indices in _Common.__iter__(self):
            if turn.shares:
                mine, count = part_of(list(indices), samples.number, samples.size)
                turn.parts.append((count, len(indices)))
                yield mine
            else:
                yield indices


class _Next:
    """Takes the next batch, and notes this rank's part of it."""

    def __init__(self, loader, original):
        self._loader, self.turn = loader, loader._modak_turn
        # its iterator has this: held from here, too, it and its processes would outlive a loop that breaks off
        self._original = weakref.WeakMethod(original)

    def __call__(self):
        try:
            return self._next()
        except StopIteration:
            if self.turn.shares:
                self._loader._modak_ranks.meet()
            raise

    def _next(self):
        ranks, way = self._loader._modak_ranks, self._loader._modak_way
        if way == "samples":
            batch = self._original()()
            if self.turn.shares:
                ranks.part = self.turn.parts.pop(0)
            return batch
        with ranks.in_common():  # a stream shuffles as it is read
            batch = self._original()()
        if not self.turn.shares:
            return batch
        if way == "stream":
            count, whole, batch = batch
        else:
            count, whole, batch = _sliced(ranks, batch)
        ranks.part = int(count), int(whole)
        return batch


def _sliced(ranks, batch):
    """This rank's part of a batch that was made elsewhere; all of it where its parts are not samples side by side."""
    torch = ranks.torch
    leaves, form = torch.utils._pytree.tree_flatten(batch)
    sizes = {leaf.shape[0] if isinstance(leaf, torch.Tensor) and leaf.dim() else 0 for leaf in leaves}
    if len(sizes) != 1 or 0 in sizes:
        return 1, ranks.samples.size, batch
    parts = [part_of(leaf, ranks.samples.number, ranks.samples.size) for leaf in leaves]
    return parts[0][1], sizes.pop(), torch.utils._pytree.tree_unflatten([part for part, _ in parts], form)


class _Part:
    """Collates this rank's samples of a batch that all ranks read."""

    def __init__(self, original, number, world, acts=False):
        self._original, self._number, self._world, self.acts = original, number, world, acts

    def for_loop(self, acts):
        """The same for another loop, which trains or does not."""
        return _Part(self._original, self._number, self._world, acts)

    def __call__(self, samples):
        if not self.acts:
            return self._original(samples)
        mine, count = part_of(samples, self._number, self._world)
        return count, len(samples), self._original(mine)


class _Seed:
    """Gives the processes that read for one rank other random numbers than those of another."""

    def __init__(self, original, number):
        self._original, self._number = original, number

    def __call__(self, worker):
        torch, numpy = sys.modules["torch"], sys.modules.get("numpy")
        if self._number:
            seed = (torch.initial_seed() + 1000003 * self._number) % 2**63
            torch.manual_seed(seed)
            random.seed(seed)
            if numpy is not None:
                numpy.random.seed(seed % 2**32)
        if self._original is not None:
            self._original(worker)
