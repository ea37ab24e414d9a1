"""Copies of a process that answer its questions."""

from __future__ import annotations

import os
import sys

import pytest

from modak_ansible.runtime import FILES

sys.path.insert(0, str(FILES))

from modak_runtime.memory.copies import Copy, from_copy

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
