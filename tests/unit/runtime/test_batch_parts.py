"""Loaders whose batches ranks share out, by stand-ins for those of PyTorch."""

from __future__ import annotations

import contextlib
import gc
import itertools
import sys
import weakref
from collections import deque
from copy import copy
from types import SimpleNamespace

import pytest

from modak_ansible.runtime import FILES

sys.path.insert(0, str(FILES))

from modak_runtime.parallel import batch_parts

TORCH = SimpleNamespace(
    overrides=SimpleNamespace(TorchFunctionMode=object, _len_torch_function_stack=int, _push_mode=lambda _: None),
    compiler=SimpleNamespace(),
    utils=SimpleNamespace(
        data=SimpleNamespace(
            IterableDataset=type("Stream", (), {}),
            default_collate=list,
            distributed=SimpleNamespace(DistributedSampler=type("Own", (), {})),
        )
    ),
)


class Batches:
    """A loop over a loader, which reads ahead."""

    def __init__(self, loader):
        self._rows = iter(loader._index_sampler)
        self._ahead = deque([next(self._rows), next(self._rows)])

    def _next_data(self):
        self._ahead.extend([each for each in [next(self._rows, None)] if each])
        if not self._ahead:
            raise StopIteration
        return self._ahead.popleft()

    def __iter__(self):
        return self

    def __next__(self):
        return self._next_data()


class Loader:
    """Four batches of numbers."""

    def __init__(self):
        self.dataset, self.sampler, self.batch_size, self._auto_collation = range(20), None, 2, True
        self.batch_sampler, self.collate_fn, self.worker_init_fn = [[0, 1], [2, 3], [4, 5], [6]], list, None

    def __iter__(self):
        return self._get_iterator()

    def _get_iterator(self):
        return Batches(self)

    @property
    def _index_sampler(self):
        return self.batch_sampler


class Persisting(Loader):
    """One of a stream, which is read by a process that persists, with what it had when it began."""

    def __init__(self):
        super().__init__()
        self.dataset, self._iterator = TORCH.utils.data.IterableDataset(), None

    def __iter__(self):
        self._iterator = self._iterator or self._get_iterator()
        self._iterator.begin()
        return self._iterator

    def _get_iterator(self):
        return Process(self)


class Process(Batches):
    def __init__(self, loader):
        self._loader, self._collate = loader, copy(loader.collate_fn)

    def begin(self):
        self._rows = iter(self._loader._index_sampler)

    def _next_data(self):
        return self._collate(next(self._rows))


class Around:
    """What a library puts around PyTorch's own iterator."""

    def __init__(self, iterator):
        self.iterator = iterator

    def __iter__(self):
        return self

    def __next__(self):
        return next(self.iterator)


class OfALibrary(Loader):
    def _get_iterator(self):
        return Around(super()._get_iterator())


class Model:
    """One whose calls may be looked at."""

    def __init__(self):
        self.hooks = []

    def register_forward_pre_hook(self, hook, with_kwargs):
        self.hooks.append(hook)
        return SimpleNamespace(remove=lambda: self.hooks.remove(hook))

    def called_with(self, rows):
        for each in self.hooks:
            each(self, (SimpleNamespace(shape=(rows, 3), ndim=2),), {})


class Ranks:
    """The second of two."""

    def __init__(self):
        self.samples, self.part, self.trains = SimpleNamespace(number=1, size=2), (1, 2), True
        self.in_common, self.meet, self.apart, self.left = contextlib.nullcontext, lambda: None, 0, 0
        self.said, self.turn, self.looks, self.has_parts, self.torch = [], None, None, True, TORCH
        self._arrivals, self.passes = itertools.count(), 0
        self.rank, self.drops, self.is_alike = SimpleNamespace(say=self.said.append, end=pytest.fail), False, True
        self.model, self.cuts = Model(), []

    def is_training(self):
        return self.trains

    def present(self):
        return [self.model], []

    def is_whole(self):
        """It has nothing to compare."""
        return False

    def has_part(self):
        return self.turn is not None and self.turn.shares and self.looks is None

    @property
    def arrivals(self):
        """Its loops learn something."""
        return next(self._arrivals)

    def shares_batches(self):
        self.apart += 1

    def leaves_batches(self):
        self.left += 1

    def say_once(self, words):
        self.said.append(words)


def shared(kind=Loader, many=2):
    ranks, loader = Ranks(), kind()
    ranks.samples.size = many
    batch_parts.share(TORCH, ranks, loader)
    return ranks, loader


def test_loops_over_one_loader_at_once_have_parts_of_their_own():
    ranks, loader = shared()
    pairs = list(zip(loader, loader, strict=True))
    assert pairs == [([1], [1]), ([3], [3]), ([5], [5]), ([6], [6])]
    assert ranks.part == (1, 2)  # of the last batch all ranks have the sample, which counts as those before do


