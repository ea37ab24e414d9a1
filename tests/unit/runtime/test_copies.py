"""Copies of a process that answer its questions."""

from __future__ import annotations

import os
import signal
import sys
import time

import pytest

from modak_ansible.runtime import FILES

sys.path.insert(0, str(FILES))

from modak_runtime.memory.copies import Copies, Copy, Found, _at_a_time, begun, from_copy

sys.path.remove(str(FILES))

pytestmark = pytest.mark.component


def test_a_copy_answers_until_it_has_ended():
    copy = Copy(lambda *words: os._exit(1) if words == ("end",) else [len(words), os.getpid()])
    count, number = copy.ask("a", {"b": 1})
    assert count == 2
    assert number != os.getpid()
    assert copy.ask() == [0, number]
    assert copy.ask("end") is None
    assert copy.ask() is None
    copy.end()


def test_what_cannot_be_answered_or_said_is_nothing():
    copy = Copy(lambda word: object() if word else 1 / word)
    assert copy.ask(0) is None
    assert copy.ask(1) is None
    copy.end()


def test_an_answer_to_somebody_else_is_left_out():
    copy = Copy(lambda word: word)
    asking = os.fork()
    if not asking:
        os.write(copy._asks, b'["another", ["stale"]]\n')
        os._exit(0)
    os.waitpid(asking, 0)
    assert [copy.ask("mine"), copy.ask("next")] == ["mine", "next"]
    copy.end()


def test_one_answer():
    assert from_copy(lambda: {"a": [1, 2]}) == {"a": [1, 2]}
    assert from_copy(lambda: 1 / 0) is None


def test_one_of_several_copies_finds_for_all(tmp_path):
    found = Found()
    assert found.get(("own", 1), lambda: [1]) == [1]
    assert found.get(("own", 1), lambda: 1 / 0) == [1]
    found.share()

    def find(key):
        def act():
            with (tmp_path / "who").open("a") as file:
                file.write(f"{key} {os.getpid()}\n")
            time.sleep(0.2)
            return key, os.getpid()

        return act

    keys = [("a", 1), ("b", 2), ("own", 1)]
    waiting = [begun(lambda: [found.get(key, find(key)) for key in keys]) for _ in range(3)]
    first, *others = [wait() for wait in waiting]
    assert others == [first, first]
    assert [key for key, _ in first[:2]] == [["a", 1], ["b", 2]]
    assert first[2] == [1]
    assert len((tmp_path / "who").read_text().splitlines()) == 2


def test_what_a_copy_could_not_find_or_tell_another_one_finds():
    found = Found()
    found.share()
    assert from_copy(lambda: found.get("a", lambda: 1 / 0)) is None
    assert from_copy(lambda: found.get("a", lambda: os.kill(os.getpid(), signal.SIGKILL))) is None
    assert from_copy(lambda: found.get("a", lambda: 1)) == 1
    assert found.get("a", lambda: 2) == 1
    os.write(found._file, b"\x80\x04half")
    assert found.get("b", lambda: 3) == 3
    assert from_copy(lambda: [found.get(key, lambda: 4) for key in "abc"]) == [1, 3, 4]


def go_on(groups, size, act):
    """What all copies tell of what ``act`` gives them, and whether this is the process that made them."""
    copies = Copies(groups)
    if copies.name is not None:
        copies.tell(act(*copies.name))
    copies.allow(size)
    return copies.answers()


def test_copies_go_on_by_themselves_and_tell_what_they_found():
    found = go_on([[("a", 0)], [("b", 0), ("b", 1)]], 1 << 20, lambda *name: [*name, os.getpid()])
    assert [[each[:2] for each in group] for group in found] == [[["a", 0]], [["b", 0], ["b", 1]]]
    assert len({each[2] for group in found for each in group} | {os.getpid()}) == 4
    assert go_on([], 0, lambda: None) == []


def test_copies_begin_with_what_was_prepared_for_all():
    prepared = []
    copies = Copies([[("a", 0)], [("b", 0)]], lambda: prepared.append(os.getpid()))
    if copies.name is not None:
        copies.tell(prepared)
    assert prepared == []
    first, second = copies.answers()
    assert first == second
    assert first != [[os.getpid()]]
    assert len(first[0]) == 1


@pytest.mark.parametrize("ending", [lambda: None, lambda: os._exit(1), lambda: os.kill(os.getpid(), signal.SIGKILL)])
def test_a_group_counts_only_if_all_of_it_has_told(ending):
    found = go_on([[("a", 0), ("a", 1)], [("b", 0)]], 0, lambda *name: ending() if name == ("a", 1) else name)
    assert found == [[["b", 0]]]


def test_half_an_answer_is_none():
    copies = Copies([[("a", 0)]])
    if copies.name is not None:
        os.write(copies._tells, b'{"a": ')
        os._exit(0)
    assert copies.answers() == []


@pytest.mark.parametrize(("size", "most"), [(0, 1), (100, 1), (51, 1), (50, 2), (20, 3), (1, 3)])
def test_as_many_begin_as_there_are_cores_and_memory_for(monkeypatch, size, most):
    monkeypatch.setattr("modak_runtime.memory.copies.free_memory", lambda: 100)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _number: {0, 1, 2})
    assert _at_a_time(size) == most


def test_copies_end_with_the_process_that_asked_for_them():
    reading, writing = os.pipe()
    original = os.fork()
    if not original:
        copies = Copies([[("a", 0)]])
        if copies.name is not None:
            os.write(writing, b"begun")
            time.sleep(60)
            os._exit(0)
        copies.allow(0)
        signal.pause()
    os.close(writing)
    assert os.read(reading, 20)
    began = time.monotonic()
    os.kill(original, signal.SIGKILL)
    os.waitpid(original, 0)
    assert os.read(reading, 1) == b""  # nobody has it any more
    assert time.monotonic() - began < 30
