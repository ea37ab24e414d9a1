"""What malloc keeps, by what is asked of it: of the C library itself, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modak_ansible.runtime import FILES

sys.path.insert(0, str(FILES))

from modak_runtime import malloc
from modak_runtime.memory import heap as heaps
from modak_runtime.memory import replayed
from modak_runtime.memory.heap import Heap
from modak_runtime.memory.replayed import ALLOCATE, KEEP, LABEL, RELEASE

sys.path.remove(str(FILES))

MIB = 1 << 20
NO_CACHES = "glibc.malloc.tcache_count=0"  # what plans set for ranks


def peak_of(heap: Heap) -> float:
    """MiB of the only loop."""
    ((place, peak),) = heap.peaks().items()
    assert place == (0, 1)
    return peak / MIB


def begun() -> Heap:
    heap = Heap()
    heap.at(0, 1)
    return heap


@pytest.mark.component
def test_what_is_large_goes_back_at_once():
    heap = begun()
    for _ in range(3):
        heap.release(heap.allocate(64 * MIB))
    assert 64 <= peak_of(heap) < 66


@pytest.mark.component
def test_a_hole_between_others_stays_and_is_used_again():
    heap = begun()
    heap.release(heap.allocate(30 * MIB))  # from now on what is smaller comes from one heap
    first, _last = heap.allocate(10 * MIB), heap.allocate(10 * MIB)
    heap.release(first)
    heap.allocate(5 * MIB)
    heap.allocate(30 * MIB)  # fits into no hole
    assert 50 <= peak_of(heap) < 52


@pytest.mark.component
def test_what_operators_save_lies_beside_tensors_and_goes_with_them():
    """Small objects of a step take room, and the next step has it again."""
    peaks = []
    for saves, steps in ((False, 1), (True, 1), (True, 3)):
        heap = begun()
        for _ in range(steps):
            kept = []
            for _ in range(100):
                for _ in range(200):
                    heap.ran(saves)
                kept.append(heap.allocate(MIB // 16))
            for each in kept:
                heap.release(each)
        peaks.append(peak_of(heap))
    assert 6 <= peaks[0] < 100 / 16 + 1
    assert 100 / 16 + 5 < peaks[1] < 100 / 16 + 15
    assert peaks[1] <= peaks[2] < peaks[1] + 3


@pytest.mark.component
def test_what_is_large_stays_so_once_it_is_said():
    peaks = []
    for threshold in (0, MIB):
        heap = begun()
        if threshold:
            heap.return_from(threshold)
        heap.release(heap.allocate(8 * MIB))
        first, last = heap.allocate(8 * MIB), heap.allocate(MIB // 2)
        heap.release(first)
        heap.allocate(16 * MIB)
        heap.release(last)
        peaks.append(peak_of(heap))
    assert (round(peaks[0]), round(peaks[1])) == (25, 17)


_BETWEEN_TENSORS = """
import ctypes, os, sys
sys.path.insert(0, sys.argv[1])
from modak_runtime.malloc import keep_small_apart
library, place = ctypes.CDLL(None), ctypes.c_void_p()
library.malloc.restype = library.sbrk.restype = ctypes.c_void_p
library.mallopt(-3, 32 << 20)  # M_MMAP_THRESHOLD: all of it from one heap
keep_small_apart()
begin, tensors = library.sbrk(0), []
for size in (256 << 10, 384 << 10):
    for _ in range((64 << 20) // size):
        assert not library.posix_memalign(ctypes.byref(place), 64, size)
        tensors.append(place.value)
        assert library.malloc(32)
    end = library.sbrk(0)
    while tensors:
        library.free(ctypes.c_void_p(tensors.pop()))
print((end - begin) >> 20)
"""


@pytest.mark.component
@pytest.mark.parametrize(("tunables", "least", "most"), [("", 100, 140), (NO_CACHES, 60, 80)])
def test_small_objects_that_outlive_tensors_part_no_holes_where_they_are_kept_apart(tunables, least, most):
    words = [sys.executable, "-c", _BETWEEN_TENSORS, str(FILES)]
    found = subprocess.run(words, env={"GLIBC_TUNABLES": tunables}, capture_output=True, text=True, check=True)
    assert least <= int(found.stdout) <= most


def test_another_allocator_is_not_asked_to_set_blocks_aside(monkeypatch: pytest.MonkeyPatch):
    asked = []
    monkeypatch.setattr(malloc.ctypes, "CDLL", asked.append)
    monkeypatch.setenv("GLIBC_TUNABLES", NO_CACHES)
    monkeypatch.setenv("LD_PRELOAD", "libtcmalloc_minimal.so.4")
    malloc.keep_small_apart()
    assert asked == []


def test_memory_that_there_is_not_is_left_to_who_needs_it():
    malloc._have_holes_fit(lambda _size: None, lambda _place: None)


@pytest.mark.component
def test_a_replay_sets_blocks_aside_where_its_rank_would(monkeypatch: pytest.MonkeyPatch):
    peaks = []
    for tunables in ("", NO_CACHES):
        monkeypatch.setenv("GLIBC_TUNABLES", tunables)
        heap = begun()
        heap.keep_small_apart()
        heap.allocate(MIB)
        peaks.append(peak_of(heap))
    assert 1 <= peaks[0] < 2
    assert 10 <= peaks[1] < 16


@pytest.mark.component
@pytest.mark.parametrize("before", [0, 16, 32, 48])
def test_what_a_tensor_leaves_fits_another_one_of_its_size_wherever_the_heap_ended(
    monkeypatch: pytest.MonkeyPatch, before: int
):
    monkeypatch.setenv("GLIBC_TUNABLES", NO_CACHES)
    heap = begun()
    heap.allocate(4096 + before)
    heap.keep_small_apart()
    tensors = [heap.allocate(4 * MIB) for _ in range(16)]
    for _ in range(3):
        for index in range(0, 16, 2):
            heap.release(tensors[index])
            tensors[index] = heap.allocate(4 * MIB)
        for index in range(1, 15, 2):
            heap.release(tensors[index])
        for index in range(1, 15, 2):
            tensors[index] = heap.allocate(4 * MIB)
    assert peak_of(heap) < 16 * 4 + 16


@pytest.mark.component
def test_loops_have_peaks_of_their_own_and_batches_of_another_size_leave_nothing_behind():
    heap = Heap()
    heap.at(0, 1)
    kept = heap.allocate(2 * MIB)
    for share in (1, 2):
        heap.at(1, share)
        heap.release(heap.allocate(40 * MIB // share))
    heap.at(2, 1)
    heap.release(kept)
    heap.release(heap.allocate(34 * MIB))
    found = {place: round(peak / MIB) for place, peak in heap.peaks().items()}
    assert found == {(0, 1): 2, (1, 1): 42, (1, 2): 22, (2, 1): 34}


@pytest.mark.component
@settings(max_examples=10)
@given(st.lists(st.tuples(st.integers(1, 48 * MIB), st.booleans()), max_size=60))
def test_a_peak_is_what_is_used_and_at_most_all_that_was_asked_for(requests: list[tuple[int, bool]]):
    heap, used, most = begun(), [], 0
    for size, stays in requests:
        used.append((size, heap.allocate(size)))
        most = max(most, sum(size for size, _ in used))
        if not stays:
            heap.release(used.pop(0)[1])
    everything = sum(size for size, _ in requests)
    assert most / MIB - 0.5 <= peak_of(heap) <= everything / MIB + 1  # the heap is a little larger than what it holds


@pytest.mark.component
def test_an_allocator_that_is_preloaded_is_not_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    fake = tmp_path / "python"
    fake.write_text('#!/bin/sh\necho "${LD_PRELOAD-none}" >&2\nexit 1\n')
    fake.chmod(0o755)
    said: list[bytes] = []
    run = subprocess.run

    def noted(words: list[str], **options: object) -> object:
        try:
            return run(words, **options)
        except subprocess.CalledProcessError as error:
            said.append(error.stderr)
            raise

    monkeypatch.setattr(heaps.sys, "executable", str(fake))
    monkeypatch.setattr(heaps.subprocess, "run", noted)
    monkeypatch.setenv("LD_PRELOAD", "/nowhere/libtcmalloc.so")
    heap = begun()
    heap.allocate(MIB)
    assert (heap.peaks(), set(said)) == ({}, {b"none\n"})


@pytest.mark.component
def test_more_than_the_machine_has_is_counted_and_not_taken():
    heap = begun()
    heap.release(heap.allocate(1 << 58))
    heap.allocate(3 << 57)
    assert peak_of(heap) == pytest.approx((3 << 57) / MIB)


@pytest.mark.component
@pytest.mark.parametrize("executable", ["", "/nowhere/python"])
def test_nobody_can_tell_without_a_python_to_start(monkeypatch: pytest.MonkeyPatch, executable: str):
    monkeypatch.setattr(heaps.sys, "executable", executable)
    heap = begun()
    heap.allocate(MIB)
    assert heap.peaks() == {}


def test_a_replay_that_fails_tells_nothing(monkeypatch: pytest.MonkeyPatch):
    def fails(words: list[str], **_options: object) -> object:
        raise subprocess.CalledProcessError(-9, words)

    monkeypatch.setattr(heaps.subprocess, "run", fails)
    heap = begun()
    heap.allocate(MIB)
    assert heap.peaks() == {}


@given(
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from((1, 2, 8)), st.integers(0, 1 << 40), st.booleans())),
    st.sampled_from((1, 2, 8)),
)
def test_what_is_left_of_a_trace_is_in_order_and_loses_only_what_ended_in_other_batches(
    events: list[tuple[int, int, int, bool]], share: int
):
    heap, held, born = Heap(), [], []
    shares: defaultdict[int, set[int]] = defaultdict(set)
    for loop, its, size, releases in events:
        heap.at(loop, its)
        shares[loop].add(its)
        heap.ran(saves=True)
        held.append(heap.allocate(size))
        born.append((loop, its))
        if releases:
            heap.release(held.pop(0))
    sizes: list[int] = []
    alive: set[int] = set()
    for event in heap._without_shares_but(share):
        kind, value = event & 7, event >> 3
        if kind == ALLOCATE:
            alive.add(len(sizes))
            sizes.append(value)
        elif kind == RELEASE:
            alive.remove(value)  # nothing goes twice, or before it came
        else:
            assert kind in (KEEP, LABEL)
    assert sorted(sizes[each] for each in alive) == sorted(events[each][2] for each in held)
    stays = [
        size
        for (loop, its), (_, _, size, _) in zip(born, events, strict=True)
        if its == share or len(shares[loop]) == 1
    ]
    left = iter(sizes)
    assert all(size in left for size in stays)  # all of it is there, in order


def played(steps: list[tuple[int, bool, bool]], counts: tuple[int, int], *, repeats: bool) -> list[int]:
    """The events of a training, some of whose blocks outlive their steps, and are given back in the next ones.

    Args:
        steps: sizes, whether a block stays until the next step, and whether something is saved before it.
        counts: how many blocks the first step makes besides, and steps in all; the last is a repetition if asked for.
    """
    heap, stays = Heap(), []
    own, step_count = counts
    held = [heap.allocate(size) for size in range(own)]
    places = []
    for number in range(step_count - repeats):
        places.append(heap.so_far)
        held += [heap.allocate(size) for size in range(own)] if number == 0 else []
        before, stays = stays, []
        for size, is_kept, saves in steps:
            heap.ran(saves)
            block = heap.allocate(size)
            if is_kept:
                stays.append(block)
            else:
                heap.release(block)
            if before:
                heap.release(before.pop())
    if repeats:
        places.append(heap.so_far)
        assert heap.repeats(places[-4:])
        heap.repeat(places[-4:])
    for block in [*stays, *held]:
        heap.release(block)
    return list(heap._events)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 99)), max_size=30), st.integers(0, 30))
def test_what_one_heap_was_asked_for_another_is_asked_for_again(acts: list[tuple[int, int]], part: int):
    """In two parts, the second of which gives back what the first has taken."""
    place, there, most, ends = heaps.Place("host", Heap()), [], 0, 0
    for number, (act, size) in enumerate(acts):
        place.heap.at(number, 1)  # labels belong to one heap
        if number == part:
            ends = place.heap.so_far[0]
        if act == 0 and there:
            place.give(*there.pop(size % len(there)))
        elif act == 1:
            place.heap.ran(saves=True)
        else:
            there.append((size, place.take(size)))
            most = max(most, place.now)
    again, blocks = heaps.Place("host", Heap()), []
    before = again.heap.allocate(7)
    asked, rest = place.heap.asked(0), place.heap.asked(ends)
    found = [again.again(each, blocks) for each in (asked[: len(asked) - len(rest)], rest)]
    assert max(found) == most
    assert again.now == place.now
    assert sorted(block[1] - before - 1 for block in blocks if block) == sorted(number for _, number in there)
    events = [event + (8 if event & 7 == RELEASE else 0) for event in asked]
    assert list(again.heap.asked(1)) == events


@given(
    st.lists(st.tuples(st.integers(0, 99), st.booleans(), st.booleans()), max_size=20),
    st.integers(0, 3),
    st.integers(4, 6),
)
def test_a_repeated_step_is_what_another_one_would_have_asked_for(
    steps: list[tuple[int, bool, bool]], own: int, step_count: int
):
    counts = own, step_count
    assert played(steps, counts, repeats=True) == played(steps, counts, repeats=False)


@pytest.mark.parametrize(
    ("changed", "repeats"), [(None, True), ("size", False), ("count", False), ("kept", False), ("older", False)]
)
def test_a_step_that_asks_for_something_else_or_gives_back_what_is_older_does_not_repeat(changed: str, repeats: bool):
    heap = Heap()
    oldest = [heap.allocate(8) for _ in range(4)]
    places, last = [], None
    for number in range(3):
        places.append(heap.so_far)
        differs = number == 2
        if last is not None and not (changed == "kept" and differs):
            heap.release(last)
        last = heap.allocate(16 if changed == "size" and differs else 8)
        if changed == "count" and differs:
            heap.allocate(8)
        if changed == "older":
            heap.release(oldest.pop())
    assert heap.repeats([*places, heap.so_far]) is repeats


@pytest.mark.component
def test_replays_of_a_rank_part_when_it_has_set_blocks_aside(monkeypatch: pytest.MonkeyPatch):
    """They share what came before; what comes behind counts for each, and where one fails, the others do."""
    monkeypatch.setenv("GLIBC_TUNABLES", NO_CACHES)
    heap = begun()
    heap.release(heap.allocate(4 * MIB))
    heap.keep_small_apart()
    for _ in range(100):
        heap.ran(saves=True)
        heap.allocate(MIB // 4)
    replays = heaps._replayed(heap._without_shares_but(1))
    assert len(replays) == 2  # which find the same
    assert all(35 * MIB <= replay[0] < 45 * MIB for replay in replays)


@pytest.mark.parametrize(
    ("second", "is_close"),
    [([0, 1000, 1, 2000], True), ([0, 1004, 1, 1991], True), ([0, 1000, 1, 2020], False), ([0, 1000], False)],
)
def test_a_third_replay_is_one_too_many_where_two_find_the_same(second: list[int], is_close: bool):
    assert replayed._are_close([0, 1000, 1, 2000], second) is is_close


@pytest.mark.component
def test_ranks_that_begin_alike_are_replayed_by_one_process(monkeypatch: pytest.MonkeyPatch):
    """It answers several in turn as a process of their own would, but not one that begins otherwise, and then ends."""
    monkeypatch.setenv("GLIBC_TUNABLES", NO_CACHES)

    def asked(first: int, sizes: list[int]) -> Heap:
        heap = begun()
        heap.allocate(first)
        heap.keep_small_apart()
        for size in sizes:
            heap.ran(saves=True)
            heap.allocate(size)
        return heap

    alike = [asked(4 * MIB, [MIB // 4] * count) for count in (100, 20, 60)]
    alone = [peak_of(heap) for heap in alike]
    monkeypatch.setattr(heaps._Service, "asks", None)  # as it is again behind this test
    heaps.serve_copies()
    assert [peak_of(heap) for heap in alike] == pytest.approx(alone, abs=0.3)
    assert all(heaps._served(heap._events) for heap in alike)
    other = asked(5 * MIB, [MIB])
    assert heaps._served(other._events) == b""
    assert 6 <= peak_of(other) < 20
    heaps._Service.asks.close()
    assert heaps._served(alike[0]._events) == b""
    assert peak_of(alike[0]) == pytest.approx(alone[0], abs=0.3)


@pytest.mark.parametrize(
    ("acts", "is_closed"),
    [("", True), ("ar", True), ("aarr", True), ("a", False), ("arr", False), ("aor", False), ("aro", False)],
)
def test_what_leaves_nothing_behind_can_be_asked_again(acts: str, is_closed: bool):
    """Of blocks that are taken (a), given back (r), and of an older one that is (o)."""
    heap = Heap()
    older, own = heap.allocate(1), []
    events, blocks = heap.so_far
    for act in acts:
        if act == "a":
            own.append(heap.allocate(8))
        elif act == "r" and own:
            heap.release(own.pop())
        else:
            heap.release(older)
    assert heaps.is_closed(heap.asked(events, blocks)) is is_closed