def test_a_validation_in_the_midst_of_a_loop_takes_nothing_from_it():
    ranks, loader = shared()
    seen = []
    for number, batch in enumerate(loader):
        seen.append((batch, ranks.part))
        if number == 1:
            ranks.trains = False
            assert list(loader) == [[0, 1], [2, 3], [4, 5], [6]]
            ranks.trains = True
    assert seen == [([1], (1, 2)), ([3], (1, 2)), ([5], (1, 2)), ([6], (0, 1))]


def test_an_iterator_within_another_is_found():
    ranks, loader = shared(OfALibrary)
    assert list(loader) == [[1], [3], [5], [6]]
    assert ranks.part == (0, 1)


@pytest.mark.parametrize("trains", [True, False])
def test_processes_that_persist_give_a_part_to_loops_that_train_and_all_to_others(trains):
    ranks, loader = shared(Persisting)
    parts, whole = [[1], [3], [5], [6]], [[0, 1], [2, 3], [4, 5], [6]]
    for ranks.trains in (trains, trains, not trains, trains):
        assert list(loader) == (parts if ranks.trains else whole)


def test_a_loop_that_is_left_leaves_nothing_behind():
    _, loader = shared()
    gc.disable()
    try:
        loop = iter(loader)
        next(loop)
        left = weakref.ref(loop)
        del loop
        assert left() is None  # with the processes that read for it
    finally:
        gc.enable()


def test_batches_of_fewer_samples_than_ranks_are_told_once_of_a_loader_that_trains():
    ranks, loader = shared(many=3)
    ranks.trains = False
    list(loader)
    assert ranks.said == []
    ranks.trains = True
    assert list(loader) == [[1], [3], [5], [6]]
    list(loader)
    assert ranks.said == [
        "a loader's batches have 2 samples for 3 ranks, some of which compute what counts for nothing"
    ]
    ranks, loader = shared()
    list(loader)
    assert ranks.said == []


def test_ranks_draw_apart_from_the_first_loop_on_that_trains():
    """Before it, and where it is a validation alone that prepare is given, what a script draws is one process's."""
    ranks, loader = shared()
    ranks.trains = False
    assert list(loader) == [[0, 1], [2, 3], [4, 5], [6]]
    assert ranks.apart == 0
    ranks.trains = True
    assert next(iter(loader)) == [1]
    assert ranks.apart == 1


def test_a_sampler_may_draw_its_order_as_it_begins_or_as_it_goes_on():
    ranks, loader = shared()
    drawn, alike = [], []

    @contextlib.contextmanager
    def in_common():
        alike.append(True)
        yield
        alike.pop()

    class AsItBegins:
        def __iter__(self):
            drawn.append(bool(alike))
            return iter([[0, 1], [2, 3], [4, 5], [6]])

    ranks.in_common, loader.batch_sampler = in_common, AsItBegins()
    loader._modak_turn = SimpleNamespace(shares=False)
    assert list(loader._index_sampler) == [[0, 1], [2, 3], [4, 5], [6]]
    assert drawn == [True]


class Clip(list):
    """Numbers of frames, as an array has them: no index, though it has the method."""

    def __index__(self):
        raise TypeError("only integer scalar arrays can be converted to a scalar index")


def test_samples_may_have_arrays_for_numbers():
    ranks, loader = shared()
    loader.batch_sampler = [[Clip([0, 1]), Clip([2, 3])], [Clip([4, 5]), Clip([6])]]
    assert list(loader) == [[[2, 3]], [[6]]]
    assert ranks.turn.drawn is not None


def test_a_loader_beside_one_that_is_shared_out_takes_nothing_from_it(monkeypatch):
    monkeypatch.setattr(TORCH.utils.data, "DataLoader", Loader, raising=False)
    monkeypatch.setattr(Loader, "__iter__", Loader.__iter__)
    ranks, loader = shared()
    batch_parts.share_no_others(TORCH, ranks)
    seen = []
    for _ in loader:
        assert next(iter(Loader())) == [0, 1]
        seen.append((ranks.part, ranks.turn.shares))
    assert seen == [((1, 2), True)] * 3 + [((0, 1), True)]
    assert list(Loader()) == [[0, 1], [2, 3], [4, 5], [6]]
    assert (ranks.part, ranks.turn.shares) == ((1, 2), False)  # behind it it is one that trains


def test_loops_that_are_over_are_let_go():
    ranks, loader = shared()
    list(loader)
    first = weakref.ref(ranks.turn)
    for ranks.trains in (True, False, True):
        list(loader)
    assert first() is None


