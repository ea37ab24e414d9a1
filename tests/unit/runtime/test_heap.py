"""What an allocator keeps, by what is asked of it."""

from __future__ import annotations

import sys

from hypothesis import given
from hypothesis import strategies as st

from modak_ansible.runtime import FILES

sys.path.insert(0, str(FILES))

from modak_runtime.memory.heap import Heap

sys.path.remove(str(FILES))

MIB = 1 << 20


def test_what_is_large_goes_back_at_once():
    heap = Heap()
    place = heap.allocate(64 * MIB)
    assert 64 * MIB <= heap.resident < 65 * MIB
    heap.release(*place)
    assert (heap.resident, heap.peak > 64 * MIB) == (0, True)


def test_what_was_given_back_raises_what_counts_as_large():
    heap = Heap()
    heap.release(*heap.allocate(8 * MIB))
    heap.release(*heap.allocate(4 * MIB))
    assert heap.resident > 4 * MIB  # it stays for the next one
    before = heap.resident
    heap.release(*heap.allocate(3 * MIB))
    assert heap.resident == before


def test_what_is_large_stays_so_once_it_is_said():
    heap = Heap()
    heap.return_from(MIB)
    for _ in range(2):  # the first one does not raise what counts as large
        heap.release(*heap.allocate(8 * MIB))
        assert heap.resident == 0
    heap.release(*heap.allocate(MIB // 2))
    assert heap.resident > 0


def test_a_hole_between_others_stays():
    heap = Heap()
    heap.release(*heap.allocate(30 * MIB))
    first, _last = heap.allocate(10 * MIB), heap.allocate(10 * MIB)
    heap.release(*first)
    assert heap.resident > 20 * MIB
    heap.allocate(5 * MIB)
    assert heap.resident < 21 * MIB


@given(st.lists(st.tuples(st.integers(1, 48 * MIB), st.integers(0, 5)), max_size=60))
def test_resident_is_what_is_used_and_at_most_what_was(requests):
    heap, used = Heap(), []
    for size, keep in requests:
        used.append((size, heap.allocate(size)))
        assert heap.resident >= sum(size for size, _ in used)
        if not keep:
            heap.release(*used.pop(0)[1])
    peak = heap.peak
    for _, place in used:
        heap.release(*place)
    heap.step_ends()
    assert 0 <= heap.resident <= peak
    assert heap.mapped == 0
