"""A part of each batch for each rank: the loader stays what it is, its batches, their number and order, too.

A loop that trains gets this rank's samples of every batch; one that evaluates gets all of them in every rank, so that
what it counts is right as it stands. The order is drawn from streams that are the same in all ranks: one process's own.
Loaders that prepare is not given draw from these, too, and give each rank the whole batch.
"""

import contextlib
import functools
import math
import operator
import random
import sys
import threading
import weakref
import zlib

from modak_runtime.parallel import consistency
from modak_runtime.parallel.whole import leaves_of

_OWN, _WHOLE = "own", "whole"  # of a loader that the script shares out itself, and of one that prepare was not given

_NOTHING_LEARNED = (
    "a loop that began with gradients enabled and a model in train() made no backward pass: each rank was given its "
    "part of the batches; within torch.no_grad(), or after eval(), it is given all of them"
)


def share(torch, ranks, loader):
    """Lets a loader give this rank its part; one that the script shares out itself gives what it has."""
    rank_count = ranks.samples.size
    if getattr(loader, "_modak_way", _WHOLE) != _WHOLE:  # prepared before
        return
    if is_shared(torch, loader):
        ranks.rank.say("a loader has a DistributedSampler: it is left to the script")
        _follow(ranks, loader, _OWN, _is_stream(torch, loader))
        return
    is_stream = _is_stream(torch, loader)
    if is_stream:
        way = "stream" if loader.batch_size is not None else "slices"
    else:
        way = "samples" if loader._auto_collation else "slices"
    _follow(ranks, loader, way, way != "samples")
    if 0 < (loader.batch_size or 0) < rank_count:
        words = "a loader's batches have %d samples for %d ranks, some of which compute what counts for nothing"
        loader._modak_words = words % (loader.batch_size, rank_count)
    plain = getattr(torch.utils.data, "default_collate", None)
    loader._modak_drops = way != "slices" and loader.collate_fn is not plain
    ranks.drops = ranks.drops or loader._modak_drops
    if way == "stream":
        loader.collate_fn = _Part(loader.collate_fn, ranks.samples.number, rank_count, loader.batch_size)
    elif not is_stream:
        loader.worker_init_fn = _Seed(loader.worker_init_fn, ranks.samples.number)


def share_no_others(torch, ranks):
    """Has loaders that prepare is not given draw alike in all ranks, each of which gets the whole of a batch."""
    kind = torch.utils.data.DataLoader
    plain = kind.__iter__

    @functools.wraps(plain)
    def __iter__(self):
        if hasattr(self, "_modak_way"):
            return plain(self)
        _follow(ranks, self, _OWN if is_shared(torch, self) else _WHOLE, _is_stream(torch, self))
        return _loop(self, plain)

    kind.__iter__ = __iter__


def _follow(ranks, loader, way, reads_alike):
    """Has a loader go one of the ways; reads_alike: whether what it draws as it reads, it draws alike in all ranks."""
    is_new = not hasattr(loader, "_modak_way")
    loader._modak_ranks, loader._modak_way, loader._modak_reads_alike = ranks, way, reads_alike
    loader._modak_turn, loader._modak_words, loader._modak_drops = None, "", False
    if way == _OWN and not reads_alike:
        loader.worker_init_fn = _Seed(loader.worker_init_fn, ranks.samples.number)
    if is_new:
        loader.__class__ = _shared_class(type(loader))


def _is_stream(torch, loader):
    return isinstance(loader.dataset, torch.utils.data.IterableDataset)


def is_shared(torch, loader):
    """Whether the script shares a loader's samples out itself."""
    samplers = [loader.sampler, getattr(loader.batch_sampler, "sampler", None)]
    return any(isinstance(sampler, torch.utils.data.distributed.DistributedSampler) for sampler in samplers)


def part_of(samples, number, world):
    """This rank's samples of a batch; of one with fewer samples than parts perhaps one that counts for nothing.

    Returns:
        the samples, and how many of them count.
    """
    own_samples = samples[number::world]
    return (own_samples, len(own_samples)) if len(own_samples) else (samples[:1], 0)


_MIXED = (
    "batches are read ahead of their steps, or of several loaders at once, and not all have the same share of samples "
    "in each rank: a step may count as one batch does in place of another; drop_last=True, and batches that the number "
    "of ranks divides, have one share"
)