def test_processes_that_read_what_the_script_shares_out_draw_apart():
    ranks, loader = Ranks(), Loader()
    loader.sampler = TORCH.utils.data.distributed.DistributedSampler()
    batch_parts.share(TORCH, ranks, loader)
    assert isinstance(loader.worker_init_fn, batch_parts._Seed)


def test_a_loader_that_two_calls_are_given_is_shared_out_once():
    ranks, loader = shared()
    batch_parts.share(TORCH, ranks, loader)
    assert list(loader) == [[1], [3], [5], [6]]


def test_what_a_loop_was_given_is_known_until_the_next_batch():
    ranks, loader = shared()
    turns = []
    for number, _ in enumerate(loader):
        turns.append(ranks.turn)
        if number == 1:
            ranks.trains = False
            for _ in loader:
                assert not ranks.has_part()
            assert ranks.has_part() and ranks.turn is turns[0]
            for _ in loader:  # one that is left
                assert not ranks.has_part()
                break
            assert ranks.has_part() and ranks.turn is turns[0]
            ranks.trains = True
    assert turns == [turns[0]] * 4
    assert ranks.turn is turns[0]  # a script may learn from the last batch when it has no other


def test_a_validation_that_began_first_leaves_the_batch_to_the_loop_that_trains():
    ranks, loader = shared()
    ranks.trains = False
    checks = iter(loader)
    ranks.trains = True
    for _ in loader:
        list(checks)
        assert ranks.has_part()


class Stream(Loader):
    """One that is read by this process, and may go by the rank or draw noise."""

    def __init__(self, rank=0, noise=0.0):
        super().__init__()
        self.dataset, self.batch_sampler = TORCH.utils.data.IterableDataset(), []
        for numbers in ((0, 1, 2, 3), (4, 5, 6)):
            self.batch_sampler.append([(noise * number, number + 10 * rank) for number in numbers])

    def _get_iterator(self):
        found = Process(self)
        found.begin()
        return found


def test_streams_that_go_by_the_rank_are_told_from_those_that_draw_noise():
    drawn = []
    for rank, noise in ((0, 0.0), (0, 0.5), (1, 0.0)):
        ranks, loader = Ranks(), Stream(rank, noise)
        batch_parts.share(TORCH, ranks, loader)
        assert [number for batch in loader for _, number in batch] == [each + 10 * rank for each in (1, 3, 5)]
        drawn.append(ranks.turn.drawn)
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize(
    ("batches", "found"),
    [
        ([[0, 1], [2, 3], [4, 5], [6]], [[1], [3], [5], [6]]),
        ([[0, 1], [2, 3, 4, 5]], [[1], [3, 5]]),
        ([[0, 1, 2], [3, 4, 5], [6, 7]], [[1], [4], [6, 7]]),  # as one of three, unevenly shared out, counts
    ],
)
def test_batches_that_are_read_ahead_count_alike(batches, found):
    """One that ranks do not divide is computed by all of them, lest it count as it would not in one process."""
    ranks, loader = shared()
    ranks._arrivals, loader.batch_sampler = itertools.repeat(0), batches
    seen = [(batch, ranks.part) for batch in loader]
    assert [batch for batch, _ in seen] == found
    assert len({own / whole for _, (own, whole) in seen}) == 1
    assert not any("read ahead" in each for each in ranks.said)


def test_batches_that_several_ranks_compute_are_no_larger_than_they_have_to_be():
    ranks, loader = shared(many=4)
    ranks._arrivals, loader.batch_sampler = itertools.repeat(0), [[*range(8)], [*range(8, 14)]]
    assert [(batch, ranks.part) for batch in loader] == [([1, 5], (2, 8)), ([9, 11, 13], (2, 8))]


def test_samples_that_this_process_cannot_read_are_told_of():
    ranks, loader = shared()
    ranks._arrivals, loader.dataset = itertools.repeat(0), None
    assert [(batch, ranks.part) for batch in loader][-1] == ([6], (0, 1))
    assert sum("read ahead of their steps" in each for each in ranks.said) == 1


def test_a_loader_beside_another_has_batches_that_count_as_the_others_do():
    ranks, loader = shared()
    other = Loader()
    other.batch_sampler = [[0, 1, 2], [3, 4, 5]]
    batch_parts.share(TORCH, ranks, other)
    for (first, second), found in zip(zip(loader, other, strict=False), ([0, 1, 2], [3, 4, 5]), strict=True):
        assert (len(first), second, ranks.part) == (1, found, (1, 2))
    assert sum("several ranks compute the same samples" in each for each in ranks.said) == 0  # its size is not known


