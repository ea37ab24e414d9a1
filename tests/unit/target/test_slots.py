"""How many builds go on at once."""

from __future__ import annotations

import threading
import time

import pytest

from modak_ansible.target.core import slots


def test_no_more_builds_go_on_than_may(tmp_path, monkeypatch):
    monkeypatch.setattr(slots, "_PAUSE", 0.01)
    running, most, told = [], [], []

    def build(number):
        with slots.build_slot(tmp_path, lambda: told.append(number)):
            running.append(number)
            most.append(len(running))
            time.sleep(0.05)
            running.remove(number)

    threads = [threading.Thread(target=build, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(most), max(most)) == (6, slots.BUILDS)
    assert 1 <= len(told) == len(set(told)) <= 6 - slots.BUILDS + 1


def test_a_build_that_fails_makes_room(tmp_path):
    for _ in range(slots.BUILDS + 1):
        with pytest.raises(ValueError, match="broken"), slots.build_slot(tmp_path, lambda: None):
            raise ValueError("broken")
