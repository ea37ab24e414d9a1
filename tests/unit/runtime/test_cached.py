"""What PyTorch's caching allocator reserves, by its own rules."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.runtime import FILES

sys.path.insert(0, str(FILES))

from modak_runtime.memory import cached
from modak_runtime.memory.cached import Cache
from modak_runtime.memory.heap import Heap

sys.path.remove(str(FILES))

KIB, MIB = 1 << 10, 1 << 20


@pytest.mark.parametrize(
    ("sizes", "reserved"),
    [
        ([1], 2 * MIB),
        ([MIB, MIB], 2 * MIB),
        ([MIB, MIB, 1], 4 * MIB),
        ([MIB + 1], 20 * MIB),
        ([10 * MIB - 512, 10 * MIB - 512], 20 * MIB),  # the second one takes what is left of the first one's segment
        ([10 * MIB], 10 * MIB),
        ([11 * MIB - 512], 12 * MIB),
        ([19 * MIB, 2 * MIB], 20 * MIB + 20 * MIB),  # a mebibyte that is left is not split off
        ([33 * MIB], 34 * MIB),
    ],
)
def test_segments(sizes, reserved):
    cache = Cache()
    for size in sizes:
        cache.allocate(size)
    assert cache.reserved == reserved


def test_the_smallest_hole_that_fits_is_taken_and_neighbours_grow_together():
    cache = Cache()
    large, small = cache.allocate(40 * MIB), cache.allocate(30 * MIB)
    cache.release(large)
    cache.release(small)
    first = cache.allocate(28 * MIB)  # of the 30
    second = cache.allocate(32 * MIB)  # of the 40
    assert cache.reserved == 70 * MIB
    third = cache.allocate(8 * MIB)  # the rest of the 40
    assert cache.reserved == 70 * MIB
    for each in (second, third, first):
        cache.release(each)
    cache.allocate(40 * MIB)
    assert cache.reserved == 70 * MIB


@given(st.lists(st.tuples(st.integers(1, 40 * MIB), st.booleans()), max_size=40))
def test_what_is_reserved_holds_what_is_there_and_is_whole_again_when_nothing_is(asked):
    """Asked for again in the same order it may not be enough: the best fit can be a hole that a later one wants."""
    cache, held, alive = Cache(), [], 0
    for size, is_kept in asked:
        block = cache.allocate(size)
        assert block.size >= size
        alive += block.size
        assert cache.reserved >= alive
        if is_kept:
            held.append(block)
        else:
            alive -= block.size
            cache.release(block)
    for block in held:
        cache.release(block)
    reserved, segments = cache.reserved, [block for free in cache._free.values() for *_, block in free]
    assert sum(block.size for block in segments) == reserved
    assert all(block.before is None and block.after is None for block in segments)
    for size, _ in asked:
        cache.release(cache.allocate(size))  # each by itself finds room
    assert cache.reserved == reserved


def test_a_hole_that_is_taken_by_the_best_fit_may_be_missed_later():
    cache, reserved = Cache(), []
    for _ in range(2):
        blocks = [cache.allocate(size) for size in (7757825, 4824577, 4824577, 11321345)]
        for block in blocks:
            cache.release(block)
        reserved.append(cache.reserved // MIB)
    assert reserved == [32, 44]


def test_peaks_of_loops():
    heap = Heap(cached.peaks)
    heap.at(0, 1)
    model = heap.allocate(30 * MIB)
    heap.at(1, 1)
    for _ in range(3):
        heap.release(heap.allocate(50 * MIB))
    heap.at(2, 1)
    heap.release(model)
    assert heap.peaks() == {(0, 1): 30 * MIB, (1, 1): 80 * MIB, (2, 1): 80 * MIB}