class _Turn:
    """One loop over a loader, beside which there may be others, such as of a validation in its midst.

    Attributes:
        trains: whether it is taken for one that trains.
        shares: whether what it is given is this rank's part of each batch.
        parts: of the batches that are on their way, how many samples count here, and the numbers of all.
        ahead: whether it was given batches before anything was learned from those before.
        given: batches so far; drawn: a digest of what tells the first one's samples from others.
        arrivals: gradients before it began; behind: before the first step behind it, None where there was none.
        is_over: whether it has had all batches.
        passes: backward passes before the last batch; rows: samples that this rank was given of that.
        pieces: whether models are called with fewer samples; None where it is not known.
        hooks: on models that may be; None before several backward passes were made for a batch.
        stepped: the ids of optimizers that have stepped since the last batch.
    """

    def __init__(self, ranks, way):
        self.trains = ranks.is_training()
        self.shares, self.parts, self.given, self.drawn = self.trains and way != _WHOLE, [], 0, None
        self.arrivals, self.behind, self.is_over, self.ahead = ranks.arrivals, None, False, False
        self.passes, self.rows, self.pieces, self.hooks = ranks.passes, 0, None, None
        self.stepped = set()

    def look_for_pieces(self, ranks):
        """Looks at the calls of models where a batch has several backward passes: they may be of its pieces."""
        new_passes, self.passes = ranks.passes - self.passes, ranks.passes
        self.stepped.clear()
        if new_passes < 2 or self.hooks is not None:
            return

        def called(_model, inputs, options):
            rows = [leaf.shape[0] for leaf in leaves_of((inputs, options)) if getattr(leaf, "ndim", 0)]
            self.pieces = self.pieces or (max(rows) < self.rows if rows else None)

        self.hooks = [model.register_forward_pre_hook(called, with_kwargs=True) for model in ranks.present()[0]]

    def has_pieces(self):
        """Whether there may be as many backward passes for a batch as this rank's samples of it make pieces."""
        return self.hooks is not None and self.pieces is not False

    def ends(self):
        while self.hooks:
            self.hooks.pop().remove()


def _loop(loader, iterate):
    """An iterator over a loader, as ``iterate`` makes it, for a loop that begins now."""
    ranks, way = loader._modak_ranks, loader._modak_way
    turn = loader._modak_turn = _Turn(ranks, way)
    if turn.shares:
        if ranks.turn is not None and not ranks.turn.is_over:  # which was left, or goes on around this one
            consistency.end_loop(ranks, ranks.turn)
        ranks.shares_batches()
        if loader._modak_words:  # of a loader that trains, and once
            ranks.rank.say(loader._modak_words)
            loader._modak_words = ""
    elif way != _WHOLE:
        ranks.meet()
    elif turn.trains:
        ranks.say_once("a loader that prepare was not given gives every rank all of a batch: where it trains, slowly")
    if isinstance(loader.collate_fn, _Part) and loader.collate_fn.acts is not turn.shares:
        loader.collate_fn = loader.collate_fn.for_loop(turn.shares)
        loader._iterator = None  # its processes, where they persist, have the other one
    with ranks.in_common():
        iterator = iterate(loader)
    next_data = getattr(_inner(iterator), "_next_data", None)
    if isinstance(next_data, _Next):  # one that persists begins anew
        next_data.turn = turn
    return iterator


def _shared_class(base):
    """A DataLoader of the same kind that gives what this rank is to have."""

    class Shared(base):
        def __iter__(self):
            return _loop(self, base.__iter__)

        def _get_iterator(self):
            with self._modak_ranks.in_common():  # also where a class of the script's begins its loops later
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
        with self._loader._modak_ranks.in_common():  # some draw all of their order here
            return self._drawn(iter(self._sampler))

    def _drawn(self, iterator):
        while True:
            with self._loader._modak_ranks.in_common():
                try:
                    item = next(iterator)
                except StopIteration:
                    return
            yield item

    def __len__(self):
        return len(self._sampler)


class _Sampler(_Common):
    """One that gives this rank's part of each batch, where the loop trains, and notes how large it is."""

    def __iter__(self):
        return self._parts(self._loader._modak_turn, super().__iter__())

    def _parts(self, turn, batches):
        samples = self._loader._modak_ranks.samples
        for indices in batches:
            if turn.shares:
                if turn.drawn is None:
                    turn.drawn = _digest(indices)
                numbers = list(indices)
                own_numbers, count = part_of(numbers, samples.number, samples.size)
                turn.parts.append((count, numbers))
                yield own_numbers
            else:
                yield indices


def _content(samples, dims):
    """A digest of words, labels and tokens, by which samples are known whatever an augmentation draws.

    Args:
        dims: of the largest tensors that are looked at; those of a single sample's may be pixels.
    """
    leaves = leaves_of(samples)
    is_small = [hasattr(leaf, "tolist") and getattr(leaf, "ndim", dims + 1) <= dims for leaf in leaves]
    plain = [leaf.tolist() if small else leaf for leaf, small in zip(leaves, is_small)]
    return zlib.crc32(repr([leaf for leaf in leaves_of(plain) if isinstance(leaf, (int, str, bytes))]).encode())


