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
def test_what_is_reserved_holds_what_is_there_and_does_not_grow_when_all_is_asked_again(asked):
    cache = Cache()

    def run():
        held, alive = [], 0
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

    run()
    first = cache.reserved
    run()
    assert cache.reserved == first
    assert sum(block.size for free in cache._free.values() for *_, block in free) == first


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