@pytest.mark.parametrize(("rows", "counts"), [(1, 0.5), (2, 0.0), (None, 0.5)])
def test_pieces_of_a_batch_are_as_many_in_all_ranks(rows, counts):
    """A loop may make several backward passes for a batch without cutting it; where no call is seen, it may cut it."""
    ranks, loader = shared()
    loader.batch_sampler = [[0, 1, 2, 3], [4, 5, 7, 8], [6]]
    seen = []
    for batch in loader:
        seen.append((batch, ranks.part))
        if rows:
            ranks.model.called_with(rows)
        ranks.passes += 2
    assert seen[:2] == [([1, 3], (2, 4)), ([5, 8], (2, 4))]
    batch, (own, whole) = seen[2]
    assert (batch, own / whole) == ([6], counts)
    assert ranks.model.hooks == []


class Dropping(Loader):
    """One whose collate_fn leaves out what is no sample.

    Nothing is left of the first batch, nor of the second rank's part of the second and of the last.
    """

    def __init__(self):
        super().__init__()
        self.dataset = range(-10, 10)
        self.batch_sampler, self.collate_fn = (
            [[4, 3, 2], [11, 3], [10, 11, 12, 13], [14, 5, 16, 17], [18, 1]],
            self.left,
        )

    @staticmethod
    def left(samples):
        found = [each for each in samples if each >= 0]
        return (found, found) if found else None

    def _get_iterator(self):
        found = Reading(self)
        found.begin()
        return found


class Reading(Process):
    def _next_data(self):
        return self._collate([self._loader.dataset[each] for each in next(self._rows)])


def test_what_a_collate_fn_leaves_out_does_not_count():
    """A rank with nothing left computes what the others have; a batch of which all is left out is one process's."""
    ranks, loader = shared(Dropping)
    assert [(batch, ranks.part) for batch in loader] == [
        (None, (1, 2)), (([1], [1]), (0, 2)), (([1, 3], [1, 3]), (2, 4)), (([7], [7]), (1, 4)), (([8], [8]), (0, 2)),
    ]  # fmt: skip
    assert ranks.drops


def test_what_cannot_be_read_again_is_to_be_left_out_of_the_dataset():
    ranks, loader = shared(Dropping)
    loader.dataset = dict(enumerate(loader.dataset))
    loader.dataset.pop(11)
    loader.batch_sampler, ranks.rank.end = [[11, 3]], sys.exit
    with pytest.raises(SystemExit, match="cannot be read outside of the loader's processes"):
        list(loader)


def test_what_is_left_out_is_refused_where_ranks_cannot_weigh_it():
    ranks, loader = shared(Dropping)
    ranks.is_alike, ranks.strategy = False, "fsdp"
    ranks.rank.end = sys.exit
    with pytest.raises(SystemExit, match="which ddp weighs and fsdp does not"):
        list(loader)


@pytest.mark.parametrize(
    ("batch", "found"),
    [
        (None, 0), ((), 0), ((None, None), 0), (([1, 2], [3, 4]), 2), ({"x": [1], "y": [3]}, 1), (([], []), 0),
        ([(1, 2), (3, 4), (5, 6), (7, 8)], 4), (([1] * 9,), 4), (([1] * 3, [1] * 2), 4), (7, 4),
        ((SimpleNamespace(shape=(3, 4)),), 4), ((SimpleNamespace(shape=(3, 5)), 1.5), 3), (SimpleNamespace(shape=()), 4),
    ],
)  # fmt: skip
def test_as_many_samples_are_left_of_four_as_show(batch, found):
    assert batch_parts._rows(batch, 4) == found


class Unprepared(Loader):
    """A loader of a class whose loops begin in a function of its own."""

    def __iter__(self):
        return super().__iter__()


@pytest.mark.parametrize("kind", [Loader, Unprepared])
def test_a_loader_that_prepare_is_not_given_draws_alike_and_gives_all(monkeypatch, kind):
    monkeypatch.setattr(TORCH.utils.data, "DataLoader", Loader, raising=False)
    monkeypatch.setattr(Loader, "__iter__", Loader.__iter__)
    ranks = Ranks()
    batch_parts.share_no_others(TORCH, ranks)
    loader, drawn = kind(), []
    ranks.in_common = lambda: drawn.append(True) or contextlib.nullcontext()
    for _ in range(2):
        ranks.part = 0, 1
        assert list(loader) == [[0, 1], [2, 3], [4, 5], [6]]
        assert (ranks.part, ranks.apart, ranks.turn.shares) == ((1, 2), 0, False)
    assert len(drawn) == 2 * (2 + 6)
    batch_parts.share(TORCH, ranks, loader)
    assert list(loader) == [[1], [3], [5], [6]]