def _digest(indices):
    """Of the numbers of a batch's samples; arrays, which have __index__, too, and other keys are no numbers."""
    numbers = []
    for index in indices:
        with contextlib.suppress(TypeError):
            numbers.append(operator.index(index))
    return zlib.crc32(repr(numbers).encode())


class _Next:
    """Takes the next batch, and notes this rank's part of it."""

    def __init__(self, loader, original):
        self._loader, self.turn = loader, loader._modak_turn
        # its iterator has this: held from here, too, it and its processes would outlive a loop that breaks off
        self._original = weakref.WeakMethod(original)

    def __call__(self):
        ranks, turn = self._loader._modak_ranks, self.turn
        if turn.shares and turn.given == 1:
            is_main = threading.current_thread() is threading.main_thread()
            turn.ahead = turn.arrivals == ranks.arrivals or not is_main
            if is_main:
                consistency.look(ranks, turn.drawn)  # behind the first step
        if turn.shares:
            turn.look_for_pieces(ranks)
        turn.given += 1
        try:
            return self._next()
        except StopIteration:
            if turn.shares:
                consistency.end_loop(ranks, turn)
                ranks.meet()
                self._look_back()
                if ranks.turn is turn:  # and no other loop goes on beside it
                    ranks.leaves_batches()
            self._ends()
            raise

    def _look_back(self):
        """Says where a loop has learned nothing: its script evaluates, or keeps batches."""
        ranks, turn = self._loader._modak_ranks, self.turn
        turn.is_over = True
        if turn.arrivals == ranks.arrivals:
            turn.ahead = True
            ranks.say_once(_NOTHING_LEARNED)

    def _ends(self):
        """Takes that a loop is over, or left: behind one that evaluates it is another's batch again."""
        ranks = self._loader._modak_ranks
        self.turn.ends()
        if ranks.looks is self.turn:
            ranks.looks = None

    __del__ = _ends

    def _next(self):
        loader, turn = self._loader, self.turn
        ranks, way, part, cut = loader._modak_ranks, loader._modak_way, (1, loader._modak_ranks.samples.size), None
        with ranks.in_common() if loader._modak_reads_alike else contextlib.nullcontext():
            batch = self._original()()
        if turn.shares and way == "samples":
            own, numbers = turn.parts.pop(0)
            part, cut = (own, len(numbers)), lambda *which: _read(loader, part_of(numbers, *which)[0])
        elif turn.shares and way == "stream":
            *part, drawn, samples, batch = batch
            turn.drawn = turn.drawn or drawn
            cut = samples and (lambda *which: loader.collate_fn.of(samples, *which))
        elif turn.shares and way == "slices":
            whole_batch = batch
            if turn.given == 1:
                turn.drawn = _content(batch, 2)
            *part, batch = _sliced(ranks, batch, ranks.samples.number, ranks.samples.size)
            cut = lambda *which: _sliced(ranks, whole_batch, *which)[-1]  # noqa: E731
        if turn.shares and loader._modak_drops:
            part, batch = self._left_of(part, batch, cut)
            if not part:
                turn.given -= 1  # it has no step
                return batch
        if way == _WHOLE and turn.trains and ranks.has_part() and not ranks.turn.is_over:
            return batch  # beside one that ranks have parts of: as much of it counts as of that
        if not turn.trains:
            ranks.looks = turn
            return batch
        own, total = int(part[0]), int(part[1])
        part, part_count = (own, total), self._parts_alike(total)
        turn.rows = total // part_count if part_count else max(1, own)
        ranks.cuts.append((turn.rows, part_count or ranks.samples.size))
        if part_count:
            consistency.follow_joins(ranks)
            try:
                batch, part = cut(ranks.samples.number % part_count, part_count), ranks.part
            except Exception:  # of any kind: samples that only its own processes can read
                ranks.say_once(_MIXED)
        elif turn.ahead and total == ranks.part[1] and own != ranks.part[0]:  # of which collate_fn has left fewer
            ranks.say_once(_MIXED)
        ranks.turn, ranks.looks, ranks.part = turn, None, part
        return batch

    def _parts_alike(self, total):
        """How many parts a batch is to have for all ranks to have as much of it as of the one before; 0: its own do.

        That one may be learned from together with this one, or behind it; or ranks would make of this one as many
        pieces as it has samples for each. Each part is computed by as many ranks as there are more of them, and all
        of the batch by all where the one before was shared out unevenly: of that each counts as of any part.
        """
        loader, turn = self._loader, self.turn
        ranks, world, previous = loader._modak_ranks, loader._modak_ranks.samples.size, loader._modak_ranks.part[1]
        is_beside = ranks.turn not in (None, turn) and not ranks.turn.is_over
        if total == previous or not (total % world or previous % world):
            return 0
        if not (turn.ahead or is_beside or (turn.given > 1 and turn.has_pieces())):
            return 0
        if total == loader.batch_size:
            ranks.say_once(
                "several ranks compute the same samples of a loader's batches of %d, which are learned from beside "
                "others of %d: batches that the number of ranks divides are faster" % (total, previous)
            )
        return 1 if previous % world or loader._modak_drops else math.gcd(total, world)

    def _left_of(self, part, batch, cut):
        """What collate_fn has left of a batch: a rank that has nothing of it computes all that is left, for nothing.

        Returns:
            how many samples count here, and in all ranks, and the batch; of one of which nothing is left in any rank
            no numbers, and what collate_fn makes of that.
        """
        ranks, (own, total) = self._loader._modak_ranks, part
        count = _rows(batch, max(1, own))
        is_left = count < own and count != 1  # one row may be all of them, as of sequences that are packed into one
        if is_left and ranks.has_parts and not ranks.is_alike:
            ranks.rank.end(
                "collate_fn leaves out samples of a batch, which ddp weighs and %s does not: leave them out of the "
                "dataset" % ranks.strategy
            )
        if not count:
            try:
                batch = cut(0, 1)
            except Exception:  # of any kind: samples that only its own processes can read
                ranks.rank.end(
                    "collate_fn leaves out all of a rank's part of a batch, and the others' cannot be read outside of "
                    "the loader's processes: leave such samples out of the dataset"
                )
            if not _rows(batch, total):
                return (), batch
        return (min(own, count), total), batch


