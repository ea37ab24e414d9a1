"""A deployment's record, which two deploys of one plan may write at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from modak_ansible.stages.base import Record


def test_nothing_is_lost_that_two_note_at_once(tmp_path):
    record = Record(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: record.note_stage(f"stage {number}", state="done"), range(100)))
        list(pool.map(lambda number: record.update(**{f"value {number}": number}), range(100)))
    state = record.read()
    assert len(state["stages"]) == 100
    assert [state[f"value {number}"] for number in range(100)] == list(range(100))
