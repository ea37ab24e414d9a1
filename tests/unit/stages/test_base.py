"""A deployment's record, which two deploys of one plan may write at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from modak_ansible.errors import ModakError
from modak_ansible.stages.base import Record, noted


def test_nothing_is_lost_that_two_note_at_once(tmp_path):
    record = Record(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: record.note_stage(f"stage {number}", state="done"), range(100)))
        list(pool.map(lambda number: record.update(**{f"value {number}": number}), range(100)))
    state = record.read()
    assert len(state["stages"]) == 100
    assert [state[f"value {number}"] for number in range(100)] == list(range(100))


def test_a_failure_that_cannot_be_noted_is_told_all_the_same(make_stage, monkeypatch):
    def no(*_, **__):
        raise OSError(28, "No space left on device")

    stage, _ = make_stage(None)
    monkeypatch.setattr(Record, "note_stage", no)
    with pytest.raises(ModakError, match="the disk is full on this machine"), noted(stage, "results"):
        raise ModakError("the disk is full on this machine")