def _rows(batch, most):
    """How many of so many samples a batch has, as far as that shows in it."""
    values = list(batch.values()) if hasattr(batch, "values") and hasattr(batch, "keys") else batch
    values = values if isinstance(values, (list, tuple)) else [values]
    if all(value is None for value in values):
        return 0
    shapes = [
        (len(value),) if isinstance(value, (list, tuple)) else tuple(value.shape[:2])
        for value in values if isinstance(value, (list, tuple)) or hasattr(value, "shape")
    ]  # fmt: skip
    sizes = {shape[0] for shape in shapes if shape}
    is_listed = isinstance(batch, list) and len(batch) == most and not all(hasattr(sample, "shape") for sample in batch)
    is_whole = is_listed or any(most in shape for shape in shapes)  # the latter also where time is before samples
    return most if is_whole or len(sizes) != 1 else min(most, *sizes)


def _read(loader, numbers):
    """A batch of such samples, read by this process."""
    get_items = getattr(loader.dataset, "__getitems__", None)
    return loader.collate_fn(get_items(numbers) if get_items else [loader.dataset[number] for number in numbers])


def _sliced(ranks, batch, number, part_count):
    """A part of a batch that was made elsewhere; all of it where its parts are not samples side by side."""
    torch = ranks.torch
    leaves, form = torch.utils._pytree.tree_flatten(batch)
    sizes = {leaf.shape[0] if isinstance(leaf, torch.Tensor) and leaf.dim() else 0 for leaf in leaves}
    if len(sizes) != 1 or 0 in sizes:
        return 1, ranks.samples.size, batch
    parts = [part_of(leaf, number, part_count) for leaf in leaves]
    return parts[0][1], sizes.pop(), torch.utils._pytree.tree_unflatten([part for part, _ in parts], form)


class _Part:
    """Collates this rank's samples of a batch that all ranks read."""

    def __init__(self, original, number, world, size, acts=False):
        self._original, self._number, self._world, self._size, self.acts = original, number, world, size, acts
        self._is_known = False

    def for_loop(self, acts):
        """The same for another loop, which trains or does not."""
        return _Part(self._original, self._number, self._world, self._size, acts)

    def of(self, samples, number, part_count):
        """One of so many parts of a batch."""
        return self._original(part_of(samples, number, part_count)[0])

    def __call__(self, samples):
        if not self.acts:
            return self._original(samples)
        count = part_of(samples, self._number, self._world)[1]
        drawn = None if self._is_known else _content(samples, 1)
        self._is_known = True
        batch = self.of(samples, self._number, self._world)
        # it may have to be cut into other parts
        is_kept = len(samples) != self._size or not _rows(batch, max(1, count))
        return count, len(samples), drawn, samples if is_kept else None, batch


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
